"""May a tool make one more call, and does that count as a use?

Conversations bound how often their tools are used. What a model asks for they count themselves;
what a tool calls is counted here, on its way, in whatever way the tool calls it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from threading import RLock
from typing import Any, Final, Protocol

from tool_engine.model.call import Refusal, ToolExecutionResult
from tool_engine.model.outcome import ErrorType
from tool_engine.model.tool import Tool

_ASKED: Final = (None, ErrorType.EXECUTION_REJECTED.value, ErrorType.APPROVAL_REQUIRED.value)
"""Error types of calls that ran, or that were put to an approver, which is bounded too."""


class Use(Protocol):
    """One call, counted in one conversation."""

    def refusal(self) -> Refusal | None:
        """Return why one more call may not run; None: it may."""

    def count(self) -> None:
        """Count the call."""

    def give_back(self) -> None:
        """Take the count back: the call has not run."""


class Counting:
    """Keep others from counting between the check and the count.

    Tools call from several threads and event loops. A lock that another thread held when a process
    was forked would be held there for ever, so that each process has its own.
    """

    lock = RLock()

    @classmethod
    def begin_anew(cls) -> None:
        """Make a new lock, held by no thread."""
        cls.lock = RLock()


if hasattr(os, "register_at_fork"):  # there is no fork on Windows
    os.register_at_fork(after_in_child=Counting.begin_anew)


def take_uses(
    scope: Any, tool_name: object, tool: Tool | None, engine: object
) -> Refusal | Iterable[Use]:
    """Count a tool's call in all conversations that it is part of, or in none.

    One without an existing tool is not counted.

    Args:
        scope: What these add to the call; None: it is part of none.
        tool_name: The name that is called.
        tool: What it names in the engine; None: at most a conversation has it.
        engine: The engine.
    """
    if scope is None or not isinstance(tool_name, str):
        return ()
    if tool is None:
        own = scope.own(tool_name)
        if own is None:
            return ()
        tool, engine = own[0], None
    find = getattr(scope, "uses_of", None)
    uses: Iterable[Use] = () if find is None else find(tool, engine)
    if not uses:
        return ()
    with Counting.lock:
        for each in uses:
            refusal = each.refusal()
            if refusal is not None:
                return refusal
        for each in uses:
            each.count()
    return uses


def is_use(result: ToolExecutionResult) -> bool:
    """Return True if a call was a use of its tool; a faulty call is none."""
    return result.metadata.get("attempts") != 0 or result.error_type in _ASKED
