"""Which JSON values represent a tool's return value that is not made of them?

Images and other content become content blocks, models of pydantic are asked for their own form;
values with fields, keys or items are taken apart. A value without a JSON form is an error that says
what to return: its `repr` would look like an answer. So is one whose JSON would fill the memory,
because it holds the same lists or mappings again and again.
"""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Mapping, Sequence, ValuesView
from collections.abc import Set as AbstractSet
from decimal import Decimal
from enum import Enum
from gc import get_referents, is_tracked
from typing import Any, Final
from uuid import UUID

import msgspec

from tool_engine.errors import ToolExecutionError
from tool_engine.model.content.blocks import lay_out
from tool_engine.model.content.pieces import Content
from tool_engine.model.json.output import as_output, fields_of, is_path

_MAX_DEPTH: Final = 64
_MOST: Final = 1_000_000
"""The most values that are taken apart; one that contains itself twice has no end."""
_FEW: Final = 1_000
"""The most values that are looked at on the event loop."""
_MOST_WRITTEN: Final = 500_000
"""The most lists and mappings in the JSON of a value that holds some of them many times."""
_MANY: Final = 10
"""How often it holds each of them."""
_SAMPLE: Final = 16
_DEEPEST: Final = 1_000
_CONTAINERS: Final = frozenset((dict, list, tuple))
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


def may_unfold(output: dict[str, Any]) -> bool:
    """Return True if its JSON may be much larger than the value; only a few parts are counted."""
    if _is_shallow(output):
        return False
    level: list[Any] = [output]
    count = 1.0
    for _ in range(_MAX_DEPTH):
        some = level if len(level) <= _SAMPLE else level[:: len(level) // _SAMPLE]
        level = _list_inside(some)
        if not level:
            return False
        count *= len(level) / len(some)
        if count > _MOST_WRITTEN:
            break
    return True


def _is_shallow(output: dict[str, Any]) -> bool:
    """Return True if it is small, and no list or mapping in it holds another one: most are."""
    if len(output) > _SAMPLE:
        return False
    for each in output.values():
        if (kind := type(each)) in _CONTAINERS:
            items = each.values() if kind is dict else each
            if len(items) > _SAMPLE or not _CONTAINERS.isdisjoint(map(type, items)):
                return False
    return True


def check_unfolding(value: Any) -> None:
    """Raise `ToolExecutionError` if its JSON is much larger than the value; may take its time."""
    level, count = [value], 1
    for _ in range(_DEEPEST):
        level = _list_inside(level)
        count += len(level)
        if not level:
            return
        if count > _MOST_WRITTEN and len(set(map(id, level))) * _MANY < len(level):
            raise ToolExecutionError(
                "the tool has run, but it returned the same lists or mappings so often that their "
                f"JSON has more than {_MOST_WRITTEN:,} of them: return each of them once"
            )


def _list_inside(level: list[Any]) -> list[Any]:
    """Return the lists and mappings in some others; those without any others may be left out."""
    # What the garbage collector does not track holds texts and numbers alone.
    return [
        each for each in get_referents(*level) if type(each) in _CONTAINERS and is_tracked(each)
    ]


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
