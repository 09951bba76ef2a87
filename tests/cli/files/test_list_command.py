"""`list` tells what is there."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BROKEN = "name: broken\ndescription: x\nparameters: [half"


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ((), ["calculator", "echo", "fetch"]),
        (("--category", "http"), ["fetch"]),
        (("--tag", "text"), ["echo", "fetch"]),
        (("--tag", "text", "--tag", "test"), ["echo"]),
        (("--search", "RETURNS"), ["echo"]),
        (("--search", "calc", "-c", "custom"), ["calculator"]),
        (("--search", "nothing"), []),
    ],
)
def test_list_filters(
    command: Callable[..., Any], words: tuple[str, ...], names: list[str]
) -> None:
    """Filters add up: category, all tags, a word of the text in any case."""
    ended = command("list", "--json", *words)
    assert [tool["name"] for tool in ended.json["tools"]] == names
    assert ended.json["load_errors"] == []
    assert (ended.code, ended.err) == (0, "")


def test_list_prints_a_table(command: Callable[..., Any]) -> None:
    """Through a pipe: a line per tool, its first sentence, tabs between, brackets as they are."""
    ended = command("list")
    assert "3 tools" in ended.out
    assert "Returns the message." in " ".join(ended.out.split())
    assert "Use it to test" not in ended.out
    assert "[bold]" in ended.out
    assert {line.count("\t") for line in ended.out.splitlines()[1:5]} == {4}
    assert "\x1b" not in ended.out


def test_list_tells_of_files_that_were_not_loaded(command: Callable[..., Any], tools: Path) -> None:
    """One short sentence on stderr, whatever is wrong; `--strict` makes it exit code 1."""
    (tools / "broken.yaml").write_text(BROKEN, encoding="utf-8")
    ended = command("list")
    assert ended.code == 0
    assert "3 tools" in ended.out
    assert ended.err == f"1 file could not be loaded; see tool-engine validate {tools}\n"
    assert command("list", "--strict").code == 1
    as_json = command("list", "--json", "--strict")
    assert (as_json.code, as_json.err) == (1, "")
    assert as_json.json["load_errors"][0]["file"].endswith("broken.yaml")


def test_list_reads_sub_folders_when_told(command: Callable[..., Any], tools: Path) -> None:
    """`--recursive` finds a tool in a sub-folder."""
    (tools / "more").mkdir()
    (tools / "more" / "ping.yaml").write_text("name: ping\ndescription: x\n", encoding="utf-8")
    assert len(command("list", "--json").json["tools"]) == 3
    assert len(command("--recursive", "list", "--json").json["tools"]) == 4


def test_list_knows_the_categories(command: Callable[..., Any]) -> None:
    """A category that does not exist is a usage error with the nearest one."""
    ended = command("list", "--category", "htp")
    assert ended.code == 2
    assert "did you mean 'http'?" in ended.err


@pytest.mark.parametrize("state", ["missing", "file"])
def test_a_missing_folder_is_a_usage_error(
    command: Callable[..., Any], tmp_path: Path, state: str
) -> None:
    """The message names the folder and how to name another."""
    path = tmp_path / "nowhere"
    if state == "file":
        path.write_text("", encoding="utf-8")
    ended = command("--tools", str(path), "list", "--json")
    assert ended.code == 2
    assert ended.json["error"]["type"] == "no_tools_folder"
    assert "--tools DIR" in ended.json["error"]["message"]


def test_a_pipe_gets_a_row_a_line_with_tabs(command: Callable[..., Any], tools: Path) -> None:
    """What is piped is never folded: a row of a table is one line, whatever its cells hold."""
    long = "Says it. " * 40 + "\n\tAnd\x1b[31m more."
    text = f"name: wide\ndescription: {json.dumps(long)}\n"
    (tools / "wide.yaml").write_text(text, encoding="utf-8")
    lines = command("list").out.splitlines()
    assert lines[1].split("\t") == ["name", "version", "category", "effect", "description"]
    assert [line.split("\t")[0] for line in lines[2:]] == ["calculator", "echo", "fetch", "wide"]
    assert {line.count("\t") for line in lines[1:]} == {4}
    shown = [line.split("\t") for line in command("show", "wide").out.splitlines()]
    (described,) = [cells for cells in shown if cells[0] == "description"]
    assert described[1] == " ".join(long.replace("\x1b", "\\x1b").split())


GROUP = """\
kind: group
name: talk
tags: [text]
off: [fetch]
permission: ask_once
rules: '{{tool}}'
"""


def test_groups_are_listed(command: Callable[..., Any], tools: Path) -> None:
    """S10: with the tools that belong to them; under a filter, those that hold what it finds."""
    (tools / "talk.yaml").write_text(GROUP, encoding="utf-8")
    assert "1 group" not in command("list", "--search", "calc").out
    out = " ".join(command("list").out.split())
    assert "1 group" in out
    assert "talk 1.0.0 no echo, fetch" in out
    (group,) = command("list", "--json").json["groups"]
    assert (group["name"], group["members"], group["is_enabled"]) == (
        "talk",
        ["echo", "fetch"],
        False,
    )
    assert command("list", "--json", "--category", "http").json["groups"] == [group]
    assert command("list", "--json", "--search", "calc").json["groups"] == []


def test_a_lock_that_is_needed_and_not_there(
    command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With lock: enforce no tool is offered without a lock file, and the list says so."""
    assert "not approved" not in command("list").out
    monkeypatch.setenv("TOOL_ENGINE_LOCK", "enforce")
    ended = command("list")
    assert "3 tools are not approved by" in ended.out
    assert "write it with `tool-engine lock`" in ended.err
