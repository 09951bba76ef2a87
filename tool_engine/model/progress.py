"""How far has a call come, and what does its tool say meanwhile?"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any, Final

import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.model.checks.unawaited import is_async
from tool_engine.model.json.data import Data

LOG_LEVELS: Final = ("debug", "info", "warning", "error")


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
        _check_amount("done", self.done)
        if self.total is not None:
            _check_amount("total", self.total)
        if self.message is not None and not isinstance(self.message, str):
            raise ConfigurationError(f"message must be a text or None, got {self.message!r:.80}")

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
        if not isinstance(self.message, str):
            raise ConfigurationError(f"message must be a text, got {self.message!r:.80}")
        if self.level not in LOG_LEVELS:
            raise ConfigurationError(
                f"level must be one of {', '.join(LOG_LEVELS)}, got {self.level!r:.80}"
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


def _check_amount(name: str, value: Any) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < math.inf:
        raise ConfigurationError(f"{name} must be a finite number from 0 on, got {value!r:.80}")
