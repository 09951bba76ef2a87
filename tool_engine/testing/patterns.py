"""Which texts match a pattern?

A pattern is taken apart by Python's own reader of regular expressions, and put together again as a
text: each choice made at random, each repetition a few times. A text counts only when the engine's
linear-time matcher agrees that it fits.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from importlib import import_module
from random import Random
from typing import Any, Final

from tool_engine.errors import ToolEngineError
from tool_engine.validation.position import build_validator

MAX_TEXT: Final = 10_000
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_ALPHABET: Final = _LETTERS + " -_.,:;/\\'\"{}<>&%éß漢字🙂"
_PRINTABLE: Final = "".join(map(chr, range(32, 127)))
_CLASSES: Final = {
    "CATEGORY_DIGIT": "0123456789",
    "CATEGORY_SPACE": " \t",
    "CATEGORY_WORD": "abcXYZ019_",
}
_GENEROSITY: Final = (0, 1, 3, 10, 30, 100, 300, 1_000, 3_000)
"""How often, at most, a part is repeated beyond the pattern's minimum; tried in turn."""
_UNMATCHING: Final = (
    "",
    "!",
    " ",
    "~",
    "0",
    "a",
    "A",
    "-",
    "\n",
    "é",
    "!~!",
    "a a",
    "0.0",
    "\u2028",
)


class NoValueError(ToolEngineError):
    """No value can be made for an argument; the message says why."""

    error_type = "no_value"


class TextMaker:
    """Generates texts that match a pattern, and texts that do not.

    Args:
        pattern: The pattern, as a definition writes it; a match anywhere counts.
        random: Makes the choices.

    Raises:
        NoValueError: The pattern cannot be taken apart.
    """

    def __init__(self, pattern: str, random: Random) -> None:
        self._pattern = pattern
        self._random = random
        # `re._parser` is the documented `sre_parse` under the name that does not warn.
        reader = import_module("re._parser")
        try:
            with warnings.catch_warnings():
                # Advice on style, for authors of Python.
                warnings.simplefilter("ignore")
                self._parts = list(reader.parse(pattern))
        except (re.error, OverflowError, RecursionError) as error:
            raise NoValueError(f"the pattern {pattern[:80]!r} is not understood: {error}") from None
        self._rules = build_validator({"type": "string", "pattern": pattern})
        self._left = 0

    def make(self, least: int = 0, most: int = MAX_TEXT) -> str:
        """Return a matching text with `least` to `most` characters.

        Raises:
            NoValueError: None was found.
        """
        for generosity in self._random.sample(_GENEROSITY[:4], 4) + list(_GENEROSITY):
            self._left = MAX_TEXT
            try:
                text = self._make_text(self._parts, generosity)
            except RecursionError:
                break
            # Where nothing ties the end down, any text may follow.
            text += "a" * (min(least, MAX_TEXT) - len(text))
            if least <= len(text) <= most and self._rules.is_valid(text):
                return text
        raise NoValueError(
            f"no text of {least} to {most} characters was found that matches the pattern "
            f"{self._pattern[:80]!r}"
        )

    def break_it(self, least: int = 0, most: int = MAX_TEXT) -> str | None:
        """Return a text that does not match, of an allowed length."""
        broken = [text for text in _UNMATCHING if not self._rules.is_valid(text)]
        if not broken:
            return None
        return next((text for text in broken if least <= len(text) <= most), broken[0])

    def _make_text(self, parts: Any, generosity: int) -> str:
        return "".join(self._make_part(str(kind), value, generosity) for kind, value in parts)

    def _make_part(self, kind: str, value: Any, generosity: int) -> str:
        if kind in ("MAX_REPEAT", "MIN_REPEAT"):
            return self._repeat_part(value, generosity)
        if kind == "SUBPATTERN":
            return self._make_text(value[-1], generosity)
        if kind == "BRANCH":
            return self._make_text(self._random.choice(value[1]), generosity)
        # A place such as ^ or \b takes no character; the matcher decides whether it was right.
        characters = _find_characters(kind, value)
        self._left -= len(characters[:1])
        return self._random.choice(characters) if characters else ""

    def _repeat_part(self, value: Any, generosity: int) -> str:
        low, high, parts = value
        most = min(int(high), low + generosity)
        count = self._random.randint(low, most) if generosity < 100 else most
        pieces = []
        for _ in range(count):
            if self._left <= 0:
                break
            pieces.append(self._make_text(parts, min(generosity, 3)))
            self._left -= 1
        return "".join(pieces)


def plain_text(random: Random, length: int) -> str:
    """Return `length` characters of several scripts, some of which need escaping."""
    return "".join(random.choices(_ALPHABET, k=length))


def _find_characters(kind: str, value: Any) -> Sequence[str]:
    """Return the characters allowed for one part of a pattern."""
    if kind == "LITERAL":
        return chr(value)
    if kind == "NOT_LITERAL":
        return [each for each in _PRINTABLE if each != chr(value)]
    if kind == "ANY":
        return _PRINTABLE
    if kind != "IN":
        return ""
    listed = "".join(_list_members(str(name), item) for name, item in value)
    if any(str(name) == "NEGATE" for name, _ in value):
        return [each for each in _PRINTABLE if each not in listed]
    return listed


def _list_members(kind: str, value: Any) -> str:
    if kind == "LITERAL":
        return chr(value)
    if kind == "RANGE":
        # A few of a wide range are as good as all of it.
        low, high = value
        step = max(1, (high - low) // 100)
        return "".join(map(chr, (*range(low, high, step), high)))
    name = str(value)
    if name.startswith("CATEGORY_NOT_"):
        known = _CLASSES[name.replace("NOT_", "")]
        return "".join(each for each in _PRINTABLE if each not in known and not each.isalnum())
    return _CLASSES.get(name, "")
