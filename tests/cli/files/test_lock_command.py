"""`lock` writes and checks tools.lock, and the other commands show what it says."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.catalog.approval.lock import ToolLock
from tool_engine.executors.fingerprint import module_hash

Command = Callable[..., Any]


@pytest.fixture
def lock(tools: Path) -> Path:
    return tools.with_name("tools.lock")


def edit(tools: Path, name: str = "echo", old: str = '"1.0.0"', new: str = '"1.0.1"') -> None:
    path = tools / f"{name}.yaml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_lock_approves_all(command: Command, lock: Path) -> None:
    """Without a name it approves what the folder holds; a second time there is nothing to do."""
    ended = command("lock")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines() == [
        "new      calculator 1.0.0",
        "new      echo 1.0.0",
        "new      fetch 1.0.0",
        f"{lock}: 3 tools, 3 new: written",
    ]
    text = lock.read_text(encoding="utf-8")
    assert re.findall(r"^(\w+) = \{", text, re.MULTILINE) == ["calculator", "echo", "fetch"]
    assert command("lock").out == f"{lock}: 3 tools, nothing changed\n"
    assert lock.read_text(encoding="utf-8") == text


def test_check(command: Command, tools: Path, lock: Path) -> None:
    """`--check` writes nothing and ends with 1 while anything differs, so CI can ask."""
    missing = command("lock", "--check")
    assert missing.code == 1
    assert "there is no lock file" in missing.err
    assert not lock.exists()
    command("lock")
    assert command("lock", "--check").code == 0
    edit(tools)
    (tools / "fetch.yaml").unlink()
    (tools / "other.yaml").write_text("name: other\ndescription: x\n", encoding="utf-8")
    before = lock.read_bytes()
    ended = command("lock", "--check")
    assert (ended.code, ended.err) == (1, "")
    assert ended.out.splitlines() == [
        "changed  echo 1.0.0 -> 1.0.1",
        "gone     fetch 1.0.0",
        "new      other 1.0.0",
        f"{lock}: 3 tools, 1 new, 1 changed, 1 gone: not approved",
        (
            "gone is what was approved and no file that loads defines: mend its file, bring it "
            "back, or have it forgotten with tool-engine lock --approve NAME"
        ),
    ]
    assert lock.read_bytes() == before


def test_approve_one(command: Command, tools: Path, lock: Path) -> None:
    """`--approve` concerns the tools that it names and no others; a tool that is gone goes."""
    command("lock")
    edit(tools)
    edit(tools, "fetch", "priority: 2", "priority: 3")
    assert command("lock", "--approve", "echo").out.splitlines() == [
        "changed  echo 1.0.0 -> 1.0.1",
        f"{lock}: 1 tool, 1 changed: written",
    ]
    assert command("lock", "--check").out.splitlines()[0] == "changed  fetch 1.0.0"
    (tools / "fetch.yaml").unlink()
    command("lock", "-a", "fetch")
    assert list(ToolLock.read(str(lock)).tools) == ["calculator", "echo"]
    assert command("lock", "--check").code == 0


def test_approve_the_first(command: Command, lock: Path) -> None:
    """No file is needed to approve the first tool."""
    command("lock", "--approve", "echo")
    assert list(ToolLock.read(str(lock)).tools) == ["echo"]


def test_mistakes(command: Command, tools: Path, lock: Path) -> None:
    """Each says what to do, and the file stays as it was."""
    unknown = command("lock", "--approve", "ecko")
    assert unknown.code == 2
    assert "did you mean 'echo'?" in unknown.err
    both = command("lock", "--check", "--approve", "echo")
    assert both.code == 2
    assert "leave out --approve" in both.err
    assert not lock.exists()
    lock.write_text("broken", encoding="utf-8")
    broken = command("lock", "--approve", "echo")
    assert broken.code == 1
    assert "is no lock file" in broken.err
    assert lock.read_text(encoding="utf-8") == "broken"
    anew = command("lock")
    assert anew.code == 0
    assert "is no lock file" in anew.err
    assert len(ToolLock.read(str(lock)).tools) == 3


def test_broken_files_keep_their_approvals(command: Command, tools: Path, lock: Path) -> None:
    """A file that does not load must not lose its line unnoticed; single tools can be approved."""
    command("lock")
    (tools / "echo.yaml").write_text("name: echo\n", encoding="utf-8")
    edit(tools, "fetch", "priority: 2", "priority: 3")
    before = lock.read_bytes()
    ended = command("lock")
    assert ended.code == 1
    assert "echo.yaml:1:1" in ended.err
    assert "nothing was written: 1 file could not be loaded" in ended.err
    assert lock.read_bytes() == before
    assert command("lock", "--check").code == 1
    assert command("lock", "--approve", "fetch").code == 0
    assert "echo" in ToolLock.read(str(lock)).tools


def test_json(command: Command, tools: Path, lock: Path) -> None:
    """One document with the state of each tool."""
    command("lock", "--approve", "echo")
    edit(tools)
    ended = command("lock", "--check", "--json")
    assert (ended.code, ended.err) == (1, "")
    document = ended.json
    assert (document["file"], document["is_written"]) == (str(lock), False)
    assert document["problem"] is None
    assert document["tools"][1] == {
        "name": "echo",
        "status": "changed",
        "version": "1.0.1",
        "approved_version": "1.0.0",
    }
    assert [each["status"] for each in document["tools"]] == ["new", "changed", "new"]


def test_another_file(command: Command, tmp_path: Path, lock: Path) -> None:
    """`--file` names the lock file, as `lock_file` does in a configuration."""
    other = tmp_path / "approved.toml"
    assert command("lock", "--file", str(other)).code == 0
    assert len(ToolLock.read(str(other)).tools) == 3
    assert not lock.exists()


def test_code_stays_approved(command: Command, tools: Path, lock: Path) -> None:
    """What a program approved of its code is not lost when somebody approves a definition."""
    command("lock")
    known = ToolLock.read(str(lock))
    code = "sha256:" + "a" * 64
    lines = lock.read_text(encoding="utf-8").replace(
        f'"{known.tools["echo"].definition}"',
        f'"{known.tools["echo"].definition}", handler = "{code}"',
    )
    lock.write_text(lines, encoding="utf-8")
    edit(tools)
    command("lock")
    assert ToolLock.read(str(lock)).tools["echo"].handler == code


def test_call_with_an_enforced_lock(
    command: Command, tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`TOOL_ENGINE_LOCK=enforce` holds for `call` and `batch`; without it nothing is asked."""
    command("lock")
    edit(tools)
    assert command("call", "echo", "message=hi").code == 0
    monkeypatch.setenv("TOOL_ENGINE_LOCK", "enforce")
    refused = command("call", "echo", "message=hi")
    assert refused.code == 1
    assert "tool-engine lock --approve echo" in refused.err
    assert command("call", "calculator", "expression=1+2").code == 0
    command("lock", "--approve", "echo")
    assert command("call", "echo", "message=hi").code == 0
    monkeypatch.setenv("TOOL_ENGINE_LOCK", "on")
    wrong = command("call", "echo", "message=hi")
    assert wrong.code == 2
    assert "lock must be one of off, enforce, got 'on'" in wrong.err


