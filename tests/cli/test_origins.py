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
        ('lock = "enforced"', ["list"], ":2: lock must be one of"),
        ('sources = {shop = "x"}', ["list"], ":2: sources['shop']: url must begin"),
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
