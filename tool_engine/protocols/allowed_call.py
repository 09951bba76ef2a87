"""Which single call did an approver allow before it was made?

`on_before_execute` is asked before its call reaches the engine. The answer is good for that one
call: of this engine, of this tool, with these arguments. It exists only while that call is made,
and the first reader takes it away.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Final, NamedTuple

from tool_engine.model.call import ToolCall
from tool_engine.model.tool import Tool


class Consenting:
    """A callback whose True is also the consent that a conversation requires."""

    def __init__(self, ask: Any) -> None:
        self._ask = ask

    def __call__(self, call: ToolCall, tool: Tool) -> Any:
        return self._ask(call, tool)


class Yes(NamedTuple):
    tool: Tool
    """The tool as the approver and the model saw it."""
    is_consent: bool
    """Whether the call needs no other consent."""
    by: str | None = None
    """Who said yes; None: the callback does not say."""


class Allowed:
    """The permission for one call.

    Args:
        engine: What runs the call.
        arguments: The very object that is sent, compared by identity.
        yes: What was answered; None: no approver was asked.
    """

    def __init__(self, engine: object, arguments: dict[str, Any], yes: Yes | None) -> None:
        self._engine = engine
        self._arguments = arguments
        self._yes = yes

    def take(self, engine: object, arguments: object) -> Yes | None:
        """Return the answer for exactly this call once, else None."""
        if engine is not self._engine or arguments is not self._arguments:
            return None
        yes, self._yes = self._yes, None
        return yes


allowed: Final[ContextVar[Allowed | None]] = ContextVar("allowed", default=None)
"""The permission for the call that is being made in this task."""
