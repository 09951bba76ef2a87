"""Which JSON values represent a tool's return value that is not made of them?

Images and other content become content blocks, models of pydantic are asked for their own form;
values with fields, keys or items are taken apart. A value without a JSON form is an error that says
what to return: its `repr` would look like an answer. So is one whose JSON would fill the memory,
because it holds the same texts, lists or mappings again and again.
"""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Mapping, Sequence, ValuesView
from collections.abc import Set as AbstractSet
from decimal import Decimal
from enum import Enum
from gc import get_referents
from sys import getsizeof
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from tool_engine.errors import ToolExecutionError
from tool_engine.model.content.blocks import lay_out
from tool_engine.model.content.pieces import Content
from tool_engine.model.json.output import as_output, fields_of, is_path
from tool_engine.model.json.weighing import HOLDING, LONG_TEXT, has_fields, seems_small

_MAX_DEPTH: Final = 64
_MOST: Final = 1_000_000
"""The most values that are taken apart; one that contains itself twice has no end."""
_FEW: Final = 1_000
"""The most values that are looked at on the event loop."""
_FEW_HELD: Final = 500_000
"""The most values, each counted as often as it is held, that are written on the event loop."""
_MOST_WRITTEN: Final = 100_000_000
"""The most bytes that are written of a value that is much smaller itself."""
_MANY: Final = 10
"""How many times as much is written of it."""
_BEYOND: Final = 1_000
"""So many times `_MOST_WRITTEN` no value has that holds each part once."""
_LEAST: Final = 8
"""Bytes that each value takes at least."""
_DEEPEST: Final = 1_000
_LISTS: Final = frozenset((list, tuple, set, frozenset))
_KNOWN: Final = (
    *(str, int, float, bytes, bytearray, memoryview, type(None), Enum, Decimal, UUID),
    *(dt.date, dt.time, dt.timedelta, msgspec.Raw),
)
"""Types written as a text, a number or null."""


def plain_output(value: Any) -> dict[str, Any]:
    """Return the output for a tool's `value`. Runs code of its classes.

    Raises:
        ToolExecutionError: Something in it has no form in JSON.
    """
    return as_output(_Taking().plain(lay_out(value), "", 0))


def may_unfold(value: Any) -> bool:
    """Return True if its JSON may be large, or much larger than the value; quick."""
    return not seems_small(value, _FEW_HELD)


def check_unfolding(value: Any) -> None:
    """Raise `ToolExecutionError` if its JSON is much larger than the value; may take its time."""
    if _has_more(value, _MOST_WRITTEN) and is_folded(value, _MOST_WRITTEN):
        raise ToolExecutionError(
            "the tool has run, but it returned the same values so often that their JSON has more "
            f"than {_MOST_WRITTEN // 1_000_000} MB: return each of them once"
        )


def is_folded(value: Any, most: int) -> bool:
    """Return True if what is written of a value has more than `most` bytes, most of it again.

    Level by level it is counted how often each list or mapping stands there.

    Args:
        value: Lists and mappings; what else it holds is as large as its object.
        most: Bytes that may be written, however often it holds the same.
    """
    level, written, kept = {id(value): (_open_value(value), 1)}, 0, 0
    known: dict[int, _Measured] = {}
    texts: set[int] = set()
    for _ in range(_DEEPEST):
        below: dict[int, tuple[Any, int]] = {}
        for key, (item, times) in level.items():
            if key not in known:
                known[key] = _measure_item(item, texts)
                kept += known[key].new
            written += times * known[key].size
            for each in known[key].inside:
                below[id(each)] = (each, times + below.get(id(each), (each, 0))[1])
        level = below
        if not level or written > _BEYOND * most:
            break
    return written > most and written > _MANY * kept


class _Measured(NamedTuple):
    """What one list or mapping holds."""

    size: int
    """Bytes of what it holds, without what is inside of other lists and mappings."""
    new: int
    """The same without the long texts that others hold, too."""
    inside: list[Any]
    """The lists and mappings."""


def _measure_item(item: Any, texts: set[int]) -> _Measured:
    found = get_referents(item)
    inside = _list_held(found)
    held = set(map(type, inside))
    size, again = _LEAST * len(inside), 0
    for own, each in ((getsizeof(each), each) for each in found if type(each) not in held):
        size += own
        if own > LONG_TEXT:
            again += own if id(each) in texts else 0
            texts.add(id(each))
    return _Measured(size, size - again, inside)


