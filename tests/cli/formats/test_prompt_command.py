"""`prompt` prints what a model is told of the tools."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def test_a_text(command: Callable[..., Any], tools: Path) -> None:
    """Text protocols: the whole text for the system prompt, of all enabled tools."""
    draft = (tools / "echo.yaml").read_text().replace("name: echo", "name: hidden\nstatus: draft")
    (tools / "hidden.yaml").write_text(draft)
    ended = command("prompt", "--protocol", "vcp")
    assert (ended.code, ended.err) == (0, "")
    for word in ("<<<[TOOL_DEFINITION]>>>", "「始」echo「末」", "「始」calculator「末」", "fetch"):
        assert word in ended.out
    assert "hidden" not in ended.out
    assert "hidden" in command("prompt", "--protocol", "vcp", "hidden").out


def test_definitions(command: Callable[..., Any]) -> None:
    """Native protocols: the definitions for the request as JSON, in the order of the names."""
    ended = command("prompt", "-p", "anthropic", "fetch", "echo", "fetch")
    assert ended.code == 0
    assert [tool["name"] for tool in json.loads(ended.out)] == ["fetch", "echo"]


def test_what_the_format_cannot_say(command: Callable[..., Any]) -> None:
    """It is told on stderr, and does not get into what is piped."""
    ended = command("prompt", "-p", "gemini", "echo")
    assert json.loads(ended.out)
    assert "rewritten" in ended.err
    facts = command("prompt", "-p", "gemini", "echo", "--json")
    assert facts.err == ""
    assert facts.json["findings"][0]["error_type"] == "rewritten"
    assert facts.json["definitions"] == json.loads(ended.out)
    assert (facts.json["protocol"], facts.json["prompt"]) == ("gemini", "")


def test_another_language(command: Callable[..., Any]) -> None:
    """`--language zh` writes the text in Chinese; native formats have none."""
    english = command("prompt", "-p", "vcp", "echo").out
    chinese = command("prompt", "-p", "vcp", "echo", "--language", "zh").out
    assert chinese != english
    assert "工具" in chinese
    assert command("prompt", "-p", "openai", "--language", "zh").code == 2
    assert command("prompt", "-p", "vcp", "--language", "xx").code == 2


def test_broken_files_are_told(command: Callable[..., Any], tools: Path) -> None:
    """A tool that a model is not told of since its file is broken is not missed in silence."""
    (tools / "broken.yaml").write_text("name: [half", encoding="utf-8")
    assert "1 file could not be loaded" in command("prompt", "-p", "vcp").err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("prompt",), "--protocol"),
        (("prompt", "-p", "opnai"), "did you mean 'openai'"),
        (("prompt", "-p", "openai", "ecko"), "did you mean 'echo'"),
    ],
)
def test_a_wrong_command_line(command: Callable[..., Any], words: Any, said: str) -> None:
    """No protocol, one that nobody has, or a tool that nobody has: 2, and why."""
    ended = command(*words)
    assert ended.code == 2
    assert said in ended.err
