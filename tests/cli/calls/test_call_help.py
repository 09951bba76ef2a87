"""`call NAME --help` is about the tool, and a missing name about the tools that there are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize("words", [("--help",), ("-h",), ("message=hi", "--times", "2", "--help")])
def test_the_help_of_a_tool(
    command: Callable[..., Any], tools: Path, words: tuple[str, ...]
) -> None:
    """Its parameters with their rules, a call that can be typed, and where the rest stands."""
    ended = command("call", "echo", *words)
    assert (ended.code, ended.err) == (0, "")
    assert "Returns the message. Use it to test." in ended.out
    assert "message\tstring\tyes" in ended.out
    assert "min: 1 max: 3" in ended.out
    example = next(line for line in ended.out.splitlines() if line.startswith("Example: "))
    assert command(*example.split()[2:]).code == 0
    assert ended.out.endswith("tool-engine call --help\n")


@pytest.mark.parametrize("words", [("--help",), ("nosuch", "--help"), ("--timeout", "2", "-h")])
def test_the_help_of_no_tool_is_that_of_the_command(
    command: Callable[..., Any], tools: Path, words: tuple[str, ...]
) -> None:
    ended = command("call", *words)
    assert (ended.code, ended.err) == (0, "")
    assert "Call one tool." in ended.out


def test_the_help_of_a_tool_in_another_folder(
    command: Callable[..., Any], tools: Path, tmp_path: Path
) -> None:
    """A tool without parameters says so."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "ping.yaml").write_text(
        "name: ping\ndescription: Says it is there.\nentry: {type: builtin, handler: echo}\n"
    )
    named = ("--tools", str(tmp_path / "other"))
    for words in (("call", "ping", "-h", *named), ("call", *named, "ping", "-h")):
        assert "It takes no arguments." in command(*words).out


@pytest.mark.parametrize("name", ["call", "show", "convert"])
def test_a_missing_name_shows_a_tool_that_is_there(
    command: Callable[..., Any], tools: Path, name: str
) -> None:
    """What it says to type can be typed in this folder."""
    ended = command(name)
    assert ended.code == 2
    example = ended.err.partition("; for example: tool-engine ")[2].split()
    assert example[:2] == [name, "calculator"]
    if name == "call":
        assert example[2:] == ["expression=..."]
    else:
        assert command(*example).code == 0
