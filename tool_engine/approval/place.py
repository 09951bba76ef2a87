"""Which engine has the tool that a tool of another engine calls?

A conversation may use several engines with tools of the same name or definition. It knows where its
model's calls go; for calls made by tools this module says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from tool_engine.model.tool import Tool

_asked: Final[ContextVar[tuple[Tool, Any] | None]] = ContextVar("asked_in_engine", default=None)


@contextmanager
def asked_in(engine: object, tool: Tool) -> Iterator[None]:
    """Let `engine_asked` return `engine` for `tool` inside this block."""
    token = _asked.set((tool, engine))
    try:
        yield
    finally:
        _asked.reset(token)


def engine_asked(tool: Tool) -> Any:
    """Return the asked tool's engine; None: that of the outer call."""
    asked = _asked.get()
    # The approver may call other tools while it is asked.
    return asked[1] if asked is not None and asked[0] is tool else None
