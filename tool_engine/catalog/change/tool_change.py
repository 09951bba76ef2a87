"""How do events and logs show one edit of a tool?"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from tool_engine.redaction import redact

NONE: Final = "none"
COSMETIC: Final = "cosmetic"
COMPATIBLE: Final = "compatible"
BREAKING: Final = "breaking"
_MOST_SHOWN: Final = 2_000
"""Characters of a value in a change; a longer one is cut, as events carry it."""


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
