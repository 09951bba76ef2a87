"""How is what a conversation came to kept whole, and given back exactly?

It has to go on where it was: nothing is shortened, hidden or turned into something near. What JSON
cannot hold is refused, with its place.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tool_engine.errors import SessionError

__all__ = ["as_json", "copied", "of_json"]

_DEEPEST: Final = 300
_MOST_DIGITS: Final = 4_300
"""Of a whole number: Python reads no longer ones back."""
_TOO_LARGE: Final = 10**_MOST_DIGITS


class _UnkeepableError(Exception):
    """What cannot be kept, and the way to it, the innermost step first."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.steps: list[str] = []


def copied(data: object, what: str = "the conversation") -> dict[str, Any]:
    """A copy of JSON values that nobody else can change; tuples become lists.

    Args:
        data: A mapping. Texts may hold anything, and numbers be NaN or infinite.
        what: What somebody is told about if it cannot be kept.

    Raises:
        SessionError: Something in it is no JSON value; the message names its place.
    """
    if not isinstance(data, Mapping):
        raise SessionError(f"{what} cannot be kept: {type(data).__name__} is no mapping")
    try:
        found: dict[str, Any] = _copy(data, 0)
    except _UnkeepableError as error:
        place = "".join(reversed(error.steps)).removeprefix(".")[:500]
        raise SessionError(f"{what} cannot be kept: {place or 'it'} {error}") from None
    return found


def as_json(value: Any) -> str:
    """The JSON of a copy, which `of_json` reads back; NaN and infinities as Python writes them."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), check_circular=False)


def of_json(text: str) -> Any:
    """What `as_json` wrote.

    Raises:
        ValueError: It is no JSON.
    """
    return json.loads(text)


def _copy(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, str):
        # The text itself, also of an enumeration's member that is one.
        return str.__str__(value)
    if isinstance(value, int):
        if not -_TOO_LARGE < value < _TOO_LARGE:
            raise _UnkeepableError(f"is a whole number of more than {_MOST_DIGITS} digits")
        return int(value)
    if depth > _DEEPEST:
        raise _UnkeepableError(f"is more than {_DEEPEST} levels deep, or holds itself")
    if isinstance(value, Mapping):
        return _mapping(value, depth + 1)
    if isinstance(value, list | tuple):
        return _list(value, depth + 1)
    raise _UnkeepableError(f"is no JSON value but {type(value).__name__}")


def _mapping(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise _UnkeepableError(f"has a key that is no text but {type(key).__name__}")
        try:
            found[str.__str__(key)] = _copy(item, depth)
        except _UnkeepableError as error:
            error.steps.append(f".{key}")
            raise
    return found


def _list(values: Iterable[Any], depth: int) -> list[Any]:
    found = []
    for position, item in enumerate(values):
        try:
            found.append(_copy(item, depth))
        except _UnkeepableError as error:
            error.steps.append(f"[{position}]")
            raise
    return found
