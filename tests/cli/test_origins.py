"""What is wrong with a setting is said of what says it: an option, a variable, a line of a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]
TOOLS = str(Path(__file__).parents[2] / "tools")
WRONG = {
    "tools": ("nowhere", ["list"], "the tools folder 'nowhere' does not exist"),
    "path": ("nowhere", ["list"], "the folder 'nowhere' of Python modules does not exist"),
    "records": ("calls.db", ["history"], "takes the URL of a database"),
    "cluster": (
        "sqlite:///x",
        ["--tools", TOOLS, "list"],
        "cluster: url must begin with postgresql:, got",
    ),
    "source": ("shop", ["list"], "takes NAME=URL"),
    "lock": ("enforced", ["--tools", TOOLS, "call", "echo", "message=x"], "did you mean 'enforce'"),
}
VARIABLES = {"source": "TOOL_ENGINE_SOURCES"}


@pytest.fixture(autouse=True)
def place(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    del command  # it sets variables, which are not to count
    for name in [each for each in os.environ if each.startswith("TOOL_ENGINE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", WRONG)
def test_a_variable_is_named(command: Command, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    value, words, said = WRONG[name]
    variable = VARIABLES.get(name, f"TOOL_ENGINE_{name.upper()}")
    monkeypatch.setenv(variable, value)
    if name == "cluster":
        words = [*words[:2], "cluster", "status"]
    ended = command(*words)
    assert ended.code == 2
    assert ended.err.startswith(f"error: {variable}")
    assert said in ended.err
    assert f"--{name}:" not in ended.err


@pytest.mark.parametrize("name", [name for name in WRONG if name != "lock"])
def test_an_option_is_named(command: Command, name: str) -> None:
    value, words, said = WRONG[name]
    if name == "cluster":
        words = [*words[:2], "cluster", "status"]
    ended = command(f"--{name}", value, *words)
    assert ended.code == 2
    assert ended.err.startswith(f"error: --{name}")
    assert said in ended.err


def test_an_option_of_a_command_is_named(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes before the variable, which is not to blame then."""
    monkeypatch.setenv("TOOL_ENGINE_RECORDS", "none")
    assert command("history", "--records", "calls.db").err.startswith("error: --records takes")


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        ('tools = "nowhere"', ["list"], ":2: the tools folder 'nowhere'"),
        ('path = "nowhere"', ["list"], ":2: the folder 'nowhere' of Python modules"),
        ('records = "sqlite:///no.db"', ["history"], "which tool-engine.toml:2 names"),
        ('lock = "enforced"', ["list"], ":2:1: lock must be one of"),
        ('sources = {shop = "x"}', ["list"], ":2:12: sources['shop']: url must begin"),
        ("max_concurent = 3", ["list"], "did you mean 'max_concurrent' below [concurrency]?"),
        ("bucket_limits = {}", ["list"], "did you mean 'bucket_limits' below [concurrency]?"),
        ('record = "none"', ["list"], "did you mean 'records'?"),
    ],
)
def test_a_line_of_the_settings_is_named(
    command: Command, place: Path, text: str, words: list[str], said: str
) -> None:
    (place / "tool-engine.toml").write_text(f"# settings\n{text}\n")
    ended = command(*words)
    assert ended.code == 2
    assert "tool-engine.toml:2" in ended.err
    assert said in ended.err


def test_the_table_of_limits_in_a_project_file(command: Command, place: Path) -> None:
    (place / "pyproject.toml").write_text("[tool.tool-engine]\nstrategy = 'fifo'\n")
    assert "below [tool.tool-engine.concurrency]?" in command("list").err


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("replies: [{txt: hello}]", "text"),
        ("replys: [{text: hello}]", "replies"),
        ("replies: [{calls: [{nam: echo}]}]", "name"),
        ("replies: [{text: a, expect: {contain: b}}]", "contains"),
    ],
)
def test_an_unknown_key_of_a_script(command: Command, place: Path, text: str, near: str) -> None:
    """The nearest key of the very object in which it stands."""
    (place / "talk.yaml").write_text(text)
    ended = command("--tools", TOOLS, "chat", "--script", "talk.yaml", "hi")
    assert ended.code == 2
    assert f"; did you mean {near!r}?" in ended.err


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.symlink_to("nowhere"), os.mkfifo])
def test_settings_that_are_no_file_are_not_passed_over(
    command: Command, place: Path, make: Callable[[Path], object]
) -> None:
    """A link that leads nowhere, say, has lost the settings that it was made for."""
    make(place / "tool-engine.toml")
    ended = command("--tools", TOOLS, "list")
    assert ended.code == 2
    assert "tool-engine.toml is no file; put the settings there, or move it away" in ended.err


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("TOOL_ENGINE_RECRODS", "TOOL_ENGINE_RECORDS"),
        ("TOOL_ENGINE_TOOL", "TOOL_ENGINE_TOOLS"),
        ("TOOL_ENGINE_MCP", "TOOL_ENGINE_MCP_CONFIG"),
    ],
)
def test_a_variable_of_nearly_the_right_name(
    command: Command, monkeypatch: pytest.MonkeyPatch, name: str, near: str
) -> None:
    """A setting that was meant is never passed over, as in a file of settings."""
    monkeypatch.setenv(name, "x")
    ended = command("--tools", TOOLS, "list")
    assert (ended.code, ended.out) == (2, "")
    assert f"{name}: no setting is read from this variable; did you mean '{near}'?" in ended.err


@pytest.mark.parametrize(("name", "warned"), [("TOOL_ENGINE_DATABASE", 1), ("TOOLS_ENGINE_X", 0)])
def test_another_variable_is_a_warning(
    command: Command, monkeypatch: pytest.MonkeyPatch, name: str, warned: int
) -> None:
    """It may be the project's own; what the engine sets where a tool's command runs is known."""
    monkeypatch.setenv(name, "x")
    monkeypatch.setenv("TOOL_ENGINE_COMMAND", "x")
    ended = command("--tools", TOOLS, "list")
    assert ended.code == 0
    assert ended.err.count("warning: ") == warned
    assert ended.err.count(f"{name}: no setting is read from this variable") == warned


@pytest.mark.parametrize(
    ("word", "words"),
    [
        (
            "tools/echo.yaml",
            "'tools/echo.yaml' is a file, and the name of a tool belongs here: write 'echo'",
        ),
        ("echo.yaml", "'echo.yaml' is no file, and the name of a tool belongs here: write 'echo'"),
        (
            "tools",
            "'tools' is a folder; name a tool of it, as `tool-engine --tools tools list` does",
        ),
        (
            "tools/ecko.yaml",
            "there is no file 'tools/ecko.yaml', and no tool 'ecko' in tools; did you mean 'echo'?",
        ),
        ("more/other.yaml", "write 'other', with --tools more"),
    ],
)
@pytest.mark.parametrize("words_before", [["show"], ["call"], ["test"]])
def test_a_path_in_place_of_a_name(
    command: Command, place: Path, words_before: list[str], word: str, words: str
) -> None:
    """What to write is said, and works."""
    for folder, name in (("tools", "echo"), ("more", "other")):
        (place / folder).mkdir(exist_ok=True)
        text = f"name: {name}\ndescription: d\nentry: {{type: builtin, handler: echo}}\n"
        (place / folder / f"{name}.yaml").write_text(text)
    ended = command(*words_before, word)
    assert ended.code == 2
    assert words in ended.err
