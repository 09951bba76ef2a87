"""How does a database's value become JSON exactly?

Whole numbers, booleans, texts and JSON stay what they are. What JSON cannot hold exactly becomes
a text: decimals with all their digits, times in ISO 8601, `NaN`, bytes in base64.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any, Final

import msgspec

from tool_engine.model.json.returned_value import spell_number

_MAX_INTEGER: Final = 2**63
_MAX_DEPTH: Final = 60


def json_value(value: Any, depth: int = 0) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if -_MAX_INTEGER <= value < _MAX_INTEGER else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else spell_number(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, date | time):
        return value.isoformat()
    return _plain_compound(value, depth)


def _plain_compound(value: Any, depth: int) -> Any:
    if depth >= _MAX_DEPTH:
        return str(value)
    # asyncpg's composite values have `items` too, and are no mappings.
    if isinstance(value, Mapping) or hasattr(value, "items"):
        return {str(key): json_value(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [json_value(item, depth + 1) for item in value]
    if hasattr(value, "lower_inc"):
        return _range_text(value)
    if hasattr(value, "as_string"):
        return value.as_string().replace(" ", "")
    return _plain_text(value)


def json_of_text(text: str) -> Any:
    """Return the value of a JSON column; its text where JSON is inexact."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return text


def _plain_text(value: Any) -> str:
    if isinstance(value, Decimal):
        return format(value, "f") if value.is_finite() else spell_number(value)
    if isinstance(value, timedelta):
        return f"PT{value.total_seconds():g}S"
    return str(value)


def _range_text(value: Any) -> str:
    if value.isempty:
        return "empty"
    bounds = [
        "" if bound is None else str(json_value(bound)) for bound in (value.lower, value.upper)
    ]
    return f"{'[' if value.lower_inc else '('}{','.join(bounds)}{']' if value.upper_inc else ')'}"
