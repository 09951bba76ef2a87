"""`diff` tells what an edit means for callers, and stops a build that would break them."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]

TOOL = """\
name: find
version: "1.2.0"
description: Finds things
parameters:
  - {name: query, type: string, required: true, description: What, validation: {max_length: 9}}
"""


def place(folder: Path, name: str, *edits: tuple[str, str], text: str = TOOL) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("edits", "level", "code"),
    [
        ((), "none", 0),
        ((("things", "all things"),), "cosmetic", 0),
        ((("max_length: 9", "max_length: 10"),), "compatible", 0),
        ((("max_length: 9", "max_length: 8"),), "breaking", 1),
        ((("max_length: 9", "max_length: 8"), ("1.2.0", "1.3.0")), "breaking", 1),
        ((("max_length: 9", "max_length: 8"), ("1.2.0", "2.0.0")), "breaking", 0),
        ((("1.2.0", "1.1.0"),), "cosmetic", 0),
    ],
)
def test_only_an_unannounced_break_fails(
    command: Command,
    tmp_path: Path,
    edits: tuple[tuple[str, str], ...],
    level: str,
    code: int,
) -> None:
    """Exit code 1 says: this edit breaks callers, and the version does not tell them."""
    old, new = place(tmp_path / "old", "a.yaml"), place(tmp_path / "new", "a.yaml", *edits)
    ended = command("diff", old, new, "--json")
    assert (ended.code, ended.json["level"], ended.err) == (code, level, "")
    assert ended.json["is_announced"] is (code == 0)
    assert command("diff", old, new).code == code


def test_the_text_names_fields_and_the_cure(command: Command, tmp_path: Path) -> None:
    """A person sees the level of each change, and the version that would announce it."""
    old = place(tmp_path / "old", "a.yaml")
    new = place(tmp_path / "new", "a.yaml", ("max_length: 9", "max_length: 8"), ("What", "Which"))
    text = command("diff", old, new).out
    assert "find 1.2.0: breaking\n  breaking    parameters.query" in text
    assert "cosmetic    parameters.query.description: " in text
    assert "breaking, and '1.2.0' is no major step; make it version 2.0.0" in text
    assert "1 tool compared: 1 breaking, 0 compatible, 0 cosmetic, 0 unchanged" in text
    lower = place(tmp_path / "low", "a.yaml", ("1.2.0", "1.1.0"))
    assert "find 1.2.0 -> 1.1.0: " in command("diff", old, lower).out
    assert "goes down" in command("diff", old, lower).out


def test_folders_are_compared_tool_by_tool(command: Command, tmp_path: Path) -> None:
    """A tool that is gone breaks its callers, unless it was deprecated; a new one does not."""
    old, new = tmp_path / "old", tmp_path / "new"
    place(old, "a.yaml")
    place(old, "b.yaml", ("name: find", "name: gone"))
    place(old, "c.yaml", ("name: find", "name: left\nstatus: deprecated"))
    place(new, "other.yaml")
    place(new, "d.yaml", ("name: find", "name: fresh"))
    ended = command("diff", str(old), str(new), "--format", "json")
    found = {tool["name"]: (tool["status"], tool["level"]) for tool in ended.json["tools"]}
    assert found == {
        "find": ("unchanged", "none"),
        "gone": ("removed", "breaking"),
        "left": ("removed", "compatible"),
        "fresh": ("added", "compatible"),
    }
    assert ended.code == 1
    text = command("diff", str(old), str(new)).out
    assert "gone: removed\n  the tool 'gone' is gone, and was published until now" in text
    assert "find" not in text.splitlines()[0]
    place(new, "b.yaml", ("name: find", "name: gone"))
    assert command("diff", str(old), str(new)).code == 0


def test_two_tools_are_a_pair_whatever_their_names(command: Command, tools: Path) -> None:
    """A renamed tool breaks those who call it by the old name; names of tools are places too."""
    place(tools, "find.yaml")
    place(tools, "seek.yaml", ("name: find", "name: seek"))
    ended = command("diff", "find", "seek", "--json")
    assert ended.json["tools"][0]["changes"][0]["path"] == "name"
    assert ended.code == 1


def test_a_file_may_hold_several_tools(command: Command, tmp_path: Path) -> None:
    """K3: one of two is compared by its name."""
    both = TOOL + "---\n" + TOOL.replace("name: find", "name: seek")
    old = place(tmp_path / "old", "a.yaml", text=both)
    new = place(tmp_path / "new", "a.yaml", ("name: find", "name: seek"))
    found = command("diff", old, new, "--json").json["tools"]
    assert [(tool["name"], tool["status"]) for tool in found] == [
        ("find", "removed"),
        ("seek", "unchanged"),
    ]


@pytest.mark.parametrize(
    ("words", "part", "kind"),
    [
        (("echo", "ecko"), "did you mean 'echo'?", "tool_not_found"),
        (("echo", "no/such"), "there is no file or folder 'no/such'", "no_such_file"),
        (("echo", "echo", "--format", "xml"), "there are: json, text", "usage_error"),
        (("echo", "{tools}/bad.yaml"), "cannot be compared: ", "not_comparable"),
        (("echo", "{tools}/twice"), "rename or remove one", "duplicate_tool"),
    ],
)
def test_what_cannot_be_compared_is_no_difference(
    command: Command, tools: Path, words: tuple[str, ...], part: str, kind: str
) -> None:
    """Exit code 2, apart from the 1 of a breaking edit, so that CI tells the two apart."""
    place(tools, "bad.yaml", text="name: bad\n")
    place(tools / "twice", "a.yaml")
    place(tools / "twice", "b.yaml")
    words = tuple(word.replace("{tools}", str(tools)) for word in words)
    ended = command("diff", *words)
    assert (ended.code, ended.out) == (2, "")
    assert part in ended.err
    assert command("diff", *words, "--json").json["error"]["type"] == kind


def test_secrets_are_not_printed(command: Command, tmp_path: Path) -> None:
    """M8: a header that was and is a secret is compared, and not shown."""
    text = (
        TOOL + "entry: {type: http, request: {url: 'http://a/', headers: {Authorization: abc1}}}\n"
    )
    old = place(tmp_path / "old", "a.yaml", text=text)
    new = place(tmp_path / "new", "a.yaml", ("abc1", "xyz2"), text=text)
    for ended in (command("diff", old, new), command("diff", old, new, "--json")):
        assert "headers" in ended.out
        assert "abc1" not in ended.out
        assert "xyz2" not in ended.out


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def test_a_revision_is_a_place(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is about to be committed is compared with what was: the whole folder, or one file."""
    place(tmp_path / "defs", "a.yaml")
    place(tmp_path / "defs/deep", "b.yaml", ("name: find", "name: seek"))
    (tmp_path / "defs/notes.txt").write_text("no tool", encoding="utf-8")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")
    place(tmp_path / "defs", "a.yaml", ("max_length: 9", "max_length: 8"))
    monkeypatch.chdir(tmp_path)
    folder = command("diff", "HEAD:defs", "defs", "--json")
    assert (folder.code, len(folder.json["tools"])) == (1, 1)
    file = command("diff", "HEAD:./defs/a.yaml", "defs/a.yaml", "--json")
    assert file.json["tools"] == folder.json["tools"]
    assert command("diff", "HEAD:defs", "HEAD:defs/").code == 0
    deep = command("--recursive", "diff", "HEAD:defs", "defs", "--json").json["tools"]
    assert [tool["name"] for tool in deep] == ["find", "seek"]
    monkeypatch.chdir(tmp_path / "defs")
    assert command("diff", "HEAD:a.yaml", "a.yaml").code == 1
