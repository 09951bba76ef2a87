"""Where do log lines go while a command runs?

Stdout belongs to the command's answer, so warnings go to stderr, unless the embedding program has
set up structlog itself.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import structlog

from tool_engine.cli.console import make_console
from tool_engine.observability.event_lines import EVENTS_LOGGER

_FIRST_LOAD: Final[ContextVar[tuple[list[str], tuple[str, ...]] | None]] = ContextVar(
    "first_load", default=None
)
"""Where a command's first look at its files notes what it found."""
_OF_FILES: Final = ("load_error", "workflow_finding", "tool_quarantined")
"""Events that commands count in a sentence; `validate` prints each with its place."""
_SENTENCES: Final = {
    "close_left_threads": "a function of a tool has gone on after its call had ended (threads: "
    "{threads}), and ends with this command; with isolation: process its time limit ends it",
    "tool_blocked_loop": "{tool_name} ended {late_seconds:g} s after its time limit: {message}",
}
"""Event -> the sentence for a reader, in place of its line."""
_LONGEST_ERROR: Final = 300
"""Characters of an error in a log line, which a terminal shows without its line breaks."""


@contextmanager
def logs_on_stderr(level: int = logging.WARNING) -> Iterator[None]:
    """Send log lines from `level` on to stderr in the block."""
    if not logging.getLogger("watchdog").hasHandlers():
        # watchdog reports a stop before its start as an error; this hides only that.
        logging.getLogger("watchdog").addHandler(logging.NullHandler())
    if structlog.is_configured():
        yield
        return
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(level),
        processors=[
            _leave_out_answers,
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


@contextmanager
def hide_load_errors(*others: str) -> Iterator[list[str]]:
    """Leave out the lines about files that could not be loaded; give the names of those events.

    Args:
        others: Further events that the command itself says.
    """
    found: list[str] = []
    token = _FIRST_LOAD.set((found, (*_OF_FILES, *others)))
    try:
        yield found
    finally:
        _FIRST_LOAD.reset(token)


def _leave_out_answers(
    logger: object, method_name: str, event_dict: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Drop the lines about facts that the command itself prints."""
    del logger, method_name
    event, hidden = str(event_dict.get("event")), _FIRST_LOAD.get()
    is_load_error = event == "load_error"
    if event_dict.get("logger") == EVENTS_LOGGER:
        raise structlog.DropEvent
    if hidden is not None and event in hidden[1]:
        hidden[0].append(event)
        raise structlog.DropEvent
    if event in _SENTENCES:
        sys.stderr.write(f"warning: {_SENTENCES[event].format(**event_dict)}\n")
        raise structlog.DropEvent
    if is_load_error:
        first, *more = str(event_dict.get("error", "")).splitlines() or [""]
        event_dict["error"] = first[:_LONGEST_ERROR] + (f" (and {len(more)} more)" if more else "")
    return event_dict


def _stderr_logger(*_: Any) -> structlog.PrintLogger:
    return structlog.PrintLogger(sys.stderr)
