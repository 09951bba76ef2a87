"""How does an executor run in this process?"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from tool_engine.backends.task import ABORTED, ToolTask
from tool_engine.backends.threads import ThreadLane
from tool_engine.config import DEFAULT_MAX_THREADS
from tool_engine.interfaces import ToolExecutor
from tool_engine.logger import get_logger
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool

__all__ = ["LocalBackend"]

_log = get_logger(__name__)


class LocalBackend:
    """Runs coroutines on the event loop and plain functions in threads.

    Args:
        max_threads: The most threads for calls that no other call waits for.
    """

    def __init__(self, max_threads: int = DEFAULT_MAX_THREADS) -> None:
        self._threads = ThreadLane(max_threads)
        self.running: set[ToolTask] = set()
        """The runs whose callers wait for them."""
        self._leftovers: dict[asyncio.Task[None], ToolTask] = {}

    def aim(
        self,
        run: ToolTask,
        executor: ToolExecutor,
        tool: Tool,
        params: dict[str, Any],
        context: ToolExecutionContext,
    ) -> None:
        """Lets `run` call an async executor; see `interfaces.ExecutionBackend`."""
        run.function = partial(executor.execute, tool, params, context)

    def aim_at_thread(
        self,
        run: ToolTask,
        executor: Any,
        tool: Tool,
        params: dict[str, Any],
        context: ToolExecutionContext,
    ) -> None:
        """The same for an executor whose `execute` is a plain function."""
        run.leaves_on_cancel = True
        run.function = partial(self._in_thread, executor, tool, params, context)

    def abort(self) -> None:
        """Lets the callers of all runs go on at once."""
        for run in list(self.running):
            run.end(ABORTED)

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
        # The thread of a calling tool may be waiting for this call.
        may_wait = context.parent_call_id is None
        value = await self._threads.run(
            lambda: executor.execute(tool, params, context), may_wait=may_wait
        )
        return await value if inspect.isawaitable(value) else value

    async def in_thread(self, function: Callable[[], Any]) -> Any:
        """Runs a function that a call which has run cannot do without: it waits for no thread."""
        return await self._threads.run(function, may_wait=False)

    def keep(self, run: ToolTask) -> None:
        """Takes over a run whose caller goes on without it."""
        leftover = asyncio.get_running_loop().create_task(run.outlive(), name=run.get_name())
        self._leftovers[leftover] = run
        leftover.add_done_callback(self._forget)

    def _forget(self, leftover: asyncio.Task[None]) -> None:
        run = self._leftovers.pop(leftover)
        if not run.is_done:
            run.close()  # cancelled before its first step: nothing of it ran
        if run.on_end is not None:
            run.on_end()
        if not leftover.cancelled() and leftover.exception() is not None:
            _log.error("leftover_failed", run=repr(run), exc_info=leftover.exception())
        else:
            _log.debug("leftover_ended", run=repr(run))
