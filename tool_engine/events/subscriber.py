"""How does an event reach one callback without breaking or delaying the call that caused it?

A plain function is called inside `publish`, so that it has seen an event before the call returns.
What has to be awaited waits in a bounded buffer for a task that drains it in order.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, NamedTuple

from tool_engine.interfaces import EventCallback
from tool_engine.model.event import ToolEngineEvent

__all__ = [
    "CallbackSubscriber",
    "EventFailure",
    "Subscriber",
    "is_being_cancelled",
    "running_loop",
]

_YIELD_EVERY: Final = 32
"""Deliveries after which other tasks get a chance, should the callback never wait."""


class EventFailure(NamedTuple):
    """A subscriber that failed, and on what."""

    event: ToolEngineEvent
    callback: EventCallback
    error: BaseException
    """Without its traceback, which would keep whole calls alive; the log has it."""


class Subscriber:
    """Somebody who listens, and to what."""

    event_types: frozenset[str] = frozenset()
    tool_names: frozenset[str] | None = None
    dropped: int = 0
    """Events that came faster than they were taken."""
    _is_active = True

    def offer(self, event: ToolEngineEvent) -> None:
        """Delivers the event if it is about a tool that is listened to."""
        if self._is_active and (self.tool_names is None or event.tool_name in self.tool_names):
            self._deliver(event)

    def end(self) -> None:
        """Takes no more events; what is buffered may still be delivered."""
        self._is_active = False

    def wake(self) -> asyncio.Task[None] | None:
        """Goes on with what is buffered; the task that does it, if it is on the running loop."""
        return None

    def discard(self) -> None:
        """Forgets what is buffered."""

    def cancel(self) -> None:
        """Gives up what is buffered, counts it as dropped, and stops what is running."""

    def _deliver(self, event: ToolEngineEvent) -> None:
        raise NotImplementedError


class CallbackSubscriber(Subscriber):
    """Calls one callback.

    The task that drains the buffer lives only while there is something in it, so that nothing is
    left running when a loop ends without `close()`.

    Args:
        callback: What to call.
        limit: The most events that wait for it.
        report: Told of each failure.
    """

    def __init__(
        self, callback: EventCallback, limit: int, report: Callable[[EventFailure], None]
    ) -> None:
        self._callback = callback
        self._limit = limit
        self._report = report
        self._is_async = _is_async(callback)
        self._buffer: deque[tuple[ToolEngineEvent, Awaitable[None] | None]] = deque()
        self._loop = running_loop()
        self._context = contextvars.copy_context()
        self._task: asyncio.Task[None] | None = None
        self._is_draining = False

    def wake(self) -> asyncio.Task[None] | None:
        """Goes on with what is buffered; the task that does it, if it is on the running loop."""
        running = running_loop()
        if self._loop is None or self._loop.is_closed():
            self._loop, self._is_draining = running, False
        if self._loop is None:
            return None
        if self._loop is not running:
            with suppress(RuntimeError):  # closed just now; the next event finds another loop
                self._loop.call_soon_threadsafe(self._start)
            return None
        self._start()
        return self._task if self._is_draining else None

    def discard(self) -> None:
        """Forgets what is buffered."""
        while self._buffer:
            self._forget_oldest()

    def cancel(self) -> None:
        """Gives up what is buffered, counts it as dropped, and stops what is running."""
        self.dropped += len(self._buffer)
        self.discard()
        task, loop = self._task, self._loop
        if task is None or loop is None or task.done():
            return
        if loop is not running_loop():
            with suppress(RuntimeError):  # closed just now, and its tasks with it
                loop.call_soon_threadsafe(task.cancel)
        elif task is not asyncio.current_task():
            task.cancel()

    def _deliver(self, event: ToolEngineEvent) -> None:
        if self._is_async:
            self._post(event, None)
            return
        try:
            returned = self._callback(event)
        # A plain function's CancelledError is its own failure, not a cancellation of the call.
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - reported
            self._failed(event, error)
        else:
            if returned is not None and inspect.isawaitable(returned):
                self._post(event, returned)

    def _post(self, event: ToolEngineEvent, awaitable: Awaitable[None] | None) -> None:
        if len(self._buffer) >= self._limit:
            self._forget_oldest()
            self.dropped += 1
        self._buffer.append((event, awaitable))
        self.wake()

    def _forget_oldest(self) -> None:
        _, awaitable = self._buffer.popleft()
        if inspect.iscoroutine(awaitable):
            awaitable.close()

    def _start(self) -> None:
        if self._is_draining or not self._buffer:
            return
        # Set first: an eager task factory runs the first step inside create_task.
        self._is_draining = True
        self._task = asyncio.get_running_loop().create_task(
            self._drain(), name="tool_engine.events", context=self._context
        )
        self._task.add_done_callback(self._drained)

    def _drained(self, task: asyncio.Task[None]) -> None:
        self._is_draining = False
        if not task.cancelled():
            self._start()

    async def _drain(self) -> None:
        delivered = 0
        while self._buffer:
            event, awaitable = self._buffer.popleft()
            try:
                await (self._callback(event) if awaitable is None else awaitable)  # type: ignore[misc]
            except asyncio.CancelledError as error:
                if is_being_cancelled():
                    self.dropped += 1
                    raise
                self._failed(event, error)
            except Exception as error:  # noqa: BLE001 - reported
                self._failed(event, error)
            delivered += 1
            if delivered % _YIELD_EVERY == 0:
                await asyncio.sleep(0)

    def _failed(self, event: ToolEngineEvent, error: BaseException) -> None:
        self._report(EventFailure(event, self._callback, error))


def _is_async(callback: EventCallback) -> bool:
    call = getattr(type(callback), "__call__", None)  # noqa: B004 - an object's async __call__
    return inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(call)


def is_being_cancelled() -> bool:
    """Whether the running task itself was cancelled, and not only something it awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop of this thread, if one runs."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
