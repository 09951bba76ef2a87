"""How does a tool's JSON value become the mapping that is its output?"""

from __future__ import annotations

import datetime as dt
import json
import reprlib
import sys
from collections import UserString
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from functools import partial
from importlib import import_module
from itertools import islice
from math import isfinite, isnan
from typing import Any, Final
from uuid import UUID

import msgspec

from tool_engine.model.json.free_key import free_key

_MAX_DEPTH: Final = 64
PLAIN: Final = frozenset((int, str, float, bool, list, type(None)))
"""Types that are certainly no mapping."""
_encode: Final = msgspec.msgpack.Encoder().encode
_STR: Final = frozenset((str,))
_CONTAINERS: Final = frozenset((dict, list, tuple))
_MOST_CONTAINERS: Final = 1_000_000
"""Containers that are looked into; a value that contains itself has more."""
_AT_ONCE: Final = 10_000
"""Entries that are written in one step, in which no other thread runs."""
_WORDS: Final = {None: "null", True: "true", False: "false"}
_MOST_BITS: Final = 14_285
"""Those of a number of 4,300 digits: Python writes and reads no longer one, and most others stop
far below."""
_SURE_BITS: Final = 2_000
"""Those of a number that a program cannot forbid to write: its limit is at least 640 digits."""
_LONGEST: Final = 160


def as_output(value: Any) -> dict[str, Any]:
    """Return the mapping that a result holds as its `output`.

    A dict is passed as it is, another mapping as a dict, a struct, a dataclass or a class of
    attrs as its fields; anything else, None too, becomes `{"result": value}`.
    """
    kind = type(value)
    if kind is dict:
        return value  # type: ignore[no-any-return]
    if kind in PLAIN:
        return {"result": value}
    if isinstance(value, Mapping):
        return dict(value)
    fields = fields_of(value)
    return {"result": value} if fields is None else fields


def fields_of(value: Any) -> dict[str, Any] | None:
    """Return the fields of a struct, dataclass or attrs class; None for other values."""
    kind = type(value)
    if isinstance(value, msgspec.Struct):
        # As they are read: a tool, for one, holds some of its fields in another form.
        return {name: getattr(value, name) for name in value.__struct_fields__}
    if hasattr(kind, "__dataclass_fields__"):
        fields = import_module("dataclasses").fields(value)
    elif hasattr(kind, "__attrs_attrs__"):
        fields = kind.__attrs_attrs__
    else:
        return None
    return {field.name: getattr(value, field.name) for field in fields}


def to_text(output: Any) -> str:
    """Return the text that a model reads: a string as it is, else JSON on one line.

    Letters of every script stay as they are. Dates, decimals, ids and paths are written as text,
    structs and dataclasses as objects, what JSON cannot hold as its `repr`, and half of a surrogate
    pair as its escape, so that the text can always be sent. Never raises.
    """
    if isinstance(output, str):
        return _make_encodable(str.__str__(output))
    try:
        count = _count_entries(output)
        if count is None:
            raise TypeError("two keys may be the same in JSON")
        write = partial(json.dumps, ensure_ascii=False, allow_nan=False, default=stand_in)
        text = write(output) if count <= _AT_ONCE else _write_long(output, write)
    except Exception:  # noqa: BLE001 - a class of the tool's may raise when it is read
        # NaN, keys that are no text, and values that hold themselves or nest too deep, too.
        text = _write_long(copy_plain(output), partial(json.dumps, ensure_ascii=False))
    return _make_encodable(text)


def to_json(value: Any) -> bytes:
    r"""Return a value as JSON that can always be sent.

    It is as msgspec has it, but that half of a surrogate pair is a text of six letters
    (`\ud800`), as a database keeps it: most readers of JSON refuse a whole answer for its escape.
    What else msgspec cannot write is as in `to_text`.
    """
    try:
        return msgspec.json.encode(value)
    except (OverflowError, ValueError):  # halves of characters, and too many digits
        # Loaded late: most programs have neither.
        from tool_engine.model.json.halves import escape_halves

        return to_text(escape_halves(msgspec.to_builtins(value))).encode()


def _write_long(value: Any, write: Callable[[Any], str]) -> str:
    # Imported when there is one: most programs have none.
    from tool_engine.model.json.weighing import write_in_pieces

    return "".join(write_in_pieces(value, write))


def has_own_form(value: Any) -> bool:
    """True if every part of a value is of a kind with exactly one JSON form."""
    try:
        _encode(as_output(value))
    except Exception:  # noqa: BLE001 - foreign objects raise anything
        return False
    return True


def _count_entries(value: Any) -> int | None:
    """Return how many entries the containers in `value` have together.

    None if a mapping has keys that are no text: JSON merges `1` and `"1"`.
    """
    pending, seen, count = [value], 0, 0
    while pending:
        value = pending.pop()
        seen += 1
        if type(value) is dict:
            if not _STR.issuperset(map(type, value)):
                return None
            value = value.values()
        elif type(value) is not list and type(value) is not tuple:
            continue
        if seen > _MOST_CONTAINERS:
            return None
        count += len(value)
        pending += [item for item in value if type(item) in _CONTAINERS]
    return count


