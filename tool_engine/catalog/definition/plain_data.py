"""How does a definition that was written in code become plain data?"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

import msgspec

from tool_engine.catalog.definition.fault import Fault
from tool_engine.catalog.limits import MAX_DEPTH
from tool_engine.catalog.yaml.document import Path
from tool_engine.catalog.yaml.scalars import INTEGER_CURE

_LONG_NUMBER: Final = b"0" * 19
"""In a JSON text, when all digits are zeros: perhaps an integer of more than 64 bits."""
_AS_ZEROS: Final = bytes.maketrans(b"123456789", b"000000000")


def plain_definition(definition: Any, faults: list[Fault]) -> Any:
    """Return a copy of a definition that was written in code, as `plain_data` makes it."""
    written = write_plain(definition)
    return plain_data(definition, (), faults) if written is None else written[1]


def write_plain(definition: Any) -> tuple[bytes, Any] | None:
    """Return a definition as JSON, and what that says; None: JSON does not say all of it."""
    try:
        text = msgspec.json.encode(definition)
        copied = msgspec.json.decode(text)
        # Two steps of C, unless the copy is another value.
        is_same = copied == definition and _LONG_NUMBER not in text.translate(_AS_ZEROS)
    except (ValueError, TypeError, RecursionError):
        return None
    is_flat = is_same and text.count(b"{") + text.count(b"[") <= MAX_DEPTH
    return (text, copied) if is_flat or (is_same and _is_shallow(copied)) else None


def _is_shallow(value: Any) -> bool:
    """True if nothing of it is nested deeper than a definition may be."""
    level = [value]
    for _ in range(MAX_DEPTH):
        inner = [each.values() if each.__class__ is dict else each for each in level]
        level = [each for part in inner for each in part if each.__class__ in (dict, list)]
        if not level:
            return True
    return False


def plain_data(value: Any, path: Path, faults: list[Fault]) -> Any:
    """Return a copy of `value` in the types of YAML.

    Tuples become lists, enum members their values. Anything else is a fault.
    """
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, bool | str | int | float):
        return _plain_scalar(value, path, faults)
    if len(path) >= MAX_DEPTH:
        message = f"nested more than {MAX_DEPTH} levels deep"
        faults.append(Fault(path, message, cure="make it flatter"))
        return None
    if isinstance(value, Mapping):
        return _plain_mapping(value, path, faults)
    if isinstance(value, list | tuple):
        return [plain_data(item, (*path, number), faults) for number, item in enumerate(value)]
    faults.append(
        Fault(path, f"a {type(value).__name__} cannot be part of a definition; use JSON values")
    )
    return None


def _plain_scalar(value: Any, path: Path, faults: list[Fault]) -> Any:
    if isinstance(value, str):
        return _plain_text(value, path, faults)
    if value is None or isinstance(value, bool):
        return value
    return _plain_number(value, path, faults)


def _plain_mapping(value: Mapping[Any, Any], path: Path, faults: list[Fault]) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(key, str):
            name = _plain_text(key, path, faults)
            plain[name] = plain_data(item, (*path, name), faults)
        else:
            faults.append(Fault(path, f"the key {key!r} must be text"))
    return plain


def _plain_text(value: str, path: Path, faults: list[Fault]) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        faults.append(Fault(path, "half a surrogate pair cannot be part of a text; remove it"))
        return ""
    return str(value)


def _plain_number(value: float, path: Path, faults: list[Fault]) -> int | float:
    if isinstance(value, int):
        if -(2**63) <= value < 2**63:
            return int(value)
        faults.append(Fault(path, "the integer does not fit into 64 bits", cure=INTEGER_CURE))
    elif value - value == 0:
        return float(value)
    else:
        faults.append(Fault(path, f"{value} is not a number that JSON can carry; remove it"))
    return 0
