"""How is a long value written as JSON without holding up others?

The encoder writes a value in one step, in which no other thread runs. In a thread of its own, a
value is written in pieces, between which the others have their turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

_SHORT: Final = 1 << 14
"""Letters of a piece after which the next one may be longer."""
_LONG: Final = 1 << 17
"""Letters of a piece after which the next one must be shorter."""


def write_pieces(value: Any, dumps: Callable[[Any], str]) -> Iterator[str]:
    """Yield what `dumps` writes of a value, piece by piece.

    Args:
        value: A JSON value; the keys of mappings are texts.
        dumps: Writes JSON, with a comma and a space between values.
    """
    if type(value) is str:
        yield '"'
        for start in range(0, len(value), _LONG):
            yield dumps(value[start : start + _LONG])[1:-1]
        yield '"'
    elif type(value) is list or type(value) is tuple:
        yield from _write_entries("[]", iter(value), list, dumps)
    elif type(value) is dict:
        yield from _write_entries("{}", iter(value.items()), dict, dumps)
    else:
        yield dumps(value)


def _write_entries(
    brackets: str, entries: Iterator[Any], kind: type, dumps: Callable[[Any], str]
) -> Iterator[str]:
    """Write as many entries at once as are short together; a long one is written in pieces."""
    yield brackets[0]
    before, count = "", 1
    while part := list(islice(entries, count)):
        yield before
        before, size = ", ", 0
        pieces = _write_one(part[0], kind, dumps) if count == 1 else [dumps(kind(part))[1:-1]]
        for piece in pieces:
            size += len(piece)
            yield piece
        if size < _SHORT:
            count *= 2
        elif size > _LONG:
            count = max(1, count // 8)
    yield brackets[1]


def _write_one(entry: Any, kind: type, dumps: Callable[[Any], str]) -> Iterator[str]:
    if kind is dict:
        key, entry = entry
        yield f"{dumps(key)}: "
    yield from write_pieces(entry, dumps)
