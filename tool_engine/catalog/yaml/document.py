"""Where in a YAML text is each part of what it holds?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

Path = tuple[str | int, ...]
"""The keys and positions that lead to a value."""

_SIMPLE_KEY: Final = re.compile(r"[^\s.\[\]\"']+")
_PATH_PART: Final = re.compile(r"\[(\d+)\]|([^.\[\]]+)")
_SHOWN: Final = 80
_COMMENT: Final = re.compile(r"[ \t]*(#.*\S)")
_NUMBER: Final = re.compile(r"(?:[!&]\S*\s+)*([-+.\w]+)")
_BOUNDARY: Final = re.compile(r"[\r\n](?:---|\.\.\.)")


class Marked(Protocol):
    """The value of a text in which each part has its place."""

    value: Any

    def marks(self, places: Iterable[tuple[Path, bool]]) -> Sequence[Any]:
        """Return where keys and values stand, as `line` and `column` from 0."""

    def number_as_written(self, path: Path, mark: Any) -> str | None:
        """Return the number at `path` as written, such as `1.10`; else None."""

    def read_comment(self, mark: Any) -> str:
        """Return what stands as a comment in place of a value, its # included."""


class Document:
    __slots__ = ("_marks", "text", "value")

    def __init__(self, value: Any, marks: Sequence[Any], text: str) -> None:
        self.value = value
        # One mark per key and value in the order of the text. Mappings keep that order, so the
        # marks need no paths: reading stays cheap, and only an error pays for finding its place.
        self._marks = marks
        self.text = text

    def __repr__(self) -> str:
        return f"Document({self.value!r})"

    def position(self, path: Path, *, of_key: bool = False) -> tuple[int, int]:
        """Return the 1-based line and column of the nearest existing part."""
        (mark,) = self.marks([(path, of_key)])
        return mark.line + 1, mark.column + 1

    def marks(self, places: Iterable[tuple[Path, bool]]) -> list[Any]:
        wanted = list(places)
        ordinals = self._find_ordinals([path for path, _ in wanted])
        return [self._marks[ordinals[path][0 if of_key else 1]] for path, of_key in wanted]

    def starts(self) -> set[int]:
        """Return where the keys and values begin in the text."""
        return {mark.index for mark in self._marks}

    def own_lines(self) -> str:
        """Return the lines of this document, of all those of its file."""
        first, last = self._marks[0].index, self._marks[-1].index
        end = _BOUNDARY.search(self.text, max(0, last - 1))
        return self.text[self.text.rfind("\n", 0, first) + 1 : end.start() if end else None]

    def paths_at(self, numbers: Iterable[int]) -> dict[int, Path]:
        """Return the paths of numbered keys and values, in text order."""
        wanted = set(numbers)
        found: dict[int, Path] = {}
        for number, (path, _) in enumerate(_walk_paths(self.value, ())):
            if number in wanted:
                found[number] = path
                if len(found) == len(wanted):
                    break
        return found

    def number_as_written(self, path: Path, mark: Any) -> str | None:
        """Return the number at `path` as written, such as `1.10`; else None."""
        value: Any = self.value
        for part in path:
            is_there = part in value if isinstance(value, dict) else isinstance(value, list)
            if not is_there:
                return None
            value = value[part]
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        found = _NUMBER.match(self.text, mark.index)
        return found.group(1) if found else None

    def read_comment(self, mark: Any) -> str:
        """Return what stands as a comment in place of a value, its # included."""
        found = _COMMENT.match(self.text, mark.index)
        return found[1] if found else ""

    def _find_ordinals(self, paths: Iterable[Path]) -> dict[Path, tuple[int, int]]:
        """Return the key and value numbers of each path's nearest part."""
        paths = list(paths)
        missing = {path[:end] for path in paths for end in range(len(path) + 1)}
        found: dict[Path, tuple[int, int]] = {}
        at_key = 0
        for number, (path, is_key) in enumerate(_walk_paths(self.value, ())):
            if path not in missing:
                continue
            if is_key:
                at_key = number
                continue
            parent_is_list = not path or isinstance(path[-1], int)
            found[path] = (number if parent_is_list else at_key, number)
            missing.discard(path)
            if not missing:
                break
        return {path: _deepest_known(path, found) for path in paths}


def format_path(path: Path) -> str:
    """Write a path as people do: `parameters[2].validation.min`."""
    written = ""
    for part in path:
        if isinstance(part, int):
            written += f"[{part}]"
            continue
        shown = part if len(part) <= _SHOWN else f"{part[:_SHOWN]}…"
        if _SIMPLE_KEY.fullmatch(shown):
            written += f".{shown}" if written else shown
        else:
            written += f"[{shown!r}]"
    return written


def list_leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield all that is neither mapping nor list, in order, with its path below `path`."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from list_leaves(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from list_leaves(item, (*path, number))
    else:
        yield path, value


def parse_path(path: str) -> Path:
    """Return the keys and positions of a written path."""
    parts = _PATH_PART.findall(path)
    return tuple(int(position) if position else key for position, key in parts)


def _deepest_known(path: Path, found: dict[Path, tuple[int, int]]) -> tuple[int, int]:
    while path not in found:
        path = path[:-1]
    return found[path]


def _walk_paths(value: Any, path: Path) -> Iterator[tuple[Path, bool]]:
    """Yield each path in text order, with True for a key."""
    yield path, False
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key), True
            yield from _walk_paths(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _walk_paths(item, (*path, number))
