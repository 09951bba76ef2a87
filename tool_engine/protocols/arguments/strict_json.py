"""Which value does a text hold that must be JSON, without any loss?"""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any, Final, NoReturn

import msgspec

from tool_engine.model.json.unpacking import LARGE, without_collection

_SHORT: Final = 1 << 10
"""Characters up to which writing a value again costs less than a closer look."""
_BLANKS: Final = b" \t\n\r"


class RefusedJSONError(ValueError):
    """Ambiguous or lossy JSON: repeated keys, NaN, numbers out of range."""


def read_json(text: str, *, is_lenient: bool = False) -> Any:
    """Read one JSON value; with `is_lenient`, strings may hold control characters.

    Raises:
        json.JSONDecodeError: It is no JSON.
        RefusedJSONError: A key stands twice, or a value cannot be represented.
        RecursionError: It nests too deep.
    """
    if len(text) < _SHORT and (read := _read_quickly(text)) is not None:
        return read
    try:
        if len(text) < LARGE:
            return _DECODERS[is_lenient].decode(text)
        with without_collection():
            return _DECODERS[is_lenient].decode(text)
    except (json.JSONDecodeError, RefusedJSONError):
        raise
    except ValueError as error:
        raise RefusedJSONError("a number has too many digits") from error


def _read_quickly(text: str) -> Any:
    """Return the value if nothing can be lost in it; None: look closer.

    What is written again and is the same text but for blanks has each key once and each number as
    it stands: of a key that stands twice only one would be written.
    """
    try:
        sent = text.encode()
        read = msgspec.json.decode(sent)
        again = msgspec.json.encode(read)
    except (ValueError, OverflowError, RecursionError):
        return None
    if again != sent and again.translate(None, _BLANKS) != sent.translate(None, _BLANKS):
        return None
    return read


def _refuse_constant(constant: str) -> NoReturn:
    raise RefusedJSONError(f"{constant} is no JSON number")


def _read_finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise RefusedJSONError(f"the number {digits[:40]!r} is too large")
    return number


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise RefusedJSONError(f"the key {twice[:40]!r} stands twice in one object")
    return value


_DECODERS: Final = tuple(
    json.JSONDecoder(
        strict=not is_lenient,
        parse_constant=_refuse_constant,
        parse_float=_read_finite,
        object_pairs_hook=_make_object,
    )
    for is_lenient in (False, True)
)
