"""Which JSON values stand for a returned value that is not made of them?

Images and other content become content blocks, models of pydantic are asked for their own form;
values with fields, keys or items are taken apart. A value without a JSON form is an error that says
what to return: its `repr` would look like an answer. So is one whose JSON would fill the memory,
because it holds the same lists or mappings again and again.
"""

from __future__ import annotations

import datetime as dt
import inspect
import json
from collections import UserString
from collections.abc import Callable, Iterator, Mapping, Sequence, ValuesView
from collections.abc import Set as AbstractSet
from decimal import Decimal
from enum import Enum
from gc import get_referents, is_tracked
from itertools import islice
from math import isfinite
from typing import Any, Final
from uuid import UUID

import msgspec

from tool_engine.errors import ToolExecutionError
from tool_engine.model.content.blocks import lay_out
from tool_engine.model.content.pieces import Content
from tool_engine.model.json.halves import has_half
from tool_engine.model.json.returned_value import (
    as_output,
    fields_of,
    has_writable_digits,
    is_path,
    safe_repr,
    stand_in,
)
from tool_engine.model.json.weighing import PIECE

_MAX_DEPTH: Final = 64
_MOST: Final = 1_000_000
"""The most values that are taken apart; one that contains itself twice has no end."""
_FEW: Final = 1_000
"""The most values that are looked at on the event loop."""
_MOST_WRITTEN: Final = 500_000
"""The most lists and mappings in the JSON of a value that holds some of them many times."""
_MANY: Final = 10
"""How often it holds each of them."""
_MOST_AT_ONCE: Final = 262_144
"""Entries of a value that is written on the event loop: some ten milliseconds."""
_PER_ENTRY: Final = 16
"""Characters of texts that count for one of them."""
LONG: Final = _MOST_AT_ONCE * _PER_ENTRY
"""Characters of a text that is not written on the event loop."""
_FEW_PARTS: Final = 8
"""Parts of a list or mapping that are looked at; of one with more, fewer."""
_FEWER_PARTS: Final = 4
_SAMPLE: Final = 16
_DEEPEST: Final = 1_000
_LONGEST_PLACE: Final = 200
_CONTAINERS: Final = frozenset((dict, list, tuple))
_NUMBERS: Final = frozenset((int, float, bool, type(None)))
_KEYS: Final = _NUMBERS | {str}
_WITH_DIGITS: Final = (int, Enum)
_LISTS: Final = frozenset((list, tuple, set, frozenset))
_KNOWN: Final = (
    *(str, int, float, bytes, bytearray, memoryview, type(None), Enum, Decimal, UUID),
    *(dt.date, dt.time, dt.timedelta, msgspec.Raw, UserString),
)
"""Types written as a text, a number or null."""


def plain_output(value: Any) -> dict[str, Any]:
    """Return the output for a tool's `value`. Runs code of its classes.

    Raises:
        ToolExecutionError: Something in it has no form in JSON.
    """
    return as_output(_Taking().plain(lay_out(value), "", 0))


def write_output(value: Any, has_text_keys: Callable[[Any], bool | None]) -> bytes:
    """Return the output for a tool's `value` as JSON that says it as it is.

    Args:
        value: What the tool has returned.
        has_text_keys: Whether all keys in an output are texts.

    Raises:
        ToolExecutionError: Something in it has no form in JSON, or would be another value there.
    """
    output = plain_output(value)
    check_unfolding(output)
    form: dict[str, Any] = {"ensure_ascii": False, "allow_nan": False, "separators": (",", ":")}
    try:
        text = json.dumps(output, default=stand_in, **form).encode()
    except (TypeError, ValueError, RecursionError) as error:
        _check_sayable(output)
        raise ToolExecutionError(
            f"the tool has run, but what it returned cannot be written as JSON: {error}"
        ) from None
    if not has_text_keys(output):
        _check_sayable(output)
    return text


