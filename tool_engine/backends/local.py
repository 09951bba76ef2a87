"""How does an executor run in this process?"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from tool_engine.backends.threads import ThreadLane
from tool_engine.config import DEFAULT_MAX_THREADS
from tool_engine.interfaces import ToolExecutor
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool


class LocalBackend:
    """Runs coroutines on the event loop and plain functions in threads.

    Args:
        max_threads: The most threads for calls that no other call waits for.
    """

    def __init__(self, max_threads: int = DEFAULT_MAX_THREADS) -> None:
        self._threads = ThreadLane(max_threads)

    async def execute(
        self,
        executor: ToolExecutor,
        tool: Tool,
        params: dict[str, Any],
        context: ToolExecutionContext,
    ) -> Any:
        """Carry out one attempt; see `interfaces.ExecutionBackend`."""
        return await self.function_for(executor)(tool, params, context)

    def takes(self, executor: ToolExecutor, tool: Tool) -> bool:
        """Return True: everything can run here."""
        del executor, tool
        return True

    def leaves_on_cancel(self, executor: ToolExecutor) -> bool:
        """Return True for what runs in a thread: no cancellation reaches it."""
        return not _is_async(executor)

    def function_for(self, executor: ToolExecutor) -> Callable[..., Coroutine[Any, Any, Any]]:
        """Return the function that carries out attempts with one executor directly."""
        return executor.execute if _is_async(executor) else partial(self._in_thread, executor)

    async def in_thread(self, function: Callable[[], Any]) -> Any:
        """Run a function that must not wait for a thread: a finished call depends on it."""
        return await self._threads.run(function, may_wait=False)

    async def close(self, timeout: float) -> int:  # noqa: ASYNC109 - as the interface has it
        """Let idle threads end; calls still count work that runs in the others."""
        del timeout
        self._threads.close()
        return 0

    async def _in_thread(
        self, executor: Any, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> Any:
        # The thread of a calling tool may be waiting for this call.
        may_wait = context.parent_call_id is None
        value = await self._threads.run(
            lambda: executor.execute(tool, params, context), may_wait=may_wait
        )
        return await value if inspect.isawaitable(value) else value


def _is_async(executor: ToolExecutor) -> bool:
    return inspect.iscoroutinefunction(executor.execute) or getattr(executor, "is_async", False)
