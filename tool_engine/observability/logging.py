"""How does a program set up its log lines?

The engine never does that by itself. A program that has no set-up of its own calls `configure`; one
that has adds `add_call` and `hide_secrets` to its processors.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Sequence
from math import isfinite
from typing import Any, Final, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from tool_engine.errors import ConfigurationError
from tool_engine.logger import configured, current_call
from tool_engine.model.checks.bounds import check_choice
from tool_engine.model.json.returned_value import spell_number
from tool_engine.redaction import redact
from tool_engine.visible import deceptive_characters

LEVELS: Final = ("debug", "info", "warning", "error", "critical")
RENDERERS: Final = ("auto", "console", "json")


def configure(
    level: str = "info",
    *,
    renderer: str = "auto",
    stream: TextIO | None = None,
    extra: Sequence[Processor] = (),
) -> None:
    """Set up structlog for the whole program; open engines notice it.

    Each line has the time (UTC), the level, its name, and where a tool runs `call_id`, `tool_name`
    and `conversation_id`. Secrets are hidden. Nothing is added to Python's own `logging`.

    Args:
        level: The lowest level that is written: `debug`, `info`, `warning`, `error` or `critical`.
        renderer: `json`, one object per line; `console`, for people; `auto`: `console` where the
            stream is a terminal.
        stream: Where lines go; None: whatever `sys.stderr` is when a line is written.
        extra: Processors that come before secrets are hidden.

    Raises:
        ConfigurationError: The level or the renderer is unknown.

    Example:
        >>> configure("debug", renderer="json")
    """
    check_choice("level", level, LEVELS)
    check_choice("renderer", renderer, RENDERERS)
    if any(not callable(each) for each in extra):
        raise ConfigurationError(f"extra must be processors of structlog, got {list(extra)!r}")
    target = sys.stderr if stream is None else stream
    is_console = renderer == "console" or (renderer == "auto" and target.isatty())
    structlog.configure(
        processors=processors(is_console=is_console, colors=target.isatty(), extra=extra),
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr if stream is None else stream),
        cache_logger_on_first_use=False,
    )
    configured()


def processors(
    *, is_console: bool = False, colors: bool = False, extra: Sequence[Processor] = ()
) -> list[Processor]:
    """Return the processors of `configure`, for a program with its own set-up."""
    if is_console:
        rendering: list[Processor] = [
            _escape_line,
            structlog.dev.ConsoleRenderer(
                colors=colors, exception_formatter=structlog.dev.plain_traceback
            ),
        ]
    else:
        rendering = [structlog.processors.JSONRenderer(serializer=_to_json)]
    return [
        structlog.contextvars.merge_contextvars,
        add_call,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        *extra,
        hide_secrets,
        *rendering,
    ]


def add_call(logger: WrappedLogger, method_name: str, event_dict: EventDict) -> EventDict:
    """Add `call_id`, `tool_name` and `conversation_id` of the call whose tool logs."""
    del logger, method_name
    call = current_call.get()
    if call is not None:
        event_dict.setdefault("call_id", call.call_id)
        event_dict.setdefault("tool_name", call.tool_name)
        if call.context.conversation_id is not None:
            event_dict.setdefault("conversation_id", call.context.conversation_id)
    return event_dict


def hide_secrets(logger: WrappedLogger, method_name: str, event_dict: EventDict) -> EventDict:
    """Hide secrets in all parts of a line, as `tool_engine.redaction.redact` does."""
    del logger, method_name
    return dict(redact(dict(event_dict)))


def _escape_line(logger: WrappedLogger, method_name: str, event_dict: EventDict) -> EventDict:
    """Escape line breaks and control characters, so that a line stays one line."""
    del logger, method_name
    return {
        _make_printable(name): _make_printable(value)
        if isinstance(value, str) and name != "exception"
        else value
        for name, value in event_dict.items()
    }


def _make_printable(text: str) -> str:
    escaped = deceptive_characters().sub(lambda found: ascii(found[0])[1:-1], text)
    return escaped.encode("utf-8", "backslashreplace").decode()


def _to_json(event_dict: EventDict, **options: Any) -> str:
    try:
        return json.dumps(event_dict, allow_nan=False, **options)
    except ValueError:
        return json.dumps(_replace_nonfinite(event_dict), **options)


def _replace_nonfinite(value: Any) -> Any:
    """Return the value with texts in place of the numbers that JSON does not have."""
    if isinstance(value, float) and not isfinite(value):
        return spell_number(value)
    if isinstance(value, dict):
        return {name: _replace_nonfinite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_nonfinite(each) for each in value]
    return value
