"""To which call exactly did somebody say yes before it was made?

`on_before_execute` is asked before its call reaches whatever runs it. Its answer is good for that
one call: of this engine, of this tool, with these arguments. It is there only while that call is
made, and goes with whoever takes it first.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Final, NamedTuple

from tool_engine.model.call import ToolCall
from tool_engine.model.tool import Tool

__all__ = ["Allowed", "Consenting", "Yes", "allowed", "take_yes"]


class Consenting:
    """Somebody whose True is the consent that a conversation asks for.

    Args:
        ask: A function of a call and its tool.
    """

    def __init__(self, ask: Any) -> None:
        self._ask = ask

    def __call__(self, call: ToolCall, tool: Tool) -> Any:
        """What the function answers."""
        return self._ask(call, tool)


class Yes(NamedTuple):
    """What was said of one call."""

    tool: Tool
    """The tool that was asked about, as the model knows it."""
    is_consent: bool
    """Whether it is all the consent that the call needs."""


class Allowed:
    """One call that may be made.

    Args:
        engine: What runs it.
        tool: The tool, as it was when somebody was asked; None: nobody was.
        arguments: The very object that is sent.
        is_consent: Whether it is all the consent that the call needs.
    """

    def __init__(
        self, engine: object, tool: Tool | None, arguments: dict[str, Any], is_consent: bool
    ) -> None:
        self._engine = engine
        self._arguments = arguments
        self._yes = None if tool is None else Yes(tool, is_consent)

    def take(self, engine: object, arguments: object) -> Yes | None:
        """What was said of this call, once; None: nothing, or of another one."""
        if engine is not self._engine or arguments is not self._arguments:
            return None
        yes, self._yes = self._yes, None
        return yes


allowed: Final[ContextVar[Allowed | None]] = ContextVar("allowed", default=None)
"""The call that is being made in this task."""


def take_yes(engine: object, arguments: object) -> Yes | None:
    """What was said of a call that `engine` is asked for; None: nobody was asked about it."""
    made = allowed.get()
    return None if made is None else made.take(engine, arguments)
