"""Where does a synchronous tool run without blocking the event loop?

Threads are daemons and are made as needed: a slot bounds how many tools run, and one that never
returns must not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import Any, NamedTuple

__all__ = ["ThreadLane"]


class _Work(NamedTuple):
    function: Callable[[], Any]
    context: Context
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[tuple[Any, BaseException | None]]


class ThreadLane:
    """Runs functions in daemon threads that are used again while they are idle."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[_Work | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._started = 0
        self._lock = threading.Lock()
        self._is_closed = False

    async def run(self, function: Callable[[], Any]) -> Any:
        """Runs `function` in a thread and waits until it has really ended.

        A cancellation is kept until then, because nothing can stop a thread; once the lane is
        closed it ends the wait.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
        self._submit(_Work(function, copy_context(), loop, future))
        cancelled: asyncio.CancelledError | None = None
        while not future.done():
            try:
                await asyncio.wait([future])
            except asyncio.CancelledError as cancellation:
                if self._is_closed:
                    # Nobody counts on the end any more, and the loop must be able to end.
                    raise
                cancelled = cancellation
        value, error = future.result()
        if cancelled is not None:
            raise cancelled
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        """Lets idle threads end; busy ones end after their work."""
        with self._lock:
            self._is_closed = True
            for _ in range(self._started):
                self._queue.put(None)

    def _submit(self, work: _Work) -> None:
        self._queue.put(work)
        # Once the lane is closed, idle threads have been told to end: they serve nobody.
        if not self._is_closed and self._idle.acquire(blocking=False):
            return
        with self._lock:
            self._started += 1
            number = self._started
            if self._is_closed:
                self._queue.put(None)
        threading.Thread(target=self._serve, name=f"tool-{number}", daemon=True).start()

    def _serve(self) -> None:
        while (work := self._queue.get()) is not None:
            outcome = _run(work)
            try:
                work.loop.call_soon_threadsafe(work.future.set_result, outcome)
            except RuntimeError:
                return  # the loop is closed: nobody is left to hear of it
            del work, outcome
            self._idle.release()


def _run(work: _Work) -> tuple[Any, BaseException | None]:
    try:
        return work.context.run(work.function), None
    except BaseException as error:  # noqa: BLE001 - it travels to the caller
        return None, error