def _has_more(value: Any, most: int) -> bool:
    """Return True if a value has more bytes, with what it holds again counted again."""
    level = [_open_value(value)]
    for _ in range(_DEEPEST):
        if sum(len(each) for each in level if type(each) in HOLDING) > most // _LEAST:
            return True
        found = get_referents(*level)
        most -= sum(map(getsizeof, found))
        level = _list_held(found)
        if not level or most < 0:
            break
    return most < 0


def _list_held(found: list[Any]) -> list[Any]:
    """Return those that hold others: lists, mappings, and values with fields."""
    kinds = {kind for kind in set(map(type, found)) if kind in HOLDING or has_fields(kind)}
    return [each for each in found if type(each) in kinds]


def _open_value(value: Any) -> Any:
    """Return a value itself, or a list of what an object of another class refers to."""
    return value if type(value) in HOLDING else get_referents(value)


def plain_at_once(value: Any) -> dict[str, Any] | None:
    """Return the output of a small `value` if no code of its classes runs; else None.

    None too if it has none: `plain_output` says why.
    """
    try:
        return plain_output(value) if _is_simple(value) else None
    except ToolExecutionError:
        return None


def _is_simple(value: Any) -> bool:
    left, pending = _FEW, [value]
    while pending and left > 0:
        value = pending.pop()
        left -= 1
        if type(value) is dict:
            pending += list(value.values())[:_FEW]
        elif type(value) in _LISTS:
            pending += list(value)[:_FEW]
        elif not _is_known(value) and not isinstance(value, Content):
            # The bytes of content have become base64 when it was made.
            return False
    return left > 0


def _is_known(value: Any) -> bool:
    return isinstance(value, _KNOWN) or is_path(value)


class _Taking:
    """Takes values apart, up to a bound."""

    def __init__(self) -> None:
        self._left = _MOST

    def plain(self, value: Any, place: str, depth: int) -> Any:
        self._left -= 1
        # What nests deeper, holds itself or has more in it is cut where it is written as text.
        if _is_known(value) or depth >= _MAX_DEPTH or self._left < 0:
            return value
        if callable(getattr(type(value), "model_dump", None)):
            return self.plain(_dump_model(value, place), place, depth + 1)
        held = value if isinstance(value, Mapping) else fields_of(value)
        if held is not None:
            named = held.items()
            return {key: self.plain(item, f"{place}.{key}", depth + 1) for key, item in named}
        if isinstance(value, Sequence | AbstractSet | ValuesView):
            items = enumerate(value)
            return [self.plain(item, f"{place}[{at}]", depth + 1) for at, item in items]
        if type(value).__module__.partition(".")[0] == "numpy" and hasattr(value, "tolist"):
            return self.plain(value.tolist(), place, depth + 1)
        raise _without_form(value, place)


def _dump_model(value: Any, place: str) -> Any:
    try:
        return value.model_dump(mode="json")
    except Exception as error:
        raise ToolExecutionError(
            f"the tool has run, but {_name_value(value, place)} cannot be written as JSON: "
            f"{type(error).__name__}: {error}"
        ) from error


def _without_form(value: Any, place: str) -> ToolExecutionError:
    if inspect.isgenerator(value) or inspect.isasyncgen(value) or hasattr(value, "__next__"):
        cure = "return a list of what it gives"
    elif inspect.isawaitable(value):
        cure = "await it, and return what it gives"
        if inspect.iscoroutine(value):
            value.close()
    elif isinstance(value, BaseException):
        cure = "raise it"
    elif isinstance(value, Content):
        cure = "return it by itself, in a list, or in the list under 'content'"
    else:
        cure = (
            "return text, numbers, true or false, None, lists or mappings of them, a dataclass or "
            "a pydantic model"
        )
    return ToolExecutionError(
        f"the tool has run, but {_name_value(value, place)} has no form in JSON: {cure}"
    )


def _name_value(value: Any, place: str) -> str:
    kind = f"class {value.__name__}" if isinstance(value, type) else type(value).__name__
    where = f" at {place.removeprefix('.')[:200]!r}" if place else ""
    return f"the {kind} that it returned{where}"
