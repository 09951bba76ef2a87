"""`validate` finds every error of every file (U23)."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tool_engine.catalog.definition_files import FileStamp, read_definition
from tool_engine.cli.files.checking import Checker, check_files
from tool_engine.executors.executor_registry import ExecutorRegistry


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_good_folder_is_good(command: Callable[..., Any]) -> None:
    """U23: exit code 0 and a summary; the good files are listed with -v."""
    ended = command("validate")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == "3 files checked, 3 valid, 0 invalid, 0 problems\n"
    verbose = command("validate", "-v").out
    assert "echo.yaml: ok: echo 1.0.0" in verbose


def test_a_tool_of_a_fleet(command: Callable[..., Any], tools: Path) -> None:
    """Whether an engine has a fleet is its settings' affair: the file is right in itself."""
    entry = "{type: custom, handler: 'json:dumps', config: {isolation: ray, max_workers: 2}}"
    write(
        tools,
        "far.yaml",
        "name: far\ndescription: x\nparameters:\n"
        "  - {name: obj, type: string, required: true, description: x}\n"
        f"entry: {entry}\n",
    )
    ended = command("validate")
    assert ended.code == 0
    assert "4 files checked, 4 valid" in ended.out
    assert 'fleet = "auto" in tool-engine.toml' in ended.out
    assert "far" in [tool["name"] for tool in command("list", "--json").json["tools"]]
    assert command("lock").code == 0
    ended = command("call", "far", "obj=x")
    assert (ended.code != 0, 'fleet = "auto" in tool-engine.toml' in ended.err) == (True, True)


def test_every_error_of_every_file_has_its_place(command: Callable[..., Any], tools: Path) -> None:
    """U23: all problems of a file at once, each with file, line, column, path and cure; exit 1."""
    bad = write(
        tools,
        "bad.yaml",
        "name: bad\ndescription: x\ncategry: http\nparameters:\n"
        "  - {name: a, type: strng, description: x}\n",
    )
    worse = write(tools, "worse.yaml", "name: [")
    ended = command("validate")
    assert ended.code == 1
    assert f"{bad}:3:1: categry:" in ended.out
    assert f"{bad}:5:" in ended.out
    assert "did you mean" in ended.out
    assert re.search(rf"{worse}:\d+:\d+: not valid YAML", ended.out)
    assert "5 files checked, 3 valid, 2 invalid" in ended.out


def test_the_json_form_has_the_same_findings(command: Callable[..., Any], tools: Path) -> None:
    """One document with every file, its problems as fields."""
    bad = write(tools, "bad.yaml", "name: bad\ndescription: x\ncategry: http\n")
    ended = command("validate", "--json")
    assert (ended.code, ended.err) == (1, "")
    document = ended.json
    assert (document["checked"], document["valid"], document["invalid"]) == (4, 3, 1)
    found = next(each for each in document["files"] if each["file"] == bad)
    assert found["is_valid"] is False
    assert (found["problems"][0]["line"], found["problems"][0]["column"]) == (3, 1)
    assert found["problems"][0]["path"] == "categry"


def test_an_entry_that_its_executor_refuses_is_found(
    command: Callable[..., Any], tools: Path
) -> None:
    """A mistake in the HTTP request is found before the first call, with line and column."""
    path = write(
        tools,
        "web.yaml",
        "name: web\ndescription: x\nentry:\n  type: http\n  request:\n"
        "    url: https://example.com/{missing}\n",
    )
    ended = command("validate", path)
    assert ended.code == 1
    assert f"{path}:6:" in ended.out
    assert "missing" in ended.out


def test_a_folder_that_is_not_there_is_a_warning(command: Callable[..., Any], tools: Path) -> None:
    """A call names no folder of this computer, so its author learns here which is looked for."""
    text = (
        "name: rd\ndescription: x\nparameters:\n"
        "  - {name: path, type: string, required: true, description: x}\n"
        "entry: {type: builtin, handler: read_file, root: %s}\n"
    )
    file = write(tools, "rd.yaml", text % "data")
    ended = command("validate", file)
    words = f"entry.root: there is no folder {tools / 'data'}; create it, or correct entry.root"
    assert (ended.code, words in ended.out) == (0, True)
    (tools / "data").mkdir()
    assert "warning" not in command("validate", file).out
    write(tools, "rd.yaml", text % "'${env:NO_SUCH_VARIABLE}'")
    assert "warning" not in command("validate", file).out


