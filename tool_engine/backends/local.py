"""How does an executor run in this process?"""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from tool_engine.backends.task import ToolTask
from tool_engine.backends.threads import ThreadLane
from tool_engine.interfaces import ToolExecutor
from tool_engine.logger import get_logger
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool

__all__ = ["LocalBackend"]

_log = get_logger(__name__)


class LocalBackend:
    """Runs coroutines on the event loop and plain functions in threads."""

    def __init__(self) -> None:
        self._threads = ThreadLane()
        self._leftovers: dict[asyncio.Task[None], ToolTask] = {}

    def start(
        self,
        run: ToolTask,
        executor: ToolExecutor,
        tool: Tool,
        params: dict[str, Any],
        context: ToolExecutionContext,
        caller: asyncio.Task[Any] | None,
    ) -> None:
        """Runs an async executor to its first wait; see `interfaces.ExecutionBackend`."""
        run.start(executor.execute, (tool, params, context), {}, caller)

    def start_in_thread(
        self,
        run: ToolTask,
        executor: Any,
        tool: Tool,
        params: dict[str, Any],
        context: ToolExecutionContext,
        caller: asyncio.Task[Any] | None,
    ) -> None:
        """The same for an executor whose `execute` is a plain function."""
        run.leaves_on_cancel = True
        run.start(self._in_thread, (executor, tool, params, context), {}, caller)

    @property
    def leftovers(self) -> int:
        """Runs that have ended for their callers and whose work goes on."""
        return len(self._leftovers)

    async def close(self, timeout: float) -> int:  # noqa: ASYNC109 - bounds what cannot be stopped
        """Cancels what is left and waits for it, at most `timeout` seconds.

        Returns:
            How many runs still have not ended: threads that nothing can stop.
        """
        for task in self._leftovers:
            task.cancel()
        if self._leftovers:
            await asyncio.wait(list(self._leftovers), timeout=timeout)
        self._threads.close()
        return len(self._leftovers)

    async def _in_thread(
        self, executor: Any, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> Any:
        value = await self._threads.run(lambda: executor.execute(tool, params, context))
        return await value if inspect.isawaitable(value) else value

    def keep(self, task: ToolTask) -> None:
        """Takes over a run whose caller goes on without it."""
        leftover = asyncio.get_running_loop().create_task(task.outlive(), name=task.get_name())
        self._leftovers[leftover] = task
        leftover.add_done_callback(self._forget)

    def _forget(self, leftover: asyncio.Task[None]) -> None:
        task = self._leftovers.pop(leftover)
        if not leftover.cancelled() and leftover.exception() is not None:
            _log.error("leftover_failed", task=repr(task), exc_info=leftover.exception())
        else:
            _log.debug("leftover_ended", task=repr(task))
