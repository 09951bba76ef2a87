"""What does an acknowledged record mean?

With `durability="call"` the result of a call comes when its record is committed. Calls that run at
once share a commit; calls that a tool makes do not wait, the outer one does.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeAlias

from tool_engine.model.call import ToolExecutionResult

Execute: TypeAlias = Callable[..., Coroutine[Any, Any, ToolExecutionResult]]

NOT_KEPT: Final = "not kept"
"""`metadata["record"]` of a call whose record was not committed when its result came."""


def wrap_execute(execute: Execute, storage: Any) -> Execute:
    """Wrap `execute` to wait for the commit where the storage promises that.

    A caller cancelled during that wait gets `CancelledError`: the call has ended with its result,
    and its record says so.
    """
    if getattr(storage, "durability", None) != "call":
        return execute

    async def execute_and_commit(*args: Any, **kwargs: Any) -> ToolExecutionResult:
        dropped = storage.dropped
        result = await execute(*args, **kwargs)
        if not await storage.committed() or storage.dropped != dropped:
            result.metadata["record"] = NOT_KEPT
        return result

    return execute_and_commit