def test_what_follows_from_a_moved_key_is_not_said(
    command: Callable[..., Any], tools: Path
) -> None:
    """A mapping that only the cure would make has no mistake of its own."""
    entry = "{type: builtin, handler: calculator, headers: {a: b}}"
    file = write(tools, "sum.yaml", f"name: sum\ndescription: x\nentry: {entry}\n")
    (problem,) = check_files([file])[0].problems
    assert problem.path == "entry.headers"


def test_a_handler_that_nothing_runs_is_a_warning(command: Callable[..., Any], tools: Path) -> None:
    """The program that embeds the engine may register it, so it is told and is no error."""
    text = "name: {name}\ndescription: x\nentry: {{type: custom, handler: {handler}}}\n"
    write(tools, "near.yaml", text.format(name="near", handler="calculater"))
    write(tools, "far.yaml", text.format(name="far", handler="zzz"))
    write(tools, "dotted.yaml", text.format(name="dotted", handler="shop.tools.find"))
    ended = command("validate")
    assert ended.code == 0
    assert "nothing installed runs 'calculater'; did you mean 'calculator'?" in ended.out
    assert "nothing installed runs 'zzz'; register it" in ended.out
    assert f"{tools}/far.yaml:3:32: entry.handler: nothing installed" in ended.out
    assert "runs 'shop.tools.find'; did you mean 'shop.tools:find'?" in ended.out


@pytest.mark.parametrize("handler", ["parts_of.one", "parts_of/one.py", "./parts_of/one.py"])
def test_a_python_handler_that_is_a_path_is_an_error(
    command: Callable[..., Any], tools: Path, handler: str
) -> None:
    """No executor has the name of a file or of a module; the cure is applied, and it runs."""
    module = tools.parent / "parts_of" / "one.py"
    module.parent.mkdir()
    module.write_text("def look(text): return text\n", "utf-8")
    text = (
        "name: found\ndescription: x\nparameters:\n"
        "- {name: text, type: string, description: x, required: true}\n"
        "entry: {type: python, handler: HANDLER}\n"
    )
    write(tools, "found.yaml", text.replace("HANDLER", handler))
    ended = command("--path", str(tools.parent), "validate")
    assert ended.code == 1
    cure = re.search(r"did you mean '([^']+)'", ended.out)
    assert cure is not None, ended.out
    write(tools, "found.yaml", text.replace("HANDLER", cure[1]))
    ended = command("--path", str(tools.parent), "call", "found", "text=yes")
    assert (ended.code, ended.out.strip()) == (0, "yes"), ended.err


@pytest.mark.parametrize("entry", ["", "entry: {type: custom}\n", "entry: {type: python}\n"])
def test_a_definition_that_says_nothing_of_a_handler(
    command: Callable[..., Any], tools: Path, entry: str
) -> None:
    """An entry that was forgotten is not an executor whose name is misspelt."""
    write(tools, "bare.yaml", f"name: bare\ndescription: x\n{entry}")
    ended = command("validate")
    assert "entry is missing, or has no handler: add `entry: {" in ended.out
    assert "engine.register_executor('bare'" in ended.out
    called = command("call", "bare")
    assert "entry is missing, or has no handler" in called.out


WORKFLOW = """name: flow
description: x
effect: read
entry:
  type: workflow
  steps:
    - {id: a, tool: echo, params: {mesage: x}}
    - {id: b, tool: ecco, params: {message: x}}
"""


@pytest.mark.parametrize("is_alone", [True, False])
def test_a_workflow_that_does_not_fit_its_neighbours(
    command: Callable[..., Any], tools: Path, is_alone: bool
) -> None:
    """D21: steps are checked against the folder, also when one file alone is checked; a tool that
    is not there may yet be registered, and is a warning."""
    path = write(tools, "flow.yaml", WORKFLOW)
    if is_alone:
        write(tools, "broken.yaml", "name: [")
    ended = command("validate", *([path] if is_alone else []))
    assert ended.code == 1
    assert (
        f"{path}:7:44: entry.steps[0].params.mesage: 'echo' has no parameter 'mesage'" in ended.out
    )
    assert f"warning: {path}:8:21: entry.steps[1].tool: there is no tool 'ecco'" in ended.out
    assert "1 invalid, 2 problems" in ended.out
    write(tools, "flow.yaml", WORKFLOW.replace("mesage", "message").replace("ecco", "echo"))
    assert command("validate", path).code == 0


