"""Which mapping and which text does a tool's return value become?"""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from importlib import import_module
from typing import Any, Final
from uuid import UUID

import msgspec

__all__ = ["PLAIN", "as_output", "shown", "stand_in", "to_text"]

_MAX_DEPTH: Final = 64
PLAIN: Final = frozenset((int, str, float, bool, list, type(None)))
"""Types of which it is plain that they are no mapping."""
_LARGEST: Final = 2**2048
"""Python refuses to write integers of more than 4,300 digits."""


def as_output(value: Any) -> dict[str, Any]:
    """The mapping that a result holds as its `output`.

    A dict is handed over as it is, another mapping as a dict, a struct or a dataclass as its
    fields; anything else, None too, becomes `{"result": value}`.
    """
    kind = type(value)
    if kind is dict:
        return value  # type: ignore[no-any-return]
    if kind in PLAIN:
        return {"result": value}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, msgspec.Struct):
        # As they are read: a tool, for one, holds some of its fields in another form.
        return {name: getattr(value, name) for name in value.__struct_fields__}
    if hasattr(kind, "__dataclass_fields__"):
        fields = import_module("dataclasses").fields(value)
        return {field.name: getattr(value, field.name) for field in fields}
    return {"result": value}


def to_text(output: Any) -> str:
    """The text that a model reads: a string as it is, everything else as JSON on one line.

    Letters of every script stay as they are. Dates, decimals, ids and paths are written as text,
    structs and dataclasses as objects, what JSON cannot hold as its `repr`, and half of a surrogate
    pair as its escape, so that the text can always be sent. Never raises.
    """
    if isinstance(output, str):
        return _encodable(str.__str__(output))
    try:
        text = json.dumps(output, ensure_ascii=False, allow_nan=False, default=stand_in)
    except (TypeError, ValueError, RecursionError):
        # NaN, keys that are no text, and values that hold themselves or nest too deep.
        text = json.dumps(_plain(output, 0), ensure_ascii=False)
    return _encodable(text)


def stand_in(value: Any) -> Any:
    """What stands, in a text, for a value that JSON does not know: one that it knows better."""
    if isinstance(value, set | frozenset):
        return list(value)
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, Decimal | UUID) or _is_path(value):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    output = as_output(value)
    return shown(value) if output.get("result") is value else output


def _is_path(value: Any) -> bool:
    # Where nobody has imported the module there is no path, and nobody waits for its import.
    pathlib: Any = sys.modules.get("pathlib")
    return pathlib is not None and isinstance(value, pathlib.PurePath)


def _plain(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int | float):
        return value if -_LARGEST < value < _LARGEST else shown(value)
    if depth >= _MAX_DEPTH:
        return "…"
    if isinstance(value, Mapping):
        return {_key(key): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, depth + 1) for item in value]
    return _plain(stand_in(value), depth + 1)


def _key(key: Any) -> str:
    return str.__str__(key) if isinstance(key, str) else shown(key)


def shown(value: Any) -> str:
    """The `repr` of a value, whatever it raises."""
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - a tool's own repr may raise anything
        return f"<{type(value).__name__}>"


def _encodable(text: str) -> str:
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode()
