"""Which engine has the tool that a tool of another engine calls, and who is behind the call?

A conversation may use several engines with tools of the same name or definition. It knows where its
model's calls go; for calls made by tools this module says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from tool_engine.errors import ConfigurationError
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.json.returned_value import safe_repr
from tool_engine.model.permission import APPROVER
from tool_engine.model.tool import Tool

_PARTS: Final = ("conversation_agent", "tool_sub_agent", "workflow_node")
"""Types of callers that are a part of a program, whichever person it works for."""
_Asked = tuple[Tool, Any, ToolExecutionContext | None, list[str] | None]
_asked: Final[ContextVar[_Asked | None]] = ContextVar("asked_in_engine", default=None)


@contextmanager
def asked_in(
    engine: object,
    tool: Tool,
    context: ToolExecutionContext | None = None,
    deciders: list[str] | None = None,
) -> Iterator[None]:
    """Let `engine_asked` and `context_asked` return these for `tool` inside this block.

    `deciders` gets the names of those who allow the call.
    """
    token = _asked.set((tool, engine, context, deciders))
    try:
        yield
    finally:
        _asked.reset(token)


def engine_asked(tool: Tool) -> Any:
    """Return the asked tool's engine; None: that of the outer call."""
    asked = _asked.get()
    # The approver may call other tools while it is asked.
    return asked[1] if asked is not None and asked[0] is tool else None


def context_asked(tool: Tool) -> ToolExecutionContext | None:
    """Return the context of the call of the asked tool; None: not known."""
    asked = _asked.get()
    return asked[2] if asked is not None and asked[0] is tool else None


def note_decider(tool: Tool, by: str | None) -> None:
    """Note who allowed the call of the asked tool; None: an approver that does not say who."""
    asked = _asked.get()
    if asked is None or asked[0] is not tool or asked[3] is None:
        return
    name = by or APPROVER
    if name not in asked[3]:
        asked[3].append(name)


def principal_of(context: ToolExecutionContext | None) -> str:
    """Return who is behind a call; empty: not known.

    The name of an agent or of a node is no principal: it is the same for all who use the program.
    """
    if context is None or context.caller_type in _PARTS:
        return ""
    return context.caller_id or ""


def check_principal(principal: object) -> None:
    """Raise `ConfigurationError` for what is neither a text nor None."""
    if not (principal is None or isinstance(principal, str)):
        raise ConfigurationError(
            f"principal must be a text or None, got {safe_repr(principal)[:80]}"
        )
