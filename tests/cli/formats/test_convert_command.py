"""`convert` shows one tool in every format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tool_engine.protocols.registry import PROTOCOLS

ODD = """
name: odd.name
description: Has a name that most providers refuse.
entry: {type: builtin, handler: echo}
"""


def test_every_format(command: Callable[..., Any]) -> None:
    """Each protocol and MCP, with what the format cannot say."""
    ended = command("convert", "echo", "--json")
    assert (ended.code, ended.err) == (0, "")
    assert ended.json["tool"] == "echo"
    formats = ended.json["formats"]
    assert list(formats) == [*PROTOCOLS, "mcp"]
    assert formats["openai"]["definition"][0]["function"]["name"] == "echo"
    assert formats["anthropic"]["definition"][0]["input_schema"]["required"] == ["message"]
    assert formats["mcp"]["definition"][0]["annotations"]["readOnlyHint"] is True
    assert "tool_name:「始」echo「末」" in formats["vcp"]["definition"]
    assert formats["gemini"]["findings"]
    shown = command("convert", "echo")
    assert shown.code == 0
    for name in formats:
        assert f"{name}\n" in shown.out
    assert "findings" in shown.out


def test_one_format(command: Callable[..., Any], tools: Path) -> None:
    """`--to` chooses; a name that is sent as another one is told."""
    (tools / "odd.yaml").write_text(ODD, encoding="utf-8")
    ended = command("convert", "odd.name", "--to", "openai", "--to", "vcp", "--json")
    assert ended.code == 0
    assert list(ended.json["formats"]) == ["openai", "vcp"]
    openai = ended.json["formats"]["openai"]
    assert openai["findings"][0]["error_type"] == "renamed"
    assert openai["definition"][0]["function"]["name"].startswith("odd_name_")


def test_a_format_that_cannot_say_the_tool(
    command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One that another package offers and that is broken: the others are shown, it ends with 1."""
    info = tmp_path / "installed" / "odd-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tool_engine.protocols]\nodd = no_such_module:Odd\n")
    monkeypatch.syspath_prepend(str(info.parent))
    ended = command("convert", "echo", "--to", "odd", "--to", "mcp", "--json")
    assert ended.code == 1
    assert "cannot be loaded" in ended.json["formats"]["odd"]["findings"][0]["message"]
    assert ended.json["formats"]["mcp"]["definition"]
    assert command("convert", "echo", "--to", "odd").code == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("convert",), "NAME"),
        (("convert", "ecko"), "did you mean 'echo'"),
        (("convert", "echo", "--to", "opnai"), "did you mean 'openai'"),
    ],
)
def test_a_wrong_command_line(command: Callable[..., Any], words: Any, said: str) -> None:
    """No tool, one that nobody has, or a format that nobody has: 2, and why."""
    ended = command(*words)
    assert ended.code == 2
    assert said in ended.err