def test_workflows_that_call_one_another(command: Callable[..., Any], tools: Path) -> None:
    """D21: a circle is a problem of each file in it, and goes when one of them is mended."""
    text = "name: {}\ndescription: x\nentry: {{type: workflow, steps: [{{id: a, tool: {}}}]}}\n"
    paths = [write(tools, f"{a}.yaml", text.format(a, b)) for a, b in ("xy", "yz", "zx")]
    ended = command("validate")
    assert ended.code == 1
    for path in paths:
        assert f"{path}:3:47: entry.steps[0].tool: calls itself without end" in ended.out
    checker = Checker()
    assert len([each for each in checker.check([str(tools)]) if each.problems]) == 3
    write(tools, "z.yaml", text.format("z", "sum").replace("sum", "echo"))
    found = [each for each in checker.check([str(tools)]) if each.problems]
    assert [
        "'echo': missing required parameter 'message' (string)" in str(each) for each in found
    ] == [True]


def test_a_program_without_a_handler_is_no_warning(
    command: Callable[..., Any], tools: Path
) -> None:
    """What its entry says runs it: a name of an executor is not needed."""
    write(tools, "list.yaml", "name: list\ndescription: x\nentry: {type: builtin, argv: [ls]}\n")
    ended = command("validate")
    assert (ended.code, "warning" in ended.out) == (0, False)


def test_a_name_that_two_files_define_is_an_error_in_both(
    command: Callable[..., Any], tools: Path, tmp_path: Path
) -> None:
    """Both files are named; a file is checked once however it is named, and folders are apart."""
    twin = write(tools, "twin.yaml", (tools / "echo.yaml").read_text(encoding="utf-8"))
    echo = str(tools / "echo.yaml")
    for words in ((str(tools), echo), (twin, echo)):
        ended = command("validate", *words)
        assert ended.code == 1
        assert f"{echo}:1:" in ended.out
        assert f"{twin}:1:" in ended.out
        assert ended.out.count("is also defined in") == 2
    other = tmp_path / "other"
    other.mkdir()
    copy = write(other, "echo.yaml", (tools / "echo.yaml").read_text(encoding="utf-8"))
    assert command("validate", echo, copy).code == 0


@pytest.mark.parametrize("words", [("nowhere.yaml",), ("--json", "nowhere")])
def test_a_path_that_is_not_there_is_a_usage_error(
    command: Callable[..., Any], words: tuple[str, ...]
) -> None:
    """A typo in CI does not pass for a success."""
    assert command("validate", *words).code == 2


def test_an_empty_folder_has_no_errors(command: Callable[..., Any], tmp_path: Path) -> None:
    """Nothing to check is said in the summary."""
    empty = tmp_path / "empty"
    empty.mkdir()
    ended = command("validate", str(empty))
    assert (ended.code, ended.out) == (0, "0 files checked, 0 valid, 0 invalid, 0 problems\n")


SEVERAL = """\
name: one
description: x
---
name: two
description: x
entry:
  type: http
  request: {url: "https://example.com/{missing}"}
"""


def test_a_file_of_several_tools_has_all_their_problems(
    command: Callable[..., Any], tools: Path
) -> None:
    """K3: each tool of a file is checked, and a problem has the line of its own tool."""
    path = write(tools, "both.yaml", SEVERAL)
    ended = command("validate", path, "--json")
    found = ended.json["files"][0]
    assert (ended.code, found["tool"], found["tools"]) == (1, None, ["one", "two"])
    assert found["problems"][0]["line"] == 8
    write(tools, "both.yaml", SEVERAL.replace("{missing}", ""))
    assert f"{path}: ok: one 1.0.0, two 1.0.0" in command("validate", path, "-v").out
    twin = write(tools, "twin.yaml", "name: two\ndescription: x\n")
    assert f"{path}:4:7: name: the tool 'two' is also defined in {twin}" in command("validate").out