def stand_in(value: Any) -> Any:
    """Return a value that JSON knows for one that it does not know."""
    if isinstance(value, set | frozenset):
        return list(value)
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, dt.timedelta | bytes | bytearray | memoryview | msgspec.Raw):
        return _read_data(value)
    if isinstance(value, Decimal | UUID | UserString) or is_path(value):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    output = as_output(value)
    return safe_repr(value) if output.get("result") is value else output


def _read_data(value: Any) -> Any:
    """Return what bytes show, whatever holds them; of written JSON its value."""
    try:
        if isinstance(value, dt.timedelta):
            return msgspec.to_builtins(value)
        return msgspec.json.decode(value) if type(value) is msgspec.Raw else repr(bytes(value))
    except (ValueError, RecursionError):
        return safe_repr(value)  # no JSON, or a view that was released


def is_path(value: Any) -> bool:
    # Where no code has imported the module there is no path, and no call waits for its import:
    # while a thread is at it, the module is there without its names.
    return isinstance(value, getattr(sys.modules.get("pathlib"), "PurePath", ()))


def copy_plain(value: Any) -> Any:
    """Return a copy made of JSON values, in the forms of `to_text`; nothing is lost."""
    return _make_plain(value, 0)


def _make_plain(value: Any, depth: int) -> Any:
    # Tuples, and `dict` before what it is one of: there are thousands of small values.
    if isinstance(value, (str, bool)) or value is None:
        return value
    if isinstance(value, (int, float)):
        return _plain_number(value)
    if depth >= _MAX_DEPTH:
        return "…"
    try:
        return _plain_container(value, depth)
    except RecursionError:
        raise
    except Exception:  # noqa: BLE001 - a class of the tool's may raise when it is read
        return safe_repr(value)


def _plain_container(value: Any, depth: int) -> Any:
    if isinstance(value, dict) or isinstance(value, Mapping):  # noqa: SIM101 - slower at once
        return _plain_mapping(value, depth)
    if isinstance(value, list | tuple):
        return [_make_plain(item, depth + 1) for item in value]
    return _make_plain(stand_in(value), depth + 1)


def _plain_number(value: float) -> float | str:
    if isinstance(value, int):
        return value if has_writable_digits(value) else safe_repr(value)
    return value if isfinite(value) else spell_number(value)


def spell_number(value: float | Decimal) -> str:
    """Return the word for a number that JSON has not."""
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _plain_mapping(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    copy: dict[str, Any] = {}
    for key, item in value.items():
        if type(key) is not str:
            return _plain_foreign_mapping(value, depth)
        copy[key] = item if type(item) is str else _make_plain(item, depth + 1)
    return copy


def _plain_foreign_mapping(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    # Texts first: what is none gives way, with an apostrophe, as in a record.
    taken = {str.__str__(key) for key in value if isinstance(key, str)}
    copy: dict[str, Any] = {}
    for key, item in value.items():
        name = _plain_key(key)
        if not isinstance(key, str):
            name = free_key(name, taken)
            taken.add(name)
        copy[name] = _make_plain(item, depth + 1)
    return copy


def _plain_key(key: Any) -> str:
    if isinstance(key, str):
        return str.__str__(key)
    return _WORDS[key] if key is None or isinstance(key, bool) else safe_repr(key)


def has_writable_digits(number: int) -> bool:
    """Return True if all digits of a whole number can be written."""
    bits = int.bit_length(number)
    if bits <= _SURE_BITS or bits > _MOST_BITS:
        return bits <= _SURE_BITS
    try:
        int.__repr__(number)
    except ValueError:
        # One of 4,300 digits and a few bits more; or a program may have set a lower limit.
        return False
    return True


def safe_repr(value: Any) -> str:
    """Return the `repr` of a value, even if `repr` raises."""
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - a tool's own repr may raise anything
        return f"<{type(value).__name__}>"


def _make_encodable(text: str) -> str:
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode()


class _Short(reprlib.Repr):
    """A `reprlib.Repr` that keeps some of each mapping and list, and the ends of texts."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother, self.maxlong = 3, 120, 60, 40

    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        """Show the first keys in their own order, unlike `reprlib`, which sorts."""
        if level <= 0:
            return "{…}"
        parts = [
            f"{self.repr1(key, level - 1)}: {self.repr1(value, level - 1)}"
            for key, value in islice(x.items(), self.maxdict)
        ]
        return f"{{{', '.join(parts)}{', …' if len(x) > self.maxdict else ''}}}"


_SHORT: Final = _Short()


def shorten_repr(value: Any) -> str:
    """Return the `repr` of a value on one line, short whatever its size."""
    text = " ".join(_SHORT.repr(value).splitlines())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def describe_result(result: Any) -> str:
    """Describe on one line how a call ended, from its `ToolExecutionResult`."""
    what = result.output if result.is_success else f"{result.error_type}: {result.error}"
    how = f"{result.outcome.value} in {result.execution_time * 1000:.3g} ms"
    return f"ToolExecutionResult({result.tool_name!r} {how}: {shorten_repr(what)})"
