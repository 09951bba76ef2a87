"""How far has a call come, and what does its tool say meanwhile?"""

from __future__ import annotations

import sys
from collections.abc import Generator
from typing import Any, Final

import msgspec
from msgspec.structs import force_setattr

from tool_engine.errors import ConfigurationError
from tool_engine.model.checks.unawaited import is_async
from tool_engine.model.json.data import Data
from tool_engine.model.json.returned_value import safe_repr

LOG_LEVELS: Final = ("debug", "info", "warning", "error")
MOST_READ: Final = 4_096
"""Characters of a message that are searched for secrets, and may be shown."""
_MOST_KEPT: Final = 2 * MOST_READ
"""Characters that are kept: of a longer message, half a secret at the end is not read."""
_MOST: Final = sys.float_info.max
_MOST_WHOLE: Final = 2**53
"""A larger whole number is kept as a float: many readers of JSON know no other."""


class ToolProgress(msgspec.Struct, Data, frozen=True):
    """How far a call has come, as its tool reports it."""

    done: float
    """How much is done, in the tool's own unit, from 0 on."""
    total: float | None = None
    """How much there is to do, in the same unit; None: it is not known."""
    message: str | None = None
    """What is being done, for people."""

    def __post_init__(self) -> None:
        """Raise `ConfigurationError` for what no listener can show."""
        force_setattr(self, "done", _read_amount("done", self.done))
        if self.total is not None:
            force_setattr(self, "total", _read_amount("total", self.total))
        if self.message is not None:
            force_setattr(self, "message", _read_message(self.message, "a text or None"))

    @property
    def fraction(self) -> float | None:
        """The part that is done, from 0 to 1; None: the total is not known."""
        if self.total is None:
            return None
        return 1.0 if self.done >= self.total else self.done / self.total


class ToolLogLine(msgspec.Struct, Data, frozen=True):
    """One line that a tool writes for a person who watches its call."""

    message: str
    level: str = "info"
    """`debug`, `info`, `warning` or `error`."""

    def __post_init__(self) -> None:
        """Raise `ConfigurationError` for a level that there is not."""
        force_setattr(self, "message", _read_message(self.message, "a text"))
        if self.level not in LOG_LEVELS:
            raise ConfigurationError(
                f"level must be one of {', '.join(LOG_LEVELS)}, got {safe_repr(self.level):.80}"
            )


class Reported:
    """What `report_progress` and `log` return: it may be awaited, and need not be."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        """Give the other tasks of the event loop a turn."""
        yield


REPORTED: Final = Reported()


def check_listener(name: str, listener: object) -> None:
    """Raise `ConfigurationError` unless `listener` is a plain function."""
    if is_async(listener) or not callable(listener):
        raise ConfigurationError(f"{name} must be a plain function, got {listener!r:.80}")


def _read_amount(name: str, value: Any) -> float:
    """Return a number as JSON has it: of other classes, as of NumPy's, and of any size."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= _MOST:
        raise ConfigurationError(
            f"{name} must be a finite number from 0 on, got {safe_repr(value):.80}"
        )
    return value if type(value) is int and value <= _MOST_WHOLE else float(value)


def _read_message(message: Any, wanted: str) -> str:
    """Return the beginning of a text, which can be written as JSON."""
    if not isinstance(message, str):
        raise ConfigurationError(f"message must be {wanted}, got {safe_repr(message):.80}")
    kept = str.__str__(message)[:_MOST_KEPT]
    if kept.isascii():
        return kept
    return kept.encode("utf-8", "backslashreplace").decode()[:_MOST_KEPT]
