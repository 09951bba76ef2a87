"""As which texts may a tool have received a secret value?

Validation passes 7.0 on as 7 for an integer, and a hint such as `datetime` converts a text: what a
tool repeats is not always what was sent.
"""

from __future__ import annotations

import datetime as dt
from binascii import a2b_base64
from collections.abc import Collection, Iterator, Mapping
from decimal import Decimal
from math import isfinite
from typing import Any, Final
from uuid import UUID

import msgspec

from tool_engine.model.json.output import stand_in, to_text

_SHORTEST: Final = 4
"""Characters of a converted form; shorter ones stand in every second text."""
_LONGEST: Final = 64
"""Longest text of a date, a duration, a decimal number or an id."""
_LONGEST_CODED: Final = 16_384
_KINDS: Final = (dt.datetime, dt.date, dt.time, dt.timedelta, Decimal, UUID)
_LARGEST: Final = 2**1023
"""No float is larger."""


def readings(value: Any, declared: Collection[str] | None = None) -> Iterator[str]:
    """Return all texts in a value, as sent and as a tool may receive them.

    Args:
        value: What was sent, or is filled in.
        declared: The keys of objects that are not secret; None: any key may be.
    """
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Mapping):
            if declared is not None:
                keys = (key for key in item if isinstance(key, str) and key not in declared)
                waiting.extend(key for key in keys if len(key) >= _SHORTEST)
            waiting.extend(item.values())
        elif isinstance(item, list | tuple):
            waiting.extend(item)
        elif isinstance(item, str):
            yield to_text(item)
            yield from (text for text in _read_converted(item) if len(text) >= _SHORTEST)
        elif item is not None and not isinstance(item, bool):
            yield from read_number(item)


def read_number(value: Any) -> Iterator[str]:
    """Return a number's text, and those of the equal integer and float."""
    yield to_text(value)
    if isinstance(value, float) and isfinite(value) and value.is_integer():
        yield str(int(value))
    elif isinstance(value, int) and -_LARGEST < value < _LARGEST:
        yield str(float(value))


def _read_converted(text: str) -> Iterator[str]:
    """Yield the texts of what a function with such a hint receives."""
    if len(text) <= _LONGEST:
        for kind in _KINDS:
            try:
                made = msgspec.convert(text, kind)
            except (msgspec.ValidationError, ArithmeticError, ValueError):
                continue
            yield from (str(made), repr(made), str(stand_in(made)), msgspec.to_builtins(made))
    if len(text) > _LONGEST_CODED:
        return
    try:
        data = a2b_base64(text, strict_mode=True)
        yield repr(data)[2:-1]
        yield data.decode()
    except ValueError:
        return
