"""How is what a conversation came to held as it is at one moment, without holding up the loop?

To copy a megabyte of small lists takes half a second. Marshal writes it down in some milliseconds,
and runs no other code. Whether it can be kept, and its JSON, is found out in a thread, in pieces,
so that the loop gets its turn between them.
"""

from __future__ import annotations

import asyncio
import json
import marshal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

from tool_engine.knowledge.conversation import as_json, copy_data, of_json
from tool_engine.model.json.unpacking import without_collection
from tool_engine.model.json.weighing import write_in_pieces

T = TypeVar("T")
SMALL: Final = 16_384
"""Bytes or characters that are worked on faster than a thread is found for them."""
_LEVELS: Final = 7
"""Of lists and mappings that are read apart: session, variables, list, variable, value, rows."""
_DEEPEST: Final = 100
_BITS: Final = 64
"""Of a whole number about which there is nothing to ask."""
_HOLDERS: Final = frozenset((dict, list, tuple))
_TEXT: Final = frozenset((str,))
_KINDS: Final = _HOLDERS | _TEXT | {int, float, bool, type(None)}
_reader: Final = json.JSONDecoder()


class Frozen:
    """JSON values as they were when this was made, whatever is done to them since.

    Args:
        data: A mapping.
        what: What the error names if it cannot be kept.

    Raises:
        SessionError: It is no mapping, or holds what is no JSON value; most of the latter is found
            where the JSON is made.
    """

    def __init__(self, data: object, what: str = "the conversation") -> None:
        self._what = what
        self._copy: dict[str, Any] | None = None
        self._kept = b""
        try:
            if type(data) is not dict:
                raise ValueError("a mapping of another kind")
            self._kept = marshal.dumps(data)
        except ValueError:
            # Of a class that a program brought, or very deep.
            self._copy = copy_data(data, what)

    @property
    def size(self) -> int:
        """About how many characters its JSON has; unknown is many."""
        return len(self._kept) if self._copy is None else SMALL + 1

    def text(self) -> str:
        """The JSON of it, as `as_json` writes it. Blocks: call it by `run_aside`.

        Raises:
            SessionError: Something in it is no JSON value; the message names its place.
        """
        if self._copy is not None:
            return as_json(self._copy)
        # The collector would look at all of it again and again, and go on until it is through.
        with without_collection():
            value = marshal.loads(self._kept)  # noqa: S302 - written above
            try:
                text = "".join(write_in_pieces(value, _write_json, ","))
            except (ValueError, TypeError, RecursionError):
                text = as_json(copy_data(value, self._what))
            del value  # before the collector looks at what there is
        return text


async def run_aside(size: int, work: Callable[[], T]) -> T:
    """What `work` gives; in a thread, unless it works on little."""
    return work() if size <= SMALL else await asyncio.to_thread(work)


def size_of(value: Any) -> int:
    """About how many characters the JSON of a value has; unknown is many."""
    try:
        return len(marshal.dumps(value))
    except ValueError:
        return SMALL + 1


def read_in_pieces(text: str) -> Any:
    """What `of_json` reads, so that other threads get their turn. Blocks: call it by `run_aside`.

    Raises:
        ValueError: It is no JSON.
    """
    if len(text) > SMALL and text[0] in "[{":
        with without_collection(), suppress(ValueError, LookupError):
            value, end = _read_json(text, 0, _LEVELS)
            if end == len(text):
                return value
    return of_json(text)


def _write_json(value: Any) -> str:
    """The JSON of a small value.

    Raises:
        ValueError: It cannot be kept as it is, or is very deep.
    """
    level: Any = (value,)
    for _ in range(_DEEPEST):
        kinds = set(map(type, level))
        if not kinds <= _KINDS:
            raise ValueError("no JSON value")
        if int in kinds and any(type(each) is int and each.bit_length() > _BITS for each in level):
            raise ValueError("a large number")
        if not kinds & _HOLDERS:
            return _write(value)
        inner: list[Any] = []
        for each in level:
            if type(each) is dict:
                if not _TEXT.issuperset(map(type, each)):
                    raise ValueError("a key that is no text")
                inner += each.values()
            elif type(each) in _HOLDERS:
                inner += each
        level = inner
    raise ValueError("very deep")


_write: Final = partial(json.dumps, ensure_ascii=False, separators=(",", ":"), check_circular=False)


def _read_json(text: str, at: int, levels: int) -> tuple[Any, int]:
    """The value that begins there, without spaces, and where it ends."""
    opening = text[at]
    if levels == 0 or opening not in "[{":
        return _reader.raw_decode(text, at)
    is_list, at = opening == "[", at + 1
    closing = "]" if is_list else "}"
    listed: list[Any] = []
    named: dict[str, Any] = {}
    mark = text[at]
    if mark == closing:
        return listed if is_list else named, at + 1
    while True:
        if is_list:
            item, at = _read_json(text, at, levels - 1)
            listed.append(item)
        else:
            key, at = _reader.raw_decode(text, at)
            if type(key) is not str or text[at] != ":":
                raise ValueError("no key")
            named[key], at = _read_json(text, at + 1, levels - 1)
        mark, at = text[at], at + 1
        if mark == closing:
            return listed if is_list else named, at
        if mark != ",":
            raise ValueError("no comma")
