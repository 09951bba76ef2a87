"""How does an executor run in this process?"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any

import msgspec

from tool_engine.config import DEFAULT_MAX_THREADS
from tool_engine.interfaces import ToolExecutor
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.checks.bounds import check_count
from tool_engine.model.tool import Tool


class LocalBackend:
    """Runs coroutines on the event loop and plain functions in threads.

    Args:
        max_threads: The most threads for calls that no other call waits for.

    Raises:
        ConfigurationError: It is not a whole number of 1 or more.
    """

    def __init__(self, max_threads: int = DEFAULT_MAX_THREADS) -> None:
        check_count("max_threads", max_threads, minimum=1)
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
        """Return True for what runs in a thread, and for executors that say so."""
        return not _is_async(executor) or getattr(executor, "leaves_on_cancel", False)

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


class _Work(msgspec.Struct, eq=False):
    function: Callable[[], Any]
    context: Context
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[tuple[Any, BaseException | None]]


# Threads are daemons and are made as needed, up to a limit: one that never returns must not keep
# the process from ending. Work beyond the limit waits its turn, and can be given up until then.
class ThreadLane:
    """Runs functions in daemon threads, which are reused while they are idle.

    Args:
        limit: The most threads that are made for work which may wait.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._handed: SimpleQueue[_Work | None] = SimpleQueue()
        """The next work for idle threads; None lets one of them end."""
        self._waiting: deque[_Work] = deque()
        self._idle = 0
        self._threads = 0
        self._lock = threading.Lock()
        self._is_closed = False

    def __repr__(self) -> str:
        return (
            f"ThreadLane(limit={self._limit}, threads={self._threads}, idle={self._idle}, "
            f"waiting={len(self._waiting)})"
        )

    async def run(self, function: Callable[[], Any], *, may_wait: bool = True) -> Any:
        """Run `function` in a thread and wait until it has really ended.

        A cancellation is kept until then, because nothing can stop a thread; once the lane is
        closed it ends the wait. What has not begun is given up at once.

        Args:
            function: Called once.
            may_wait: Whether it waits while all threads are busy. What a busy thread may be waiting
                for must not: the two would wait for each other.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
        work = _Work(function, copy_context(), loop, future)
        self._submit_work(work, may_wait=may_wait)
        cancelled: asyncio.CancelledError | None = None
        while not future.done():
            try:
                await asyncio.wait([future])
            except asyncio.CancelledError as cancellation:
                if self._is_closed or self._withdraw_work(work):
                    # No caller counts on the end any more, and the loop must be able to end.
                    raise
                cancelled = cancellation
        value, error = future.result()
        if cancelled is not None:
            raise cancelled
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        """Let idle threads end; busy ones end after their work."""
        with self._lock:
            self._is_closed = True
            for _ in range(self._idle):
                self._handed.put(None)
            self._idle = 0

    def _submit_work(self, work: _Work, *, may_wait: bool) -> None:
        with self._lock:
            if self._idle:
                self._idle -= 1
                self._handed.put(work)
                return
            if may_wait and self._threads >= self._limit and not self._is_closed:
                self._waiting.append(work)
                return
            self._threads += 1
            name = f"tool-{self._threads}"
        try:
            # In a list: a thread keeps what it began with, and with that its first caller.
            threading.Thread(
                target=self._serve_works, args=([work],), name=name, daemon=True
            ).start()
        except RuntimeError:
            with self._lock:
                self._threads -= 1
            raise

    def _withdraw_work(self, work: _Work) -> bool:
        """Take back work that no thread has begun; True if there was some."""
        with self._lock:
            try:
                self._waiting.remove(work)
            except ValueError:
                return False
            return True

    def _serve_works(self, first: list[_Work]) -> None:
        work: _Work | None = first.pop()
        while work is not None:
            outcome = _run_work(work)
            # A closed loop: no task is left to hear of it.
            with contextlib.suppress(RuntimeError):
                work.loop.call_soon_threadsafe(work.future.set_result, outcome)
            del outcome
            work = None
            work = self._next_work()

    def _next_work(self) -> _Work | None:
        """Wait for the next work of the calling thread; None: it ends."""
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            if self._is_closed:
                self._threads -= 1
                return None
            self._idle += 1
        return self._handed.get()


def _run_work(work: _Work) -> tuple[Any, BaseException | None]:
    try:
        return work.context.run(work.function), None
    except BaseException as error:  # noqa: BLE001 - it travels to the caller
        return None, error