def test_what_did_not_change_is_read_once(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check after a change costs work for one file, and what is gone is forgotten."""
    read: list[str] = []
    real = read_definition

    def load(path: Any) -> Any:
        read.append(Path(path).name)
        return real(path)

    monkeypatch.setattr("tool_engine.cli.files.checking.read_definition", load)
    for path in tools.iterdir():
        os.utime(path, (1_000_000_000.5, 1_000_000_000.5))
    monkeypatch.setattr(FileStamp, "age", lambda _: 60.0)
    checker = Checker()
    first = checker.check([str(tools)])
    assert sorted(read) == ["calculator.yaml", "echo.yaml", "fetch.yaml"]
    write(tools, "echo.yaml", "name: echo\ndescription: another\n")
    read.clear()
    assert [each.file for each in checker.check([str(tools)])] == [each.file for each in first]
    assert read == ["echo.yaml"]
    (tools / "echo.yaml").unlink()
    assert len(checker.check([str(tools)])) == 2


def test_a_file_that_is_being_written_counts_as_it_was(tools: Path) -> None:
    """No half of a file is judged: it is left out, or stays what it was."""
    checker = Checker()
    before = checker.check([str(tools)])
    write(tools, "echo.yaml", "name: [")
    write(tools, "new.yaml", "name: [")
    now = checker.check([str(tools)], is_busy=lambda file, _: "fetch" not in file)
    assert [each.to_dict() for each in now] == [each.to_dict() for each in before]
    assert {str(tools / name) for name in ("echo.yaml", "new.yaml")} <= checker.busy
    assert sum(bool(each.problems) for each in checker.check([str(tools)])) == 2


def test_what_is_no_file_is_a_problem(command: Callable[..., Any], tools: Path) -> None:
    """A link to nothing is told like any other mistake."""
    (tools / "link.yaml").symlink_to(tools / "nowhere")
    ended = command("validate")
    assert ended.code == 1
    assert "link.yaml" in ended.out


@pytest.mark.parametrize("words", ["validate", "lint", "list", "search echo", "lock"])
def test_a_link_to_itself(command: Callable[..., Any], tools: Path, words: str) -> None:
    """It takes nothing else down, and is a file that cannot be read."""
    (tools / "loop.yaml").symlink_to("loop.yaml")
    ended = command(*words.split())
    said = ended.out + ended.err
    assert "loop.yaml" in said or "1 file could not be loaded" in said
    assert ended.code == (1 if words in ("validate", "lint", "lock") else 0), said


@pytest.mark.parametrize("text", ["", None])
def test_a_file_that_changes_while_it_is_checked(
    tools: Path, text: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A problem is said with its line in the text that was read, whatever became of the file."""
    path = tools / "both.yaml"
    path.write_text(SEVERAL, encoding="utf-8")
    real = ExecutorRegistry.check

    def check(self: ExecutorRegistry, tool: Any) -> Any:
        found = real(self, tool)
        if found and text is None:
            path.unlink(missing_ok=True)
        elif found:
            path.write_text("", encoding="utf-8")
        return found

    monkeypatch.setattr(ExecutorRegistry, "check", check)
    [checked] = check_files([str(path)])
    assert [problem.line for problem in checked.problems] == [8]


GROUP = """\
kind: group
name: text
tools: [echo, ecko]
rules: |
  Use {{tool}}.
"""


def test_groups_are_definitions_too(command: Callable[..., Any], tools: Path) -> None:
    """S10: a group file is checked like any other; a tool that is not there is a warning."""
    path = write(tools, "groups.yaml", f"{GROUP}---\nname: own\ndescription: x\n")
    ended = command("validate", "-v")
    assert ended.code == 0
    assert f"{path}: ok: group text 1.0.0, own 1.0.0" in ended.out
    assert f"warning: {path}:3:15: tools[1]: there is no tool 'ecko'; did you mean" in ended.out
    assert f"warning: {path}:4:8: rules: {{{{tool}}}} stands for nothing" in ended.out
    # What is listed is counted: `0 problems` alone below it would deny it.
    listed = ended.out.count("warning: ")
    assert listed > 1
    assert ended.out.endswith(f" 0 invalid, 0 problems, {listed} warnings\n")
    found = next(e for e in command("validate", "--json").json["files"] if e["file"] == path)
    assert (found["tools"], found["groups"], found["is_valid"]) == (["own"], ["text"], True)


def test_a_group_alone_knows_its_neighbours(command: Callable[..., Any], tools: Path) -> None:
    """S10: the tools beside a file count, also when only that file is checked."""
    path = write(tools, "groups.yaml", "kind: group\nname: text\ntools: [echo]\n")
    ended = command("validate", path)
    assert "warning" not in ended.out
    write(tools, "groups.yaml", "kind: group\nname: text\ntols: [echo]\n")
    broken = command("validate", path)
    assert (broken.code, broken.out.splitlines()[0]) == (
        1,
        f"{path}:3:1: tols: unknown key 'tols'; did you mean 'tools'?",
    )


def test_two_groups_of_one_name(command: Callable[..., Any], tools: Path) -> None:
    """U13: both files are named; a tool may have the name of a group."""
    text = "kind: group\nname: echo\ntools: [echo]\n"
    one, two = write(tools, "one.yaml", text), write(tools, "two.yaml", f"# two\n{text}")
    ended = command("validate")
    assert f"{one}:2:7: name: the group 'echo' is also defined in {two}" in ended.out
    assert f"{two}:3:7: name: the group 'echo' is also defined in {one}" in ended.out
    assert "2 invalid" in ended.out
