"""What did a call ask of a file tool?

The arguments were validated against the definition. A custom definition may declare fewer rules
than an executor needs, so each value is checked against the executor's own rules here.
"""

from __future__ import annotations

from typing import Any

from tool_engine.errors import ToolExecutionError


def read_text(params: dict[str, Any], name: str, default: str | None = None) -> str:
    value = params.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise ToolExecutionError(f"{name} must be a text, got {type(value).__name__}")
    return value


def read_flag(params: dict[str, Any], name: str) -> bool:
    value = params.get(name, False)
    if not isinstance(value, bool) and value is not None:
        raise ToolExecutionError(f"{name} must be true or false, got {type(value).__name__}")
    return bool(value)


def read_whole(params: dict[str, Any], name: str, default: int, least: int, most: int) -> int:
    value = params.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise ToolExecutionError(f"{name} must be a whole number, got {value!r}")
    if not least <= value <= most:
        raise ToolExecutionError(f"{name} must be between {least} and {most}, got {int(value)}")
    return int(value)
