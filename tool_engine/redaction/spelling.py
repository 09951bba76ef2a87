"""What does a text say that is written in an escaped form, and where in it does that stand?

Which letters are escaped depends on the program that did it, and what was escaped once is escaped
again by the next one. So a text is read as it is, without its percent-encoding, its character
references and its backslashes, and without any two of these one after the other.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from importlib import import_module
from typing import Final, NamedTuple, TypeAlias

__all__ = ["Span", "find_spelled", "spans_of"]

Span: TypeAlias = tuple[int, int]

_LEVELS: Final = 2
"""How often what was read is read again."""
_PERCENT: Final = re.compile("(?:%[0-9A-Fa-f]{2})+")
_REFERENCE: Final = re.compile(
    "&(?:#(?:[0-9]{1,12}|[xX][0-9A-Fa-f]{1,12});?|[A-Za-z][A-Za-z0-9]{1,31};)"
)
_BACKSLASH: Final = re.compile(
    r"\\u[dD][89abAB][0-9A-Fa-f]{2}\\u[dD][c-fC-F][0-9A-Fa-f]{2}"
    r"|\\(?:u[0-9A-Fa-f]{4}|u\{[0-9A-Fa-f]{1,6}\}|U[0-9A-Fa-f]{8}|x[0-9A-Fa-f]{2}"
    r"|[\\/\"'`abfnrtv0])"
)
_LETTERS: Final = dict(zip("abfnrtv0", "\a\b\f\n\r\t\v\0", strict=True))
_LAST: Final = 0x10FFFF


class _Reading:
    """A text without one kind of escapes.

    Args:
        text: As it was written.
        kind: What is escaped in it.
    """

    def __init__(self, text: str, kind: _Kind) -> None:
        self._written_text = text
        self._kind = kind
        self._places: tuple[list[int], list[int]] | None = None
        self.text: str = kind.pattern.sub(lambda match: kind.says(match[0]), text)
        """What it says."""

    def span(self, span: Span) -> Span:
        """Where in the text as it was written a part of it stands."""
        # In most texts nothing is found, and then nobody needs to know the places.
        places = self._places = self._places or self._looked_up()
        start, end = (_place(*places, each) for each in span)
        return start, end

    def _looked_up(self) -> tuple[list[int], list[int]]:
        """Where in what it says a piece begins, in order, and where that was written."""
        plain, written = [0], [0]
        shift = 0
        for match in self._kind.pattern.finditer(self._written_text):
            place = match.start()
            for length, size in self._kind.lengths(match[0]):
                plain.append(place - shift)
                written.append(place)
                place += length
                shift += length - size
            plain.append(place - shift)
            written.append(place)
        return plain, written


class _Kind(NamedTuple):
    """One way to escape characters."""

    sign: str
    """Stands in each escape."""
    pattern: re.Pattern[str]
    says: Callable[[str], str]
    """What an escape says."""
    lengths: Callable[[str], Iterable[tuple[int, int]]]
    """The characters of each piece of an escape, and of what it says."""


def _place(plain: list[int], written: list[int], place: int) -> int:
    piece = bisect_right(plain, place) - 1
    return written[piece] + place - plain[piece]


def find_spelled(text: str, find: Callable[[str], list[Span]]) -> list[Span]:
    """Where in `text` that stands which `find` finds in any of its readings.

    Takes time in proportion to the length of `text`, if `find` does.
    """
    return _found(text, find, _LEVELS)


def spans_of(text: str, forms: Iterable[str], *, overlap: bool = True) -> list[Span]:
    """Where any of `forms` stands in `text`; `overlap`: also where one of them overlaps itself.

    A long form that repeats itself takes long then: it must not come from a model.
    """
    spans = []
    for form in forms:
        at = text.find(form)
        while at >= 0:
            spans.append((at, at + len(form)))
            at = text.find(form, at + (1 if overlap else len(form)))
    return spans


def _found(text: str, find: Callable[[str], list[Span]], levels: int) -> list[Span]:
    found = find(text)
    if levels:
        for reading in _readings(text):
            found += map(reading.span, _found(reading.text, find, levels - 1))
    return found


def _readings(text: str) -> Iterator[_Reading]:
    for kind in _KINDS:
        # Most texts have none of the signs, and are not looked at any further.
        if kind.sign in text and kind.pattern.search(text) is not None:
            yield _Reading(text, kind)


def _percent(escaped: str) -> str:
    return bytes.fromhex(escaped.replace("%", "")).decode("utf-8", "replace")


def _of_percent(escaped: str) -> Iterator[tuple[int, int]]:
    for character in _percent(escaped):
        # A byte that is no UTF-8 is one that stands for itself.
        is_damaged = character == "\N{REPLACEMENT CHARACTER}"
        yield 3 if is_damaged else 3 * len(character.encode()), 1


@lru_cache(maxsize=4096)
def _reference(escaped: str) -> str:
    # Loaded late: it brings a table of thousands of names along.
    return str(import_module("html").unescape(escaped))


@lru_cache(maxsize=4096)
def _backslash(escaped: str) -> str:
    kind, digits = escaped[1], escaped[2:].strip("{}")
    if len(digits) > _LONGEST:
        high, low = int(escaped[2:6], 16), int(escaped[8:], 16)
        return chr(0x10000 + ((high & 0x3FF) << 10) + (low & 0x3FF))
    if not digits:
        return _LETTERS.get(kind, kind)
    code = int(digits, 16)
    return chr(code) if code <= _LAST else escaped


_LONGEST: Final = 8
"""The digits of one character."""
_KINDS: Final = (
    _Kind("%", _PERCENT, _percent, _of_percent),
    _Kind("&", _REFERENCE, _reference, lambda it: [(len(it), len(_reference(it)))]),
    _Kind("\\", _BACKSLASH, _backslash, lambda it: [(len(it), len(_backslash(it)))]),
)
