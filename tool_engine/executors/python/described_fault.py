"""How is what a handler raised described to the engine?

Its attributes are code of the handler, and so may its class's be: each may raise anything, or be
very large. This file imports nothing of the engine: a worker process loads it by its path.
"""

from __future__ import annotations

import contextlib
import json
import sys
import traceback
from collections.abc import Callable
from typing import Any, Final

_read_trace: Final[Any] = BaseException.__dict__["__traceback__"].__get__
"""Whatever a class makes of that name; a property may raise."""
_read_name: Final[Any] = type.__dict__["__name__"].__get__
_read_module: Final[Any] = type.__dict__["__module__"].__get__
_read_order: Final[Any] = type.__dict__["__mro__"].__get__
_LONGEST_NAME: Final = 2_000
_MOST_DETAILS: Final = 1024 * 1024
"""Characters of an error's details, of which the engine keeps less."""
_MOST_FRAMES: Final = 8_192
"""Characters of a traceback."""
_MOST_CHARACTERS: Final = 65_536
"""Of an error's message: more than the engine searches for secrets, for half a secret is none."""
_KINDS: Final = ((TimeoutError, "timeout"), (MemoryError, "memory"), (SystemExit, "exit"))


def print_trace(error: BaseException) -> None:
    """Write its traceback to stderr, as far as it is needed there."""
    text = "".join(traceback.format_exception(error))
    if len(text) > _MOST_CHARACTERS:
        # A message of 100 MB would end the process. Whole lines: half a secret is none.
        text = text[:_MOST_CHARACTERS].rpartition("\n")[0] + "\n"
    sys.stderr.write(text)


def list_frames(error: BaseException) -> str:
    """Return where in the code it was raised, without its message; empty: it cannot be read."""
    with contextlib.suppress(Exception):  # where no memory is left, or no more files can be opened
        return "".join(traceback.format_tb(_read_trace(error)))[-_MOST_FRAMES:]
    return ""


def name_kind(error: BaseException) -> str:
    """Return the name of its class, whatever the class of that makes of it."""
    return str(_read_name(type(error))[:_LONGEST_NAME])


def describe_error(
    error: Any, own_kind: type[BaseException], find_place: Callable[[Any], str]
) -> dict[str, Any]:
    """Return what the engine is to know of it.

    Args:
        error: What was raised.
        own_kind: The class of what was raised beside the handler.
        find_place: Returns the line of the author's own code.
    """
    try:
        text = str(error)
    except Exception as broken:  # noqa: BLE001 - any exception class may have a broken __str__
        text = f"its message cannot be shown ({name_kind(broken)})"
    names = {f"{_read_module(kind)}.{_read_name(kind)}" for kind in _read_order(type(error))}
    is_ours = "tool_engine.errors.ToolExecutionError" in names
    described: dict[str, Any] = {
        "type": name_kind(error),
        "message": text[:_MOST_CHARACTERS],
        "kind": "plain",
    }
    if is_ours or type(error) is own_kind:
        described["kind"] = "execution"
        described["is_final"] = getattr(error, "is_final", False) is True
        error_type = getattr(error, "error_type", None)
        described["error_type"] = error_type[:_LONGEST_NAME] if type(error_type) is str else ""
        details = getattr(error, "details", None)
        _add_plain(described, "details", details if isinstance(details, dict) else {})
        if "tool_engine.errors.InvalidArgumentsError" in names:
            described["kind"] = "arguments"
            _add_plain(described, "findings", [*filter(_is_finding, error.findings)])
    elif "tool_engine.errors.ConfigurationError" in names:
        described["kind"] = "definition"
    else:
        found = (name for kind, name in _KINDS if issubclass(type(error), kind))
        described["kind"] = next(found, "plain")
    if described["kind"] == "plain":
        with contextlib.suppress(Exception):  # where no more files can be opened
            described["raised_at"] = find_place(error)
    return described


def _is_finding(value: Any) -> bool:
    """Return whether a value says of a parameter what is wrong with it."""
    names = ("parameter", "error_type", "message")
    return isinstance(value, dict) and all(isinstance(value.get(name), str) for name in names)


def _add_plain(described: dict[str, Any], name: str, value: Any) -> None:
    """Add what is JSON, and leave out what is not; of very much only how much it was."""
    with contextlib.suppress(TypeError, ValueError, RecursionError):
        text = json.dumps(value, allow_nan=False)
        if len(text) <= _MOST_DETAILS:
            described[name] = json.loads(text)
        elif isinstance(value, dict):
            described[name] = {"_truncated": {"size": len(text), "reason": "too long"}}