def test_list_shows_what_is_not_approved(command: Command, tools: Path, lock: Path) -> None:
    """Where there is a lock file, `list` says which tools it does not approve."""
    assert "approved" not in command("list").out
    assert "lock" not in command("list", "--json").json["tools"][0]
    command("lock")
    edit(tools)
    (tools / "other.yaml").write_text("name: other\ndescription: x\n", encoding="utf-8")
    out = command("list").out
    assert f"2 tools are not approved by {lock}: echo (changed), other (new)" in " ".join(
        out.split()
    ).replace("- ", "")
    document = command("list", "--json").json
    assert {each["name"]: each["lock"] for each in document["tools"]} == {
        "calculator": "approved",
        "echo": "changed",
        "fetch": "approved",
        "other": "new",
    }
    lock.write_text("broken", encoding="utf-8")
    assert "is no lock file" in command("list").err


def test_groups(command: Command, tools: Path, lock: Path) -> None:
    """S10: a group is a line as well, named `group:NAME`: it may be called like a tool."""
    group = "kind: group\nname: echo\ntools: [echo]\n"
    (tools / "web.yaml").write_text(group, encoding="utf-8")
    assert command("lock").out.splitlines()[-2:] == [
        "new      group:echo 1.0.0",
        f"{lock}: 3 tools, 1 group, 4 new: written",
    ]
    assert command("lock", "--check").code == 0
    (tools / "web.yaml").write_text(f"{group}enabled: true\n", encoding="utf-8")
    ended = command("lock", "--check", "--json")
    assert (ended.code, [each["status"] for each in ended.json["tools"]]) == (1, ["approved"] * 3)
    assert [(each["name"], each["status"]) for each in ended.json["groups"]] == [
        ("echo", "changed")
    ]
    told = f"1 group is not approved by {lock}: group:echo (changed)"
    assert told in " ".join(command("list").out.split()).replace("- ", "")
    assert command("list", "--json").json["groups"][0]["lock"] == "changed"
    edit(tools)
    assert command("lock", "--approve", "group:echo").out.splitlines() == [
        "changed  group:echo 1.0.0",
        f"{lock}: 1 group, 1 changed: written",
    ]
    assert [ToolLock.read(str(lock)).tools["echo"].version, command("lock").code] == ["1.0.0", 0]
    (tools / "web.yaml").rename(tools / "web.txt")
    assert "gone     group:echo 1.0.0" in command("lock", "--check").out
    assert command("lock", "--approve", "group:echo").code == 0
    assert ToolLock.read(str(lock)).groups == {}
    (tools / "web.yaml").write_text(group.replace("name: echo", "name: pages"), encoding="utf-8")
    for name, told in (("group:ecko", "the group 'ecko'"), ("pages", "did you mean 'group:pages'")):
        ended = command("lock", "--approve", name)
        assert (ended.code, told in ended.err) == (2, True)


