"""Where do log lines go while a command runs?

Stdout belongs to the command's answer, so warnings go to stderr, unless the embedding program has
set up structlog itself.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import structlog

from tool_engine.cli.console import make_console
from tool_engine.observability.event_lines import EVENTS_LOGGER

__all__ = ["logs_on_stderr"]


@contextmanager
def logs_on_stderr(level: int = logging.WARNING) -> Iterator[None]:
    """Sends log lines of `level` and above to stderr while the block runs."""
    if not logging.getLogger("watchdog").hasHandlers():
        # It calls it an error that it is stopped before it has begun; we miss nothing by that.
        logging.getLogger("watchdog").addHandler(logging.NullHandler())
    if structlog.is_configured():
        yield
        return
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(level),
        processors=[
            _leave_out_calls,
            structlog.processors.add_log_level,
            structlog.dev.ConsoleRenderer(
                colors=make_console(stderr=True).color_system is not None
            ),
        ],
        logger_factory=_stderr_logger,
        cache_logger_on_first_use=False,
    )
    try:
        yield
    finally:
        structlog.reset_defaults()


def _leave_out_calls(
    logger: object, method_name: str, event_dict: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """How a call ended is the answer of the command, which says it itself."""
    del logger, method_name
    if event_dict.get("logger") == EVENTS_LOGGER:
        raise structlog.DropEvent
    return event_dict


def _stderr_logger(*_: Any) -> structlog.PrintLogger:
    return structlog.PrintLogger(sys.stderr)