def _check_sayable(output: dict[str, Any]) -> None:
    """Raise `ToolExecutionError` for what would be another value in JSON, or has no end."""
    waiting: list[tuple[Any, str, int]] = [(output, "", 0)]
    while waiting:
        value, place, depth = waiting.pop()
        is_odd = isinstance(value, float) and not isfinite(value)
        if is_odd or depth >= _DEEPEST or (isinstance(value, str) and has_half(value)):
            raise _without_form(value, place)
        if isinstance(value, dict):
            for key, item in value.items():
                if not isinstance(key, str) or has_half(key):
                    raise ToolExecutionError(
                        f"the tool has run, but {_name_value(value, place)} has the key "
                        f"{key!r:.100}: return one with texts as keys"
                    )
                waiting.append((item, f"{place}.{key}"[:_LONGEST_PLACE], depth + 1))
        elif isinstance(value, list | tuple):
            waiting += [(each, f"{place}[{at}]", depth + 1) for at, each in enumerate(value)]


def may_take_long(value: dict[str, Any]) -> bool:
    """Return True if its JSON may be very large; only a few parts are looked at.

    Another thread may change it meanwhile: the values of mappings are taken in one step.
    """
    return not _is_small(value) and _is_long(value)


def _is_small(value: dict[str, Any]) -> bool:
    """Return True if all of it can be looked at, as in most values, and is short."""
    inside: list[Any] = [value]
    letters = 0
    for each in inside:
        parts = [*each.values()] if type(each) is dict else each
        if len(inside) > _SAMPLE or len(parts) > _SAMPLE:
            return False
        if len(parts) > _FEW_PARTS and _NUMBERS.issuperset(map(type, parts)):
            continue
        for part in parts:
            if (kind := type(part)) is str:
                letters += len(part)
            elif kind in _CONTAINERS:
                inside.append(part)
    return letters <= LONG


