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


def argument(name: str, value: Any, kind: str, is_array: bool) -> Any:
    if value is None:
        return None
    if not is_array:
        return _single(name, value, kind)
    if not isinstance(value, list):
        raise ArgumentError(f"parameter {name!r} must be a list here, got {value!r:.80}")
    return _items(name, value, kind.removesuffix("[]").removeprefix("_"))


def _items(name: str, values: list[Any], kind: str) -> list[Any]:
    """Return an array's items, nested in lists for several dimensions."""
    return [
        _items(name, item, kind)
        if isinstance(item, list) and kind not in _JSON
        else None
        if item is None
        else _single(name, item, kind)
        for item in values
    ]


_JSON: Final = ("json", "jsonb")


def _single(name: str, value: Any, kind: str) -> Any:
    convert = _CONVERT.get(kind, _as_it_is)
    try:
        return convert(value)
    except (ValueError, TypeError, OverflowError, InvalidOperation):
        raise ArgumentError(
            f"parameter {name!r} must be of PostgreSQL's type {kind} here, got {value!r:.80}"
        ) from None


def _whole(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError
    number = int(value)
    if isinstance(value, float) and number != value:
        raise ValueError
    return number


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError
    return float(value)


def _decimal(value: Any) -> Decimal:
    if isinstance(value, bool):
        raise TypeError
    return Decimal(str(value))


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    words = {"true": True, "false": False}
    if isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    raise ValueError


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def _bytes(value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise ValueError from error


def _time(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _as_it_is(value: Any) -> Any:
    return value


_CONVERT: Final[dict[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(("int2", "int4", "int8", "oid"), _whole),
    **dict.fromkeys(("float4", "float8"), _number),
    "numeric": _decimal,
    "bool": _truth,
    **dict.fromkeys(("text", "varchar", "bpchar", "name", "citext", "xml", "unknown"), _text),
    "bytea": _bytes,
    **dict.fromkeys(("date", "time", "timetz", "timestamp", "timestamptz", "interval"), _time),
}
