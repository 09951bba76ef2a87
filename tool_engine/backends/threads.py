"""Where does a synchronous tool run without blocking the event loop?

Threads are daemons and are made as needed, up to a limit: one that never returns must not keep the
process from ending. Work beyond the limit waits its turn, and can be given up until then.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import Any

import msgspec


class _Work(msgspec.Struct, eq=False):
    function: Callable[[], Any]
    context: Context
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[tuple[Any, BaseException | None]]


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
