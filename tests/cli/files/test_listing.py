"""`list`, `show` and `schema` tell what is there."""

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


def test_show_prints_everything_about_a_tool(command: Callable[..., Any]) -> None:
    """Parameters with rules and defaults, entry, limits, and a line to try."""
    ended = command("show", "echo")
    text = " ".join(ended.out.split())
    for part in ("message", "min: 1", "max: 3", ["handler", "builtin"][0], "bucket", "custom"):
        assert part in text
    assert "try: tool-engine call echo message=..." in text


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


def test_show_json_hides_secrets(command: Callable[..., Any]) -> None:
    """The JSON form has the schema, the limits and the entry, whose secrets are hidden."""
    shown = command("show", "fetch", "--json").json
    assert shown["parameters"]["required"] == ["url"]
    assert shown["limits"]["rate"] == "10/s"
    assert shown["limits"]["bucket"] == "web"
    assert shown["limits"]["retry"]["attempts"] == 2
    assert shown["example"] == "tool-engine call fetch url=..."
    assert "secret-value" not in str(shown)
    assert "secret-value" not in command("show", "fetch").out


def test_show_tells_how_calls_are_admitted(command: Callable[..., Any], tools: Path) -> None:
    """`limits` has all of the definition's `concurrency`; a table leaves out what is not set."""
    (tools / "pay.yaml").write_text(
        "name: pay\ndescription: x\nconcurrency:\n  queue_timeout: 3\n  key: conversation_id\n"
        "  key_limit: 2\n  weight: 2\n  collision: reject\n  breaker: {failures: 2, probes: 3}\n",
        encoding="utf-8",
    )
    limits = command("show", "pay", "--json").json["limits"]
    assert (limits["queue_timeout"], limits["weight"]) == (3.0, 2)
    assert (limits["key"], limits["key_limit"]) == ("conversation_id", 2)
    assert limits["collision"] == "reject"
    assert limits["breaker"] == {"failures": 2, "reset_after": 30.0, "probes": 3}
    table = " ".join(command("show", "pay").out.split())
    for part in ("queue_timeout", "3", "conversation_id", "reject", '"failures": 2'):
        assert part in table
    bare = command("show", "echo")
    for name in ("queue_timeout", "key", "collision", "breaker"):
        assert command("show", "echo", "--json").json["limits"][name] is None
        assert name not in bare.out


def test_show_prints_the_findings_of_a_tool(command: Callable[..., Any], tools: Path) -> None:
    """A warning about the definition is shown; a tool without parameters has no table of them."""
    text = "name: odd\ndescription: x\nparameters:\n  - {name: a, type: string, description: x"
    (tools / "odd.yaml").write_text(f"{text}, required: true, default: y}}\n", encoding="utf-8")
    (tools / "bare.yaml").write_text("name: bare\ndescription: x\n", encoding="utf-8")
    assert "odd.yaml:4:" in command("show", "odd").out.replace("\n", "")
    assert "warning:" in command("show", "odd").out
    assert "warning:" in command("validate").out
    assert "parameters" not in command("show", "bare").out


def test_show_of_an_unknown_tool_names_the_nearest(
    command: Callable[..., Any], tools: Path
) -> None:
    """Exit code 2, the nearest name, and that a file could not be loaded: it may be in one."""
    (tools / "broken.yaml").write_text(BROKEN, encoding="utf-8")
    ended = command("show", "ecko")
    assert ended.code == 2
    assert "did you mean 'echo'?" in ended.err
    assert "1 file could not be loaded; see tool-engine validate" in ended.err
    assert "there are: calculator, echo, fetch" in command("show", "zzz").err
    empty = tools / "empty"
    empty.mkdir()
    assert command("--tools", str(empty), "show", "x").err.endswith(f"in {empty}\n")
    as_json = command("show", "ecko", "--json")
    assert as_json.json["error"]["type"] == "tool_not_found"
    assert as_json.err == ""


def test_schema_prints_the_schema_of_a_definition(command: Callable[..., Any]) -> None:
    """One JSON document, with or without `--json`."""
    kinds = command("schema").json["$defs"]
    assert kinds["tool"]["required"] == ["name", "description"]
    assert kinds["group"]["required"] == ["kind", "name"]
    assert command("schema", "--json").out == command("schema").out


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


def test_a_group_is_shown(command: Callable[..., Any], tools: Path) -> None:
    """S10: `show` knows groups; a tool of the same name goes first."""
    (tools / "talk.yaml").write_text(GROUP, encoding="utf-8")
    shown = command("show", "talk", "--json").json
    assert (shown["disabled_tools"], shown["permission"]["execution"]) == (["fetch"], "ask_once")
    ended = command("show", "talk")
    assert (ended.code, "group talk" in ended.out, "warning: " in ended.out) == (0, True, True)
    missing = command("show", "tlk")
    assert (missing.code, "did you mean 'talk'?" in missing.err) == (2, True)


def test_what_sessions_read_of_a_tool_is_shown(command: Callable[..., Any], tools: Path) -> None:
    """S2: who is asked, what is taken and how often it may run stand among the limits."""
    (tools / "own.yaml").write_text(
        "name: own\ndescription: x\npermission: deny\naccepts: []\nmax_uses: 2\n",
        encoding="utf-8",
    )
    limits = command("show", "own", "--json").json["limits"]
    assert limits["permission"] == {"execution": "deny", "result": None}
    assert (limits["accepts"], limits["max_uses"]) == ([], 2)
