"""What does escaped text say, and where in it does that stand?

Which letters are escaped depends on the program that did it, and escaped text may be escaped again.
So a text is read as it is, without its percent-encoding, its character references and its
backslashes, and without any two of these one after the other.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from importlib import import_module
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias

Span: TypeAlias = tuple[int, int]
_Table: TypeAlias = tuple[list[int], list[int]]
"""Where the pieces begin in the plain text and in the written text, and both ends."""

_LEVELS: Final = 2
"""How many layers of escapes are removed."""
_PIECE: Final = 32_768
"""Characters read at a time, so that other threads get their turn in between."""
_LONGEST_ESCAPE: Final = 40
_PERCENT: Final = "((?:%[0-9A-Fa-f]{2})+)"
_PERCENT_BY_LETTER: Final = "(%[0-7][0-9A-Fa-f]|(?:%[89A-Fa-f][0-9A-Fa-f])+)"
_REFERENCE: Final = "(&(?:#(?:[0-9]{1,12}|[xX][0-9A-Fa-f]{1,12});?|[A-Za-z][A-Za-z0-9]{1,31};))"
_BACKSLASH: Final = (
    r"(\\u[dD][89abAB][0-9A-Fa-f]{2}\\u[dD][c-fC-F][0-9A-Fa-f]{2}"
    r"|\\(?:u[0-9A-Fa-f]{4}|u\{[0-9A-Fa-f]{1,6}\}|U[0-9A-Fa-f]{8}|x[0-9A-Fa-f]{2}"
    r"|[\\/\"'`abfnrtv0]))"
)
_LETTERS: Final = dict(zip("abfnrtv0", "\a\b\f\n\r\t\v\0", strict=True))
_LAST: Final = 0x10FFFF
_GOING_ON: Final = frozenset("89abAB")
"""First digits of a UTF-8 continuation byte."""
_MARK: Final = 0xDC00
"""Added to the number of invalid UTF-8 bytes, to make a surrogate that stands for them."""


# Compiled on first use: most texts have no escapes, and programs start sooner.
_compile: Final = cache(re.compile)


class _Kind(NamedTuple):
    sign: str
    one_written: str
    pattern_written: str
    """Finds escapes; its only group is the whole escape."""
    says: Callable[[str], str]
    end: Callable[[str, int], int] | None = None
    """Returns a safe place to cut at or before another; None: any end of an escape."""
    table: Callable[[str], _Table] | None = None
    """Returns the places of a piece; None: each escape is one."""

    @property
    def one(self) -> re.Pattern[str]:
        return _compile(self.one_written)

    @property
    def pattern(self) -> re.Pattern[str]:
        return _compile(self.pattern_written)

    def parts(self, text: str, start: int) -> tuple[list[str], int]:
        """Return plain and escaped parts alternately from `start`, and their end."""
        stop = start + _PIECE
        if stop + _LONGEST_ESCAPE >= len(text):
            return self.pattern.split(text[start:]), len(text)
        if self.end is not None:
            stop = self.end(text, stop)
            return self.pattern.split(text[start:stop]), stop
        end = stop + _LONGEST_ESCAPE
        parts = self.pattern.split(text[start:end])
        # An escape that begins after the piece may go on after the part that was searched.
        while len(parts) > 1 and end - len(parts[-1]) - len(parts[-2]) >= stop:
            end -= len(parts.pop()) + len(parts.pop())
        begin = end - len(parts[-1])
        parts[-1] = parts[-1][: max(0, stop - begin)]
        return parts, begin + len(parts[-1])

    def said(self, parts: list[str]) -> list[str]:
        parts = parts.copy()
        parts[1::2] = map(self.says, parts[1::2])
        return parts

    def places(self, text: str, start: int, end: int) -> _Table:
        if self.table is not None:
            return self.table(text[start:end])
        parts, _ = self.parts(text, start)
        said = self.said(parts)
        return [*accumulate(map(len, said), initial=0)], [*accumulate(map(len, parts), initial=0)]


class _Reading:
    """A text with one kind of escapes decoded.

    Args:
        text: The text as written.
        kind: The kind of escapes.
    """

    def __init__(self, text: str, kind: _Kind) -> None:
        self._written_text = text
        self._kind = kind
        self._plain, self._written = [0], [0]
        said, end = [], 0
        while end < len(text):
            parts, end = kind.parts(text, end)
            said.append("".join(kind.said(parts)))
            self._plain.append(self._plain[-1] + len(said[-1]))
            self._written.append(end)
        self.text: str = "".join(said)

    def spans(self, spans: list[Span]) -> Iterator[Span]:
        """Map spans of the decoded text, which must not overlap, to the written text."""
        starts, ends = [start for start, _ in spans], [end for _, end in spans]
        first = last = 0
        written: tuple[list[int], list[int]] = [], []
        # Most texts hold no secret, and then the places are not needed.
        for number in range(len(self._written) - 1):
            behind = self._plain[number + 1]
            is_last = number == len(self._written) - 2
            to_first = len(spans) if is_last else bisect_left(starts, behind, first)
            to_last = len(spans) if is_last else bisect_left(ends, behind, last)
            if to_first > first or to_last > last:
                table = self._kind.places(
                    self._written_text, self._written[number], self._written[number + 1]
                )
                base = self._plain[number], self._written[number]
                written[0].extend(_map_places(starts[first:to_first], table, base, 0))
                written[1].extend(_map_places(ends[last:to_last], table, base, 1))
            first, last = to_first, to_last
        return zip(*written, strict=True)


def _map_places(
    places: list[int], table: _Table, base: tuple[int, int], side: int
) -> Iterator[int]:
    """Yield where parts begin, or end with `side` 1, in the written text."""
    plain, written = table
    before, start = base
    for place in places:
        inside = place - before
        piece = bisect_right(plain, inside) - 1
        rest = inside - plain[piece]
        if rest and plain[piece + 1] - plain[piece] != written[piece + 1] - written[piece]:
            # Inside what one escape decodes to: the whole escape belongs to the part.
            rest, piece = 0, piece + side
        yield start + written[piece] + rest


def merge_spans(spans: list[Span]) -> list[Span]:
    """Return the spans in order, overlapping ones joined."""
    spans.sort()
    found: list[Span] = []
    last = 0
    for span in spans:
        if span[0] >= last:
            found.append(span)
            last = span[1]
        elif span[1] > last:
            last = span[1]
            found[-1] = found[-1][0], last
    return found


def find_spelled(text: str, find: Callable[[str], list[Span]]) -> list[Span]:
    """Return the spans of `text` that `find` finds in any of its readings.

    Takes time in proportion to the length of `text`, if `find` does.
    """
    return _find_decoded(text, find, _LEVELS)


def spans_of(text: str, forms: Iterable[str], *, overlap: bool = True) -> list[Span]:
    """Return where `forms` stand in `text`; `overlap`: self-overlaps too.

    A long form that repeats itself then takes long: it must not come from a model.
    """
    spans: list[Span] = []
    for form in forms:
        at = text.find(form)
        if at >= 0 and not overlap:
            size = len(form)
            ends = [*accumulate([len(each) + size for each in text.split(form)])]
            spans += [(end - size, end) for end in ends[:-1]]
            continue
        while at >= 0:
            spans.append((at, at + len(form)))
            at = text.find(form, at + 1)
    return spans


def _find_decoded(text: str, find: Callable[[str], list[Span]], levels: int) -> list[Span]:
    found = find(text)
    if levels:
        for kind in _KINDS:
            # Most texts have none of the signs, and are not searched further.
            if kind.sign in text and kind.one.search(text) is not None:
                reading = _Reading(text, kind)
                inner = _find_decoded(reading.text, find, levels - 1)
                if inner:
                    found += reading.spans(merge_spans(inner))
    return found


def _decode_percent(escaped: str) -> str:
    return bytes.fromhex(escaped.replace("%", "")).decode("utf-8", "replace")


def _percent_end(text: str, end: int) -> int:
    """Return a place to cut that splits neither an escape nor a character."""
    for back in (1, 2):
        if text[end - back] == "%":
            end -= back
            break
    place = end
    for _ in range(4):
        if text[place] != "%" or text[place + 1] not in _GOING_ON or text[place - 3] != "%":
            return place
        place -= 3
    return end


def _percent_table(text: str) -> _Table:
    parts = _compile(_PERCENT_BY_LETTER).split(text)
    if all(map((3).__eq__, map(len, parts[1::2]))):
        sizes = [*map(len, parts)]
        sizes[1::2] = [1] * (len(sizes) // 2)
        return [*accumulate(sizes, initial=0)], [*accumulate(map(len, parts), initial=0)]
    plain, written = [0], [0]
    for number, part in enumerate(parts):
        for length, size in _of_bytes(part) if number % 2 else ((len(part), len(part)),):
            plain.append(plain[-1] + size)
            written.append(written[-1] + length)
    return plain, written


def _of_bytes(escaped: str) -> Iterator[tuple[int, int]]:
    """Yield the length of each written piece and of its decoded text."""
    for letter in bytes.fromhex(escaped.replace("%", "")).decode("utf-8", _COUNTED):
        is_damaged = "\udc00" <= letter <= "\udfff"
        yield 3 * (ord(letter) - _MARK if is_damaged else len(letter.encode())), 1


def _count_invalid(error: UnicodeError) -> tuple[str, int]:
    """Replace invalid bytes, as `replace` does, with one letter that holds their number."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return chr(_MARK + error.end - error.start), error.end


_COUNTED: Final = "tool_engine.counted"
codecs.register_error(_COUNTED, _count_invalid)


@lru_cache(maxsize=4096)
def _decode_reference(escaped: str) -> str:
    # Loaded late: it brings a table of thousands of names.
    return str(import_module("html").unescape(escaped))


@lru_cache(maxsize=4096)
def _decode_backslash(escaped: str) -> str:
    kind, digits = escaped[1], escaped[2:].strip("{}")
    if len(digits) > _LONGEST:
        high, low = int(escaped[2:6], 16), int(escaped[8:], 16)
        return chr(0x10000 + ((high & 0x3FF) << 10) + (low & 0x3FF))
    if not digits:
        return _LETTERS.get(kind, kind)
    code = int(digits, 16)
    return chr(code) if code <= _LAST else escaped


_LONGEST: Final = 8
"""Most digits of one character."""
_KINDS: Final = (
    _Kind("%", "%[0-9A-Fa-f]{2}", _PERCENT, _decode_percent, _percent_end, _percent_table),
    _Kind("&", _REFERENCE, _REFERENCE, _decode_reference),
    _Kind("\\", _BACKSLASH, _BACKSLASH, _decode_backslash),
)
