"""What does a YAML text hold, and at which line and column does each part of it stand?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

__all__ = ["Document", "Path", "format_path"]

Path = tuple[str | int, ...]
"""The keys and positions that lead to a value."""

_SIMPLE_KEY: Final = re.compile(r"[^\s.\[\]\"']+")


class Document:
    """One YAML document: its value, and where each part of it stands."""

    __slots__ = ("_marks", "value")

    def __init__(self, value: Any, marks: Sequence[Any]) -> None:
        self.value = value
        # One mark per key and value in the order of the text. Mappings keep that order, so the
        # marks need no paths: reading stays cheap, and only an error pays for finding its place.
        self._marks = marks

    def __repr__(self) -> str:
        return f"Document({self.value!r})"

    def position(self, path: Path, *, of_key: bool = False) -> tuple[int, int]:
        """The 1-based line and column of the value at `path`, or of its key.

        A path that leads to nothing gives the place of the deepest part that is there.
        """
        index, at_key = _ordinal(self.value, path)
        mark = self._marks[at_key if of_key else index]
        return mark.line + 1, mark.column + 1

    def path_at(self, index: int) -> Path:
        """The path of the `index`-th key or value of the text."""
        return _path_of(self.value, index)


def format_path(path: Path) -> str:
    """Writes a path as people do: `parameters[2].validation.min`."""
    written = ""
    for part in path:
        if isinstance(part, int):
            written += f"[{part}]"
        elif _SIMPLE_KEY.fullmatch(part):
            written += f".{part}" if written else part
        else:
            written += f"[{part!r}]"
    return written


def _ordinal(value: Any, path: Path) -> tuple[int, int]:
    """Which mark belongs to the value at `path`, and which to its key."""
    index = at_key = 0
    for part in path:
        if isinstance(value, dict) and part in value:
            before = list(value).index(part)
            skipped = islice(value.values(), before)
            at_key = index + 1 + before + sum(map(_count, skipped))
            index = at_key + 1
            value = value[part]
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            index += 1 + sum(map(_count, value[:part]))
            at_key = index
            value = value[part]
        else:
            break
    return index, at_key


def _path_of(value: Any, index: int) -> Path:
    """The path of the mark number `index`: the inverse of `_ordinal`, keys and values alike."""
    entries: list[tuple[str | int, Any, int]]
    if isinstance(value, dict):
        entries = [(key, item, 1) for key, item in value.items()]
    elif isinstance(value, list):
        entries = [(number, item, 0) for number, item in enumerate(value)]
    else:
        return ()
    at = 1
    for part, item, keys in entries:
        end = at + keys + _count(item)
        if at <= index < end:
            return (part, *_path_of(item, index - at - keys))
        at = end
    return ()


def _count(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(1 + _count(item) for item in value.values())
    if isinstance(value, list):
        return 1 + sum(_count(item) for item in value)
    return 1