HANDLED = """
name: greet
description: Greets.
entry: {type: builtin, handler: "greeting_of_test:greet"}
"""


@pytest.fixture
def module(tmp_path: Path, tools: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tool whose handler is a function of a module."""
    folder = tmp_path / "code"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "greeting_of_test", raising=False)
    (tools / "greet.yaml").write_text(HANDLED, encoding="utf-8")
    place = folder / "greeting_of_test.py"
    place.write_text("def greet():\n    return 1\n", encoding="utf-8")
    return place


def test_code_that_a_definition_names(
    command: Command, lock: Path, module: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`lock` approves the module behind `module:function`; another one is told, and is not run.

    Looked at: whatever shows or writes approvals (`lock`, `--check`, `--approve`, `list`), and that
    `engine.lock_tools` writes the same.
    """
    command("lock")
    approved = ToolLock.read(str(lock)).tools["greet"].handler
    assert approved == module_hash("greeting_of_test")
    assert command("lock", "--check").code == 0
    module.write_text("def greet():\n    return 'EVIL'\n", encoding="utf-8")
    checked = command("lock", "--check")
    assert checked.code == 1
    assert "changed  greet 1.0.0 (the code of its handler)" in checked.out
    assert "1 tool is not approved" in command("list").out.replace("\n", " ")
    monkeypatch.setenv("TOOL_ENGINE_LOCK", "enforce")
    refused = command("call", "greet")
    assert "1 tool not approved, and not offered; see tool-engine lock --check\n" in refused.err
    assert "tool_quarantined" not in refused.err + refused.out, "no line of the log"
    assert "tool-engine lock --approve greet" in refused.err + refused.out
    command("lock", "--approve", "greet")
    assert "EVIL" in command("call", "greet").out


@pytest.fixture
def plain_import(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules are found as at a command line: pytest's finder asks the path before others do."""
    usual = [each for each in sys.meta_path if "pytest" not in type(each).__module__]
    monkeypatch.setattr(sys, "meta_path", usual)


@pytest.mark.usefixtures("plain_import")
@pytest.mark.parametrize("entry", ["code", "project"])
def test_code_in_two_folders_of_the_path(
    command: Command,
    tools: Path,
    module: Path,
    monkeypatch: pytest.MonkeyPatch,
    entry: str,
) -> None:
    """What was approved is what runs, wherever the project's folder stands on Python's path.

    Looked at: the project behind another folder of the path, and not on it; what runs tools, and
    `--app`, which puts the current folder first.
    """
    approved = tools.with_name(module.name)
    approved.write_text("def greet():\n    return 'approved'\n", encoding="utf-8")
    module.write_text("def greet():\n    return 'EVIL'\n", encoding="utf-8")
    path = [each for each in sys.path if each != str(tools.parent)]
    monkeypatch.setattr(sys, "path", [*path, str(tools.parent)] if entry == "project" else path)
    # Another test of this process may have imported a module of this name.
    monkeypatch.delitem(sys.modules, module.stem, raising=False)
    command("lock")
    monkeypatch.setenv("TOOL_ENGINE_LOCK", "enforce")
    assert "approved" in command("call", "greet").out


@pytest.mark.usefixtures("plain_import")
def test_the_app_finds_what_it_imports(
    command: Command, tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine of `--app` approves the code that it imports: the current folder is first."""
    other = tmp_path / "elsewhere"
    other.mkdir()
    monkeypatch.chdir(other)
    (tools / "greet.yaml").write_text(HANDLED, encoding="utf-8")
    monkeypatch.delitem(sys.modules, "greeting_of_test", raising=False)
    module = tools.with_name("greeting_of_test.py")
    module.write_text("def greet():\n    return 1\n", encoding="utf-8")
    (other / module.name).write_text("def greet():\n    return 'EVIL'\n", encoding="utf-8")
    app = f"""
from tool_engine import ToolEngine, ToolEngineConfig
engine = ToolEngine(ToolEngineConfig({str(tools)!r}, auto_reload=False, lock="enforce"))
"""
    (other / "app_of_test.py").write_text(app, encoding="utf-8")
    command("lock")
    ended = command("test", "greet", "--app", "app_of_test:engine")
    assert "there is no tool 'greet'" in ended.err


def test_code_of_an_older_lock_file(command: Command, lock: Path, module: Path) -> None:
    """A line from before code was approved here is not passed over: it says nothing of the code."""
    command("lock")
    text = lock.read_text(encoding="utf-8")
    code = ToolLock.read(str(lock)).tools["greet"].handler
    lock.write_text(text.replace(f', handler = "{code}"', ""), encoding="utf-8")
    assert ToolLock.read(str(lock)).tools["greet"].handler is None
    assert "(the code of its handler)" in command("lock", "--check").out
    command("lock")
    assert lock.read_text(encoding="utf-8") == text


def test_the_program_approves_the_same(
    command: Command, tools: Path, lock: Path, module: Path
) -> None:
    """`tool-engine lock` and `engine.lock_tools` write the same file."""
    assert module.exists()
    command("lock")
    by_command = ToolLock.read(str(lock)).tools["greet"]
    lock.unlink()

    async def approve() -> None:
        config = ToolEngineConfig(tools_directory=str(tools), auto_reload=False, lock="enforce")
        async with ToolEngine(config) as engine:
            await engine.lock_tools(["greet"])

    asyncio.run(approve())
    assert ToolLock.read(str(lock)).tools["greet"] == by_command


def test_other_programs_read_what_is_not_approved(command: Command, tools: Path) -> None:
    """GitHub, CI servers and code scanning see it at the file; the cure is a command that works."""
    command("lock")
    edit(tools)
    ended = command("lock", "--check", "--format", "github")
    assert ended.code == 1
    (line,) = ended.out.splitlines()
    place = f"::error file={tools / 'echo.yaml'},line=1,title=changed::"
    assert line.startswith(f"{place}echo 1.0.0 -> 1.0.1")
    assert line.endswith("run tool-engine lock --approve echo")
    (result,) = command("lock", "--check", "--format", "sarif").json["runs"][0]["results"]
    assert result["ruleId"] == "changed"
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 1
    assert 'failures="1"' in command("lock", "--check", "--format", "junit").out
    assert command("lock", "--approve", "echo").code == 0
    assert command("lock", "--check", "--format", "github").out == ""


def test_the_line_of_each_definition(command: Command, tools: Path) -> None:
    """Several stand in one file, also a tool and a group of one name: each has its own line."""
    text = "# Two tools, and a group.\nname: one\ndescription: One.\n---\nkind: group\nname: two\n"
    text += "tools: [one]\n---\ndescription: Two.\nname: two\n"
    (tools / "many.yaml").write_text(text)
    command("lock", "--approve", "echo")
    lines = command("lock", "--check", "--format", "github").out.splitlines()
    found = {
        line.partition("::")[2].partition("::")[2].split()[0]: line.partition("line=")[2][:2]
        for line in lines
        if "many.yaml" in line
    }
    assert found == {"one": "2,", "group:two": "6,", "two": "10"}


def test_what_is_wrong_stands_at_its_file_and_in_words(command: Command, tools: Path) -> None:
    """Without a lock file, or with one that is none: the message is the message, not a file."""
    (tools / "broken.yaml").write_text("name: broken\ntimeout: soon\n")
    ended = command("lock", "--check", "--format", "github")
    lines = ended.out.splitlines()
    assert all(line.partition("::error file=")[2].startswith(str(tools)) for line in lines)
    assert not any(line.endswith("::") for line in lines), lines
    assert any(",title=unreadable::there is no lock file" in line for line in lines)
    of_file = [line for line in lines if "broken.yaml" in line.partition("::there")[0]]
    assert [line.partition("line=")[2].partition(",")[0] for line in of_file] == ["1", "2"]
    Path(f"{tools}.lock").write_text("no: lock")
    (said, *_) = [
        each
        for each in command("lock", "--check", "--format", "sarif").json["runs"][0]["results"]
        if "is no lock file" in each["message"]["text"]
    ]
    uri = said["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri.endswith(f"{tools.name}.lock")


def test_report_of_a_broken_file_and_of_one_that_is_gone(command: Command, tools: Path) -> None:
    command("lock")
    (tools / "echo.yaml").write_text("name: echo\n", encoding="utf-8")
    (tools / "fetch.yaml").unlink()
    lines = command("lock", "--check", "--format", "github").out.splitlines()
    assert any("title=unreadable" in line and "echo.yaml" in line for line in lines)
    assert any("title=gone::fetch" in line and "tools.lock" in line for line in lines)


def test_report_only_checks(command: Command) -> None:
    """A report of what was just approved would say nothing."""
    ended = command("lock", "--format", "github")
    assert ended.code == 2
    assert "add --check" in ended.err


@pytest.mark.parametrize("cause", ["broken", "moved"])
def test_what_gone_means(command: Command, tools: Path, cause: str) -> None:
    """Each way out that the report names is one: the file as it was, or nothing of it."""
    assert command("lock").code == 0
    file, text = tools / "echo.yaml", (tools / "echo.yaml").read_text()
    if cause == "broken":
        file.write_text(text + "tols: [\n")
    else:
        file.rename(tools.parent / "elsewhere.yaml")
    checked = command("lock", "--check")
    assert checked.code == 1
    assert "gone     echo" in checked.out
    assert "no file that loads defines: mend its file, bring it back, or" in checked.out
    file.write_text(text)
    assert command("lock", "--check").code == 0
    file.unlink()
    assert command("lock", "--approve", "echo").code == 0
    assert command("lock", "--check").code == 0
