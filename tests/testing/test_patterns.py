"""Do generated texts match their pattern, in the eyes of Python's own matcher?"""

from __future__ import annotations

import inspect
import re
import sys
from random import Random

import pytest

from tool_engine.testing.patterns import MAX_TEXT, NoValueError, TextMaker, plain_text

PATTERNS = [
    "^https?://",
    r"^[a-z0-9]+(?:-[a-z0-9]+)*$",
    r"^\d{4}-\d{2}-\d{2}$",
    r"^[\w.+-]+@[\w-]+\.[a-z]{2,}$",
    "^(?:GET|POST|PUT)$",
    "^[^/\\s]+$",
    r"\S",
    "a.c",
    "^(?i:abc)$",
    "^(?P<year>[0-9]{4})$",
    r"^\D\W\s$",
    "^[^\\d]{3}$",
    "^[^a]$",
    r"^[\s\w]{2}$",
    "^a*?b+?c??$",
    "^[一-龥]{2}$",
    "^x{50,60}$",
    "(a+)+$",
    "",
    "^$",
    r"\bword\b",
    "[[a]",
]


def maker(pattern: str, seed: int = 0) -> TextMaker:
    return TextMaker(pattern, Random(seed))  # noqa: S311 - has to repeat itself


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.filterwarnings("ignore:Possible nested set")
def test_texts_match(pattern: str) -> None:
    """What is made matches by `re`, and what shall not match does not."""
    made = maker(pattern)
    assert all(re.search(pattern, made.make()) for _ in range(20))
    broken = made.break_it()
    assert broken is None or not re.search(pattern, broken)
    assert (broken is None) == (pattern in ("", "^$")) or pattern == "^$"


@pytest.mark.parametrize(
    ("pattern", "least", "most"),
    [
        ("^[a-z]+$", 40, 50),
        ("^[a-z]+$", 1, 1),
        ("^https?://", 30, 40),
        ("^(ab)+$", 600, 700),
        ("^[a-z]*$", 3000, 4000),
        ("x", 5, 6),
    ],
)
def test_lengths_are_kept(pattern: str, least: int, most: int) -> None:
    """A text fits its pattern and its lengths at once."""
    text = maker(pattern).make(least, most)
    assert re.search(pattern, text)
    assert least <= len(text) <= most


def test_a_broken_text_has_a_right_length() -> None:
    """Only the pattern is broken where there is a text for that; else the pattern comes first."""
    assert len(maker("^[a-z]+$").break_it(3, 3) or "") == 3
    assert maker("^[a-z]+$").break_it(50, 60) == ""
    assert maker("").break_it() is None


@pytest.mark.parametrize("pattern", [r"^\p{L}+$", r"[[:alpha:]]\p{Greek}"])
def test_a_foreign_syntax_is_said(pattern: str) -> None:
    """Rust's patterns know more than Python reads; nothing is guessed then."""
    with pytest.raises(NoValueError, match="is not understood"):
        maker(pattern)


@pytest.mark.parametrize(
    ("pattern", "least", "most"),
    [
        ("^abc$", 5, 9),
        ("^[a-z]{5}$", 0, 4),
        ("a^b", 0, 100),
        ("^(a{100}){200}$", 0, 1_000_000),
        ("^a+$", MAX_TEXT + 1, 2 * MAX_TEXT),
    ],
)
def test_the_impossible_ends(pattern: str, least: int, most: int) -> None:
    """A pattern that no text of the lengths fits ends with a sentence, and soon."""
    with pytest.raises(NoValueError, match="no text of"):
        maker(pattern).make(least, most)


def test_deep_nesting_is_no_crash() -> None:
    """A pattern that nests deeper than the stack is told like any other that cannot be made."""
    deep = maker("(" * 200 + "a" + ")" * 200)
    assert deep.make() == "a"
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 100)
    try:
        with pytest.raises(NoValueError):
            deep.make()
    finally:
        sys.setrecursionlimit(before)


def test_plain_texts_hold_what_needs_care() -> None:
    """Texts without a pattern hold other scripts and what JSON, URLs and shells escape."""
    text = plain_text(Random(0), 2_000)  # noqa: S311 - has to repeat itself
    assert len(text) == 2_000
    assert {'"', "\\", "{", "&", "漢", "🙂"} <= set(text)
