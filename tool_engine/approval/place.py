"""Which engine has the tool of a call that the tool of another engine makes?

A conversation may have several engines, and tools of the same name or definition in each. Of the
calls that its model makes it knows where they go; of those that its tools make it is told here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from tool_engine.model.tool import Tool

__all__ = ["asked_in", "engine_asked"]

_asked: Final[ContextVar[tuple[Tool, Any] | None]] = ContextVar("asked_in_engine", default=None)


@contextmanager
def asked_in(engine: object, tool: Tool) -> Iterator[None]:
    """Lets `engine_asked` tell that `engine` has `tool`, for as long as this is entered."""
    token = _asked.set((tool, engine))
    try:
        yield
    finally:
        _asked.reset(token)


def engine_asked(tool: Tool) -> Any:
    """The engine that has the tool which is asked about now; None: the one of its maker's call."""
    asked = _asked.get()
    # An approver that is asked meanwhile may call other tools.
    return asked[1] if asked is not None and asked[0] is tool else None
