"""`search` finds tools by what they do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def test_best_first(command: Callable[..., Any]) -> None:
    """The words may stand apart or together; each match has its name, score and text."""
    for words in (("test", "messages"), ("test messages",)):
        ended = command("search", "--json", *words)
        assert (ended.code, ended.err) == (0, "")
        assert ended.json["broken_files"] == 0
        (match,) = ended.json["matches"]
        assert (match["name"], match["tags"]) == ("echo", ["test", "text"])
        assert match["score"] > 0
        assert match["source"].endswith("echo.yaml")


def test_a_table_for_people(command: Callable[..., Any]) -> None:
    """The best `--limit` tools in one table, which says how many there are in all."""
    ended = command("search", "text", "--limit", "1")
    assert ended.code == 0
    assert "1 tool of 3" in ended.out
    assert ("echo" in ended.out) != ("fetch" in ended.out)
    assert "0 tools of 3" in command("search", "zzqxj").out


def test_broken_files_are_told(command: Callable[..., Any], tools: Path) -> None:
    """A tool that cannot be found since its file is broken is not missed in silence."""
    (tools / "broken.yaml").write_text("name: [half", encoding="utf-8")
    ended = command("search", "messages")
    assert "echo" in ended.out
    assert "1 file could not be loaded; see tool-engine validate" in ended.err
    assert command("search", "messages", "--json").json["broken_files"] == 1


@pytest.mark.parametrize("words", [(), ("text", "--limit", "0"), ("text", "--limit", "x")])
def test_a_wrong_command_line(command: Callable[..., Any], words: tuple[str, ...]) -> None:
    """Without a word, or with a limit that is none, it is a usage error."""
    assert command("search", *words).code == 2