def _is_long(value: dict[str, Any]) -> bool:
    """Return True if a part of it, or all as far as some parts show, is."""
    if not is_tracked(value):
        return _weigh_leaf(value) > LONG
    level: list[Any] = [value]
    count = 1.0
    for _ in range(_MAX_DEPTH):
        some = level if len(level) <= _SAMPLE else level[:: len(level) // _SAMPLE]
        count /= len(some)
        level, weight = [], 0
        for each in some:
            if (length := len(each)) > _FEW_PARTS:
                weight += _look_at_few(each, level)
                continue
            weight += length * _PER_ENTRY
            for entry in [*each.values()] if type(each) is dict else each:
                if (kind := type(entry)) is str:
                    weight += len(entry)
                elif kind in _CONTAINERS:
                    level.append(entry)
        if not level:
            return count * weight > LONG
        if count * (weight + len(level) * _PER_ENTRY) > LONG:
            return True
        count *= len(level)
    return True


def _look_at_few(value: Any, level: list[Any]) -> int:
    """Return the letters in a list or mapping, as far as some of its entries show.

    What is to be looked into is added to `level`: all of it, unless the value is very large.
    """
    count = len(value)
    if count > _MOST_AT_ONCE:
        return count * _PER_ENTRY
    inside = filter(is_tracked, get_referents(value))
    level += [each for each in inside if type(each) in _CONTAINERS]
    letters, step = 0, count // _FEWER_PARTS | 1
    for entry in [*islice(value.values() if type(value) is dict else value, 0, None, step)]:
        if type(entry) is str:
            letters += len(entry)
        elif type(entry) is dict and not is_tracked(entry):
            letters += _weigh_leaf(entry)
    return count * _PER_ENTRY + letters * step


def _weigh_leaf(value: dict[Any, Any]) -> int:
    """Return the letters in what the garbage collector does not track: texts and numbers alone.

    Each entry counts for some letters itself.
    """
    letters, count = 0, len(value)
    if count > _FEW:
        few = [*islice(value.values(), _FEW)]
        return count * (_PER_ENTRY + sum([len(each) for each in few if type(each) is str]) // _FEW)
    for each in [*value.values()]:
        if type(each) is str:
            letters += len(each)
    return count * _PER_ENTRY + letters


def check_unfolding(value: Any) -> None:
    """Raise `ToolExecutionError` if its JSON is much larger than the value; may take its time.

    Other threads have their turn meanwhile.
    """
    level, count = [value], 1
    for _ in range(_DEEPEST):
        level = _list_inside(level)
        count += len(level)
        if not level:
            return
        if count > _MOST_WRITTEN and _count_different(level) * _MANY < len(level):
            raise ToolExecutionError(
                "the tool has run, but it returned the same lists or mappings so often that their "
                f"JSON has more than {_MOST_WRITTEN:,} of them: return each of them once"
            )


def _count_different(level: list[Any]) -> int:
    seen: set[int] = set()
    for at in range(0, len(level), PIECE):
        seen.update(map(id, level[at : at + PIECE]))
    return len(seen)


def _list_inside(level: list[Any]) -> list[Any]:
    """Return the lists and mappings in some others; those without any others may be left out."""
    found: list[Any] = []
    for some in _list_steps(level):
        inside = filter(is_tracked, get_referents(*some))
        found += [each for each in inside if type(each) in _CONTAINERS]
    return found


def _list_steps(level: list[Any]) -> Iterator[list[Any]]:
    """Yield lists and mappings, in parts where they are large, with few entries together."""
    some: list[Any] = []
    total = 0
    for each in level:
        length = 1 + (len(each) if type(each) in _CONTAINERS else 0)
        if length > PIECE:
            entries = iter(each.values() if type(each) is dict else each)
            while part := list(islice(entries, PIECE)):
                yield [part]
            continue
        if total + length > PIECE:
            yield some
            some, total = [], 0
        some.append(each)
        total += length
    yield some


def plain_at_once(value: Any) -> dict[str, Any] | None:
    """Return the output of a small `value` if no code of its classes runs; else None.

    None too if it has none: `plain_output` says why.
    """
    try:
        return plain_output(value) if _is_simple(value) else None
    except (Exception, SystemExit):  # noqa: BLE001 - a property `__class__` may raise anything
        return None


def _is_simple(value: Any) -> bool:
    left, pending = _FEW, [value]
    while pending and left > 0:
        value = pending.pop()
        left -= 1
        if type(value) is dict:
            if not _KEYS.issuperset(map(type, value)):
                return False
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
        if isinstance(value, _WITH_DIGITS):
            _check_digits(value, place)
            return value
        # What nests deeper, holds itself or has more in it is cut where it is written as text.
        if _is_known(value) or depth >= _MAX_DEPTH or self._left < 0:
            return _hold_view(value, place) if isinstance(value, memoryview) else value
        if callable(getattr(type(value), "model_dump", None)):
            return self.plain(_dump_model(value, place), place, depth + 1)
        held = value if isinstance(value, Mapping) else fields_of(value)
        if held is not None:
            return {key: self._plain_entry(key, item, place, depth) for key, item in held.items()}
        if isinstance(value, Sequence | AbstractSet | ValuesView):
            items = enumerate(value)
            return [self.plain(item, f"{place}[{at}]", depth + 1) for at, item in items]
        if type(value).__module__.partition(".")[0] == "numpy" and hasattr(value, "tolist"):
            return self.plain(value.tolist(), place, depth + 1)
        raise _without_form(value, place)

    def _plain_entry(self, key: Any, item: Any, place: str, depth: int) -> Any:
        if isinstance(key, int):
            _check_digits(key, place)
        name = key if isinstance(key, str) else safe_repr(key)
        return self.plain(item, f"{place}.{name}", depth + 1)


def _hold_view(value: memoryview, place: str) -> bytes:
    """Return what a view shows now; later it may show something else, or be released."""
    try:
        return bytes(value)
    except ValueError:
        raise _without_form(value, place) from None


def _check_digits(value: Any, place: str) -> None:
    """Raise `ToolExecutionError` if no program would write all digits of a number, or read them."""
    number = value.value if isinstance(value, Enum) else value
    if isinstance(number, int) and not has_writable_digits(number):
        where = f" at {place.removeprefix('.')[:_LONGEST_PLACE]!r}" if place else ""
        raise ToolExecutionError(
            f"the tool has run, but a number that it returned{where} has too many digits for JSON: "
            "return it as text, or round it"
        )


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
    elif isinstance(value, float):
        cure = "return None in its place, or a text"
    elif isinstance(value, str):
        cure = "half of a surrogate pair is no text; return it without"
    elif isinstance(value, dict | list | tuple):
        cure = "it holds itself, or nests too deep; return a part of it"
    elif isinstance(value, memoryview):
        cure = "it was released; return bytes(...) of it before that"
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
    where = f" at {place.removeprefix('.')[:_LONGEST_PLACE]!r}" if place else ""
    return f"the {kind} that it returned{where}"
