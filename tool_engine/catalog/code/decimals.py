"""Which decimals are no numbers that a tool can work with?

msgspec reads 'NaN' and 'Infinity' as decimals, and '1e999999999', which fills the memory once it is
written out or made an integer.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

import msgspec
from msgspec import inspect as types

_LONGEST: Final = 10_000
"""The most digits before the point, and the most zeros behind it."""


def holds_decimals(hint: Any) -> bool:
    """Return True if values of a hint that msgspec reads may hold decimals."""
    return "DecimalType" in repr(types.type_info(hint))


def find_unusable(made: Any) -> str | None:
    """Return the place of a decimal that is not finite, or far too long; None: there is none."""
    plain = msgspec.to_builtins(
        made, builtin_types=(Decimal,), str_keys=True, enc_hook=lambda _value: None
    )
    return next(_walk_value(plain, ""), None)


def _walk_value(value: Any, place: str) -> Iterator[str]:
    if isinstance(value, Decimal):
        if not value.is_finite() or abs(value.adjusted()) > _LONGEST:
            yield place
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _walk_value(each, f"{place}.{key}")
    elif isinstance(value, list | tuple):
        for number, each in enumerate(value):
            yield from _walk_value(each, f"{place}[{number}]")
