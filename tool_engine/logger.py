"""Where do the engine's own log lines go?

structlog belongs to the embedding program: what it configured decides. Until it has, warnings and
worse go to stderr, and nothing else is written. structlog is loaded with the first line: it brings
a terminal library along, which most programs that import the engine never need.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

__all__ = ["Logger", "get_logger", "prepare"]


def get_logger(name: str) -> Logger:
    """A logger whose lines carry `logger=name`."""
    return Logger(name)


def prepare() -> None:
    """Loads structlog, which blocks: call it in a thread, so that the first line need not."""
    import_module("structlog")


class Logger:
    """Writes events with fields, through structlog."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def debug(self, event: str, **fields: Any) -> None:
        """For those who look for a fault; silent unless structlog is configured."""
        self._write("debug", event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """Something happened; silent unless structlog is configured."""
        self._write("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Somebody should look at this."""
        self._write("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Something failed that should not have."""
        self._write("error", event, fields)

    def _write(self, level: str, event: str, fields: dict[str, Any]) -> None:
        is_quiet = level in ("debug", "info")
        if is_quiet and "structlog" not in sys.modules:
            return  # nobody can have configured what nobody has loaded
        structlog = import_module("structlog")
        if structlog.is_configured():
            logger = structlog.get_logger(self._name)
        elif is_quiet:
            return
        else:
            logger = structlog.wrap_logger(structlog.PrintLogger(sys.stderr))
        # By name, for it stands above in the order of the layers, which use this module themselves.
        redact = import_module("tool_engine.redaction").redact
        getattr(logger, level)(event, logger=self._name, **redact(fields))
