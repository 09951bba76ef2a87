"""Where do the engine's own log lines go?

structlog belongs to the embedding program: what it configured decides. Until it has, warnings and
worse go to stderr, and nothing else is written. structlog is loaded with the first line: it brings
a terminal library along, which most programs that import the engine never need.
"""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from contextvars import ContextVar
from importlib import import_module
from typing import Any, Final, Protocol
from weakref import WeakSet

current_call: Final[ContextVar[Any]] = ContextVar("tool_engine_call", default=None)
"""The call whose tool runs here, in its threads and in the tasks that it starts; it may have ended.
It has `call_id`, `tool_name` and `context`."""


class LoggingWatcher(Protocol):
    """An object that depends on how structlog is configured."""

    def refresh(self) -> None:
        """Read the configuration again."""


_watchers: Final[WeakSet[Any]] = WeakSet()


def watch_configuring(watcher: LoggingWatcher) -> None:
    """Call the watcher's `refresh` after each `configured`; the watcher is held weakly."""
    _watchers.add(watcher)


def configured() -> None:
    """Notify all watchers that structlog was configured while engines are open."""
    for watcher in list(_watchers):
        watcher.refresh()


def is_configured() -> bool:
    """True if the program has configured structlog; does not load it."""
    # While a thread imports it, it is there without its names.
    return bool(getattr(sys.modules.get("structlog"), "is_configured", bool)())


def get_logger(name: str) -> Logger:
    """Return a logger whose lines carry `logger=name`."""
    return Logger(name)


def load_structlog() -> None:
    """Load structlog, which blocks: call it in a thread before the first line."""
    import_module("structlog")


_QUIET: Final = ("debug", "info")
"""Levels that are not written until structlog is configured."""
_reported: Final[set[str]] = set()
_LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


class Logger:
    """Writes events with fields, through structlog."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def debug(self, event: str, **fields: Any) -> None:
        """Write a line for fault finding; silent unless structlog is configured."""
        self._write_line("debug", event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """Write what happened; silent unless structlog is configured."""
        self._write_line("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Write what deserves attention."""
        self._write_line("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Write what failed and should not have."""
        self._write_line("error", event, fields)

    def write(self, level: str, event: str, fields: dict[str, Any]) -> None:
        """Write a line of a level: `debug`, `info`, `warning` or `error`."""
        self._write_line(level, event, fields)

    def is_enabled(self, level: str) -> bool:
        """True if a line of this level would be written."""
        if not is_configured():
            return level not in _QUIET
        try:
            logger = import_module("structlog").get_logger(self._name).bind()
            names = ("is_enabled_for", "isEnabledFor")
            ask = next(getattr(logger, name) for name in names if hasattr(logger, name))
            return bool(ask(_LEVELS[level]))
        except Exception:  # noqa: BLE001 - the program's own logger may do anything
            return True

    def _write_line(self, level: str, event: str, fields: dict[str, Any]) -> None:
        is_quiet = level in _QUIET
        if is_quiet and not is_configured():
            return
        structlog = import_module("structlog")
        try:
            if structlog.is_configured():
                logger = structlog.get_logger(self._name)
            else:
                logger = structlog.wrap_logger(structlog.PrintLogger(sys.stderr))
            # By name: it stands above in the order of the layers, which use this module themselves.
            redact = import_module("tool_engine.redaction").redact
            getattr(logger, level)(event, logger=self._name, **redact(fields))
        except Exception as error:  # noqa: BLE001 - a log that is broken must not break a call
            _report_lost(error)


def _report_lost(error: Exception) -> None:
    """Report on stderr, once per kind of failure, that log lines are lost."""
    kind = type(error).__name__
    if kind not in _reported:
        _reported.add(kind)
        with suppress(Exception):
            # Only the kind: the text may quote what the line said.
            sys.stderr.write(f"tool_engine: a log line is lost, writing it failed: {kind}\n")
