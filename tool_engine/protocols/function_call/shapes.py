"""Which calls are in one JSON object that a model wrote?

Models name the parts of a call in many ways. What is clear is read; of everything else it is said
why not. D9, D12, D13, U42.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from tool_engine.protocols.arguments.text import read_arguments
from tool_engine.protocols.function_call.tracker import ARGUMENTS, IDS, NAMES, RECORD

__all__ = ["CALL_KEYS", "Shape", "shapes_in"]

_WRAPPERS: Final = ("function_call", "function", "tool_call", "tool_use", "call")
_LISTS: Final = ("tool_calls", "function_calls", "calls")
_SIDE: Final = frozenset({"type", "index", *IDS})
_MOST_WRAPPERS: Final = 3
CALL_KEYS: Final = frozenset({*NAMES, *ARGUMENTS, *_WRAPPERS, *_LISTS, *_SIDE})
"""The keys with which the object of a call may begin."""


class Shape(NamedTuple):
    """One call, as far as it could be read."""

    name: str
    arguments: dict[str, Any]
    call_id: str | None = None
    repairs: tuple[str, ...] = ()
    error: str | None = None
    """Why it cannot be run."""
    is_truncated: bool = False
    says_arguments: bool = True
    """Whether the object has arguments: without them, it may be no call at all."""


def shapes_in(value: Mapping[str, Any], *, repair: bool) -> list[Shape]:
    """The calls in an object; empty: it is none."""
    return list(_found(value, repair, _MOST_WRAPPERS))


def _found(value: Mapping[str, Any], repair: bool, steps: int) -> Iterator[Shape]:
    if RECORD in value or not steps:
        return
    named = [key for key in NAMES if isinstance(value.get(key), str) and value[key].strip()]
    if named:
        yield _shape(value, named, repair)
        return
    keys = [key for key in _WRAPPERS if isinstance(value.get(key), Mapping)]
    if not keys and len(value) == 1:
        keys = [key for key, inner in value.items() if isinstance(inner, Mapping)]
    for key in keys[:1]:
        call_id = _id_of(value)
        for shape in _found(value[key], repair, steps - 1):
            yield shape if shape.call_id or not call_id else shape._replace(call_id=call_id)
        return
    for key in _LISTS:
        items = value.get(key)
        for item in items if isinstance(items, list) else ():
            if isinstance(item, Mapping):
                yield from _found(item, repair, steps - 1)


def _shape(value: Mapping[str, Any], named: list[str], repair: bool) -> Shape:
    name, call_id = value[named[0]].strip(), _id_of(value)
    given = [key for key in ARGUMENTS if key in value]
    others = [key for key in value if key not in {*named, *given, *_SIDE}]
    if len(given) > 1 or len(named) > 1:
        both = " and ".join(map(repr, given if len(given) > 1 else named))
        error = f"the call has {both}: write one name, and one 'arguments'"
        return Shape(name, {}, call_id, error=error)
    if not given:
        return _without_arguments(name, call_id, others)
    repairs = tuple(f"{key[:64]!r} beside the arguments was left out" for key in others)
    written = value[given[0]]
    if isinstance(written, Mapping):
        return Shape(name, dict(written), call_id, repairs)
    if written is None and repair:
        note = "the arguments were written as null: read as {}"
        return Shape(name, {}, call_id, (*repairs, note))
    if not isinstance(written, str):
        kind = type(written).__name__
        error = f"{given[0]!r} must be a JSON object, got a {kind}"
        return Shape(name, {}, call_id, repairs, error)
    read = read_arguments(written, repair=repair)
    repairs += read.repairs
    return Shape(name, read.value or {}, call_id, repairs, read.error, read.is_truncated)


def _without_arguments(name: str, call_id: str | None, others: list[str]) -> Shape:
    if others:
        listed = ", ".join(key[:64] for key in others[:8])
        error = f"the call has no 'arguments', but {listed}: write them inside 'arguments'"
        return Shape(name, {}, call_id, error=error, says_arguments=False)
    note = ("no arguments were written: read as {}",)
    return Shape(name, {}, call_id, note, says_arguments=False)


def _id_of(value: Mapping[str, Any]) -> str | None:
    return next((value[key] for key in IDS if isinstance(value.get(key), str) and value[key]), None)
