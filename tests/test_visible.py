"""Which characters deceive, and how are they shown?"""

from __future__ import annotations

import pytest

from tool_engine.visible import cut_middle, escape_hidden, is_deceptive


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[2Kb", "a\\x1b[2Kb"),
        ("a\rb", "a\\x0db"),
        ("gpj.\u202eexe", "gpj.\\u202eexe"),
        ("a\u200bb", "a\\u200bb"),
        ("a\ud800b", "a\\ud800b"),
        ("a\U000e0041", "a\\U000e0041"),
        ("\x9b", "\\x9b"),
    ],
)
def test_characters_that_deceive(text: str, shown: str) -> None:
    """What steers a terminal, turns the direction, or is not seen, is written out."""
    assert escape_hidden(text) == shown
    assert is_deceptive(text)


@pytest.mark.parametrize("text", ["", "résumé", "中文　字", "👍🏽", "a\\x1b"])
def test_characters_that_do_not(text: str) -> None:
    """Letters of every script stay what they are."""
    assert escape_hidden(text) == text
    assert not is_deceptive(text)


def test_line_breaks() -> None:
    """They stay where lines are wanted; a return to the start of the line never does."""
    assert escape_hidden("a\n\tb\r") == "a\\x0a\\x09b\\x0d"
    assert escape_hidden("a\n\tb\r", keeps_lines=True) == "a\n\tb\\x0d"


def test_the_middle_is_left_out() -> None:
    """Both ends of a long text stay, and the reader sees how much is missing."""
    assert cut_middle("x" * 10, 10) == "x" * 10
    cut = cut_middle("a" * 3000 + "b" * 3001, 10)
    assert cut == "aaaaa […5,991 characters…] bbbbb"
