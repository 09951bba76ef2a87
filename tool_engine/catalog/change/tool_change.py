"""How do events and logs show one edit of a tool, and does its version announce it?"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

import msgspec

from tool_engine.redaction import redact

NONE: Final = "none"
COSMETIC: Final = "cosmetic"
COMPATIBLE: Final = "compatible"
BREAKING: Final = "breaking"
_MOST_SHOWN: Final = 2_000
"""Characters of a value in a change; a longer one is cut, as events carry it."""
_NUMBERS: Final = re.compile(r"v?([0-9]{1,18}(?:\.[0-9]{1,18}){0,3})(?:[-+ ].*)?", re.DOTALL)


class ToolChange(msgspec.Struct, frozen=True):
    """One edit, with secrets hidden."""

    path: str
    """Where, such as `parameters.url.required` or `entry.request.url`."""
    kind: str
    """What, such as `parameter_added`, `type_narrowed` or `enum_shrunk`."""
    level: str
    """`cosmetic`, `compatible` or `breaking`."""
    old: Any
    """The value before; None where there was none."""
    new: Any
    message: str


def make_change(
    path: str, level: str, old: Any, new: Any, kind: str = "", message: str = ""
) -> ToolChange:
    old, new = _for_all_eyes(path, old), _for_all_eyes(path, new)
    return ToolChange(
        path,
        kind or f"{path.rpartition('.')[2]}_changed",
        level,
        old,
        new,
        message or f"changed from {_describe_value(old)} to {_describe_value(new)}",
    )


def _for_all_eyes(path: str, value: Any) -> Any:
    """Return `value` as JSON with hidden secrets and shortened texts."""
    if isinstance(value, msgspec.Struct):
        value = msgspec.to_builtins(value)
    for key in reversed(path.split(".")):
        value = {key: value}
    value = redact(value)
    for key in path.split("."):
        value = value[key] if isinstance(value, dict) else value
    text = _describe_value(value)
    return value if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def _describe_value(value: Any) -> str:
    return "nothing" if value is None else msgspec.json.encode(value).decode()


def is_major_step(old: str, new: str) -> bool:
    """Return True if the first number differs: 1.4.0 to 2.0.0, or back.

    Before 1.0.0 nothing is promised yet, so that there the second number counts: 0.3.1 to 0.4.0. A
    version without numbers promises nothing: to give it some is a step, to take them away is not.

    Example:
        >>> is_major_step("1.9", "2.0"), is_major_step("1.9", "1.10")
        (True, False)
    """
    before, after = _parse_numbers(old), _parse_numbers(new)
    if after is None:
        return False
    return before is None or _promised_part(before) != _promised_part(after)


def is_lower(old: str, new: str) -> bool:
    """Return True if the version goes down, as far as known."""
    if old == new:
        return False
    before, after = _parse_numbers(old), _parse_numbers(new)
    return before is not None and after is not None and after < before


def next_major(version: str) -> str:
    """Return the version of a breaking edit: 2.0.0 after 1.4.2."""
    numbers = _parse_numbers(version)
    if numbers is None:
        return "1.0.0"
    return f"{numbers[0] + 1}.0.0" if numbers[0] else f"0.{numbers[1] + 1}.0"


def _promised_part(numbers: tuple[int, ...]) -> tuple[int, ...]:
    return numbers[:1] if numbers[0] else numbers[:2]


@lru_cache(maxsize=1024)
def _parse_numbers(version: str) -> tuple[int, ...] | None:
    found = _NUMBERS.fullmatch(version.strip())
    if found is None:
        return None
    numbers = [int(number) for number in found[1].split(".")]
    return tuple(numbers + [0] * (4 - len(numbers)))
