"""How is a conversation's content stored whole and restored exactly?

Nothing is shortened, hidden or changed into something similar. What JSON cannot hold is refused,
with its place.
"""

from __future__ import annotations

import copy
import json
import secrets
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tool_engine.errors import SessionError

_DEEPEST: Final = 2_000
_LEVELS: Final = 200
"""Levels that are written as they are; JSON readers fail on deeper ones."""
_IN_PARTS: Final = "~"
"""First character of what is written in parts; no JSON begins with it."""
_MOST_DIGITS: Final = 4_300
"""Digits of a whole number: Python parses no longer ones."""
_TOO_LARGE: Final = 10**_MOST_DIGITS
_HOLDERS: Final = (dict, list)
_PLAIN: Final = frozenset((str, float, bool, type(None)))


class _UnkeepableError(Exception):
    """A value cannot be kept."""


class _Frame:
    __slots__ = ("at", "copy", "rest")

    def __init__(self, value: Mapping[Any, Any] | list[Any] | tuple[Any, ...]) -> None:
        self.at: Any = None
        is_mapping = isinstance(value, Mapping)
        self.copy: Any = {} if is_mapping else [None] * len(value)
        self.rest = iter(value.items()) if isinstance(value, Mapping) else enumerate(value)

    def go_to(self, key: object) -> Any:
        self.at = None
        if isinstance(self.copy, dict):
            if not isinstance(key, str):
                raise _UnkeepableError(f"has a key that is no text but {type(key).__name__}")
            # Only the text itself, also of a string enumeration's member.
            key = str.__str__(key)
        self.at = key
        return key

    @property
    def step(self) -> str:
        return f".{self.at}" if isinstance(self.copy, dict) else f"[{self.at}]"


def copy_data(data: object, what: str = "the conversation") -> dict[str, Any]:
    """Return a private copy of JSON values; tuples become lists.

    Args:
        data: A mapping. Texts may hold anything, and numbers be NaN or infinite.
        what: The name of the data in the error.

    Raises:
        SessionError: Something in it is no JSON value; the message names its place.
    """
    if not isinstance(data, Mapping):
        raise SessionError(f"{what} cannot be kept: {type(data).__name__} is no mapping")
    frames = [_Frame(data)]
    try:
        return _copy_frames(frames)
    except _UnkeepableError as error:
        place = "".join(each.step for each in frames if each.at is not None)
        place = place.removeprefix(".")[:500]
        raise SessionError(f"{what} cannot be kept: {place or 'it'} {error}") from None


def as_json(value: Any) -> str:
    """Return the JSON of a copy, which `of_json` reads back.

    NaN and infinities are written as Python does. Very deep values are written in parts: `~`, and
    then JSON.
    """
    if not _is_deep(value):
        return _write_json(value)
    mark = f"part-{secrets.token_hex(8)}"
    return _IN_PARTS + _write_json({"mark": mark, "parts": _split_parts(value, mark)})


def of_json(text: str) -> Any:
    """Return the value that `as_json` wrote.

    Raises:
        ValueError: It is no JSON.
    """
    if not text.startswith(_IN_PARTS):
        return json.loads(text)
    try:
        found = json.loads(text[len(_IN_PARTS) :])
        return _join_parts(found["parts"], found["mark"])
    except (LookupError, TypeError) as error:
        raise ValueError(f"parts of it are missing: {error!r}") from error


def _copy_frames(frames: list[_Frame]) -> dict[str, Any]:
    """Return the copy of the first frame's value; on failure the frames hold the place."""
    while True:
        frame = frames[-1]
        for key, item in frame.rest:
            place = frame.go_to(key)
            if isinstance(item, Mapping | list | tuple):
                if len(frames) > _DEEPEST:
                    raise _UnkeepableError(f"is more than {_DEEPEST} levels deep, or holds itself")
                flat = _flat_copy(item)
                if flat is not None:
                    frame.copy[place] = flat
                    continue
                inner = _Frame(item)
                frame.copy[place] = inner.copy
                frames.append(inner)
                break
            frame.copy[place] = _copy_leaf(item)
        else:
            if len(frames) == 1:
                found: dict[str, Any] = frame.copy
                return found
            frames.pop()


def _flat_copy(value: Any) -> Any:
    """Copy a list or mapping of texts and small numbers, or return None.

    Most of a conversation is that, and need not be checked value by value.
    """
    kind = type(value)
    if kind is dict and not all(type(key) is str for key in value):
        return None
    if kind is dict or kind is list:
        for item in value.values() if kind is dict else value:
            if type(item) not in _PLAIN and not (type(item) is int and item.bit_length() < 64):
                return None
        return value.copy()
    return None


def _copy_leaf(value: Any) -> Any:
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        if not -_TOO_LARGE < value < _TOO_LARGE:
            raise _UnkeepableError(f"is a whole number of more than {_MOST_DIGITS} digits")
        return int(value)
    raise _UnkeepableError(f"is no JSON value but {type(value).__name__}")


def _write_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), check_circular=False)


def _list_inner(value: Any) -> Iterable[tuple[Any, Any]]:
    """Yield the lists and mappings in a value with their keys or positions."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return [(key, item) for key, item in items if isinstance(item, _HOLDERS)]


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_LEVELS):
        # Runs for most of a conversation: it creates nothing needless.
        level = [
            item
            for each in level
            for item in (each.values() if isinstance(each, dict) else each)
            if isinstance(item, _HOLDERS)
        ]
        if not level:
            return False
    return True


def _split_parts(value: Any, mark: str) -> list[Any]:
    """Return the value without its very deep parts, then those, likewise.

    `mark` says which part belongs where. No value is changed: its owner may go on using it.
    """
    parts: list[Any] = [value]
    for number, part in enumerate(parts):
        parts[number] = top = copy.copy(part)
        waiting = [(top, 1)]
        while waiting:
            holder, depth = waiting.pop()
            for key, item in _list_inner(holder):
                if depth < _LEVELS:
                    holder[key] = copy.copy(item)
                    waiting.append((holder[key], depth + 1))
                else:
                    holder[key] = {mark: len(parts)}
                    parts.append(item)
    return parts


def _join_parts(parts: list[Any], mark: str) -> Any:
    for part in parts:
        waiting = [part]
        while waiting:
            holder = waiting.pop()
            for key, item in _list_inner(holder):
                if isinstance(item, dict) and mark in item:
                    holder[key] = parts[item[mark]]
                else:
                    waiting.append(item)
    return parts[0]
