"""Which Python value does the driver need for a JSON value and a PostgreSQL type?

The server reports the type of each place of a statement. A text may stand for every type, as in
SQL; what does not fit is an error that names the parameter.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import msgspec


class ArgumentError(ValueError):
    """A value of the wrong type; the message names parameter and type."""


def convert_argument(name: str, value: Any, kind: str, is_array: bool) -> Any:
    if value is None:
        return None
    if not is_array:
        return _convert_single(name, value, kind)
    if not isinstance(value, list):
        raise ArgumentError(f"parameter {name!r} must be a list here, got {value!r:.80}")
    return _convert_items(name, value, kind.removesuffix("[]").removeprefix("_"))


def _convert_items(name: str, values: list[Any], kind: str) -> list[Any]:
    """Return an array's items, nested in lists for several dimensions."""
    return [
        _convert_items(name, item, kind)
        if isinstance(item, list) and kind not in _JSON
        else None
        if item is None
        else _convert_single(name, item, kind)
        for item in values
    ]


_JSON: Final = ("json", "jsonb")


def _convert_single(name: str, value: Any, kind: str) -> Any:
    convert = _CONVERT.get(kind, _as_it_is)
    try:
        return convert(value)
    except (ValueError, TypeError, OverflowError, InvalidOperation):
        raise ArgumentError(
            f"parameter {name!r} must be of PostgreSQL's type {kind} here, got {value!r:.80}"
        ) from None


def _to_whole(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError
    number = int(value)
    if isinstance(value, float) and number != value:
        raise ValueError
    return number


def _to_number(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError
    return float(value)


def _to_decimal(value: Any) -> Decimal:
    if isinstance(value, bool):
        raise TypeError
    return Decimal(str(value))


def _to_truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    words = {"true": True, "false": False}
    if isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    raise ValueError


def _to_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def _to_bytes(value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise ValueError from error


def _to_time(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _as_it_is(value: Any) -> Any:
    return value


_CONVERT: Final[dict[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(("int2", "int4", "int8", "oid"), _to_whole),
    **dict.fromkeys(("float4", "float8"), _to_number),
    "numeric": _to_decimal,
    "bool": _to_truth,
    **dict.fromkeys(("text", "varchar", "bpchar", "name", "citext", "xml", "unknown"), _to_text),
    "bytea": _to_bytes,
    **dict.fromkeys(("date", "time", "timetz", "timestamp", "timestamptz", "interval"), _to_time),
}
