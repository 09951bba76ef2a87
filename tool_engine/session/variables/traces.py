"""How are copies of a removed variable still found?

Not the text itself is kept but a checksum of each eight letters of it: they do not reveal the
text, but their order shows whether another text repeats it.
"""

from __future__ import annotations

import json
import sys
import zlib
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, Final

import msgspec

from tool_engine.model.json.output import to_text
from tool_engine.session.variables.letters import LEAST, letters_of

MOST_TRACED: Final = 524_288
"""The most characters of removed variables that have traces; the oldest go first."""
OWN_WORDS: Final = frozenset({"model", "rule"})
"""Labels of the model's own words and of rules: repeating these reveals nothing."""
_LONGEST: Final = 131_072
"""The most characters of one variable that are traced, from the beginning."""
_BLOCK: Final = 8
EDGE: Final = _BLOCK - 1
"""The most letters that a run has before its whole blocks, and after them."""
_FEWEST: Final = (LEAST - EDGE) // _BLOCK
"""Whole blocks in a row in every run of `LEAST` letters, wherever they begin."""


class KeptTrace(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    labels: frozenset[str]
    updated: datetime
    marks: bytes


class Trace:
    """The trace of one removed variable.

    Args:
        name: Its name.
        labels: Where its content came from.
        updated: When it got what it held.
        value: What it held; `marks` forgets it.
        marks: What `marks` gives, of one whose value is gone.
    """

    def __init__(
        self,
        name: str,
        labels: frozenset[str],
        updated: datetime,
        value: Any = None,
        marks: Sequence[int] | None = None,
    ) -> None:
        self.name = name
        self.labels = labels
        self.updated = updated
        self._value = value
        self._marks = marks

    @property
    def marks(self) -> Sequence[int]:
        """Return a checksum of each block of its letters."""
        # In this order: two threads may ask at once, and the value goes when the marks are there.
        value = self._value
        if self._marks is None:
            letters = letters_of(value if isinstance(value, str) else to_text(value))
            whole = range(0, len(letters) - _BLOCK + 1, _BLOCK)
            self._marks = array("I", [_mark(letters, at) for at in whole])
            self._value = None
        return self._marks


class Traces:
    """Traces of removed variables, the newest up to `MOST_TRACED` characters.

    What the model wrote itself is counted apart: no chatter makes the rest forgotten.
    """

    def __init__(self) -> None:
        self._rings = (_Ring(), _Ring())

    def __len__(self) -> int:
        return sum(len(ring.kept) for ring in self._rings)

    @property
    def chars(self) -> int:
        return sum(ring.chars for ring in self._rings)

    def __iter__(self) -> Iterator[Trace]:
        return (trace for ring in self._rings for trace, _ in ring.kept)

    def add(
        self, name: str, labels: frozenset[str], updated: datetime, value: Any, chars: int
    ) -> None:
        """Add a trace; its value's letters are processed when first needed.

        Args:
            name: Its name.
            labels: Where its content came from.
            updated: When it got what it held.
            value: What it held: JSON values.
            chars: The characters of its text.
        """
        if chars < LEAST:
            return
        if chars > _LONGEST:
            value, chars = beginning(value, _LONGEST), _LONGEST
        self._keep(Trace(name, labels, updated, value), chars)

    def clear(self) -> None:
        """Remove all traces: their contents count as copies no more."""
        self._rings = (_Ring(), _Ring())

    def to_list(self) -> list[dict[str, Any]]:
        """Return all traces as JSON values, for `restore`; they contain no text."""
        kept = [
            KeptTrace(each.name, each.labels, each.updated, _packed(each.marks)) for each in self
        ]
        found: list[dict[str, Any]] = msgspec.to_builtins(kept, order="deterministic")
        return found

    def restore(self, kept: Iterable[KeptTrace]) -> None:
        """Restore what `to_list` wrote."""
        self.clear()
        for each in kept:
            marks = _unpacked(each.marks)
            trace = Trace(each.name, each.labels, each.updated, marks=marks)
            self._keep(trace, len(marks) * _BLOCK)

    def _keep(self, trace: Trace, chars: int) -> None:
        ring = self._rings[trace.labels <= OWN_WORDS]
        ring.kept.append((trace, chars))
        ring.chars += chars
        while ring.chars > MOST_TRACED:
            ring.chars -= ring.kept.popleft()[1]


class _Ring:
    def __init__(self) -> None:
        self.kept: deque[tuple[Trace, int]] = deque()
        """Each trace with its characters."""
        self.chars = 0


class Traced:
    """A text that is searched for pieces of removed variables.

    Args:
        letters: Its letters.
    """

    def __init__(self, letters: str) -> None:
        self._letters = letters

    def pieces(self, marks: Sequence[int]) -> Iterator[str]:
        """Find the runs of whole blocks that occur here and in these marks."""
        done = 0
        for at, mark in enumerate(marks):
            place = self._places.get(mark) if at >= done else None
            if place is None:
                continue
            before, after = self._grown(marks, at, place)
            if before + after >= _FEWEST:
                yield self._letters[place - before * _BLOCK : place + after * _BLOCK]
                done = at + after

    @cached_property
    def _marks(self) -> Sequence[int]:
        letters = self._letters
        return array("I", [_mark(letters, at) for at in range(len(letters) - _BLOCK + 1)])

    @cached_property
    def _places(self) -> dict[int, int]:
        return {mark: at for at, mark in reversed(list(enumerate(self._marks)))}

    def _grown(self, marks: Sequence[int], at: int, place: int) -> tuple[int, int]:
        """Return how many equal blocks come before the place, and how many from there on."""
        mine = self._marks
        before, after = 0, 1
        while before < min(at, place // _BLOCK) and (
            mine[place - (before + 1) * _BLOCK] == marks[at - before - 1]
        ):
            before += 1
        most = min(len(marks) - at, (len(mine) - 1 - place) // _BLOCK + 1)
        while after < most and mine[place + after * _BLOCK] == marks[at + after]:
            after += 1
        return before, after


def _mark(letters: str, at: int) -> int:
    return zlib.crc32(letters[at : at + _BLOCK].encode(errors="surrogatepass"))


def _packed(marks: Sequence[int]) -> bytes:
    """Return the same bytes on every machine."""
    found = array("I", marks)
    if sys.byteorder == "big":  # pragma: no cover - few machines are
        found.byteswap()
    return found.tobytes()


def _unpacked(data: bytes) -> Sequence[int]:
    found = array("I")
    found.frombytes(data[: len(data) // found.itemsize * found.itemsize])
    if sys.byteorder == "big":  # pragma: no cover - few machines are
        found.byteswap()
    return found


def beginning(value: Any, most: int) -> str:
    """Return the first characters of a value's text, without writing many more."""
    if isinstance(value, str):
        return value[:most]
    parts: list[str] = []
    left = most
    try:
        for part in json.JSONEncoder(ensure_ascii=False).iterencode(value):
            parts.append(part)
            left -= len(part)
            if left <= 0:
                break
    except RecursionError:
        return to_text(value)[:most]
    return "".join(parts)[:most]
