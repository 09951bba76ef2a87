"""How does an event reach one callback without breaking or delaying the call that caused it?

A plain function is called inside `publish`, so that it has seen an event before the call returns.
One that turns out to be slow is called in a thread from then on. What is not called at once waits
in a bounded buffer for a task that drains it in order.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic
from typing import Any, Final, NamedTuple

from tool_engine.errors import EventsLostError
from tool_engine.events.buffer import DROP_OLDEST, Buffer
from tool_engine.events.event_filter import WantedEvents
from tool_engine.interfaces import EventCallback
from tool_engine.model.checks.unawaited import is_async
from tool_engine.model.event import ToolEngineEvent
from tool_engine.model.foreign import ends_caller

_YIELD_EVERY: Final = 32
"""Deliveries after which other tasks get a chance, should the callback never wait."""
_SLOW: Final = 0.02
"""Seconds for which a plain callback may hold up a call."""
_MUCH_TOO_SLOW: Final = 0.5
"""Seconds that no pause of the machine explains, even once."""


class EventFailure(NamedTuple):
    """A subscriber that failed, and on what."""

    event: ToolEngineEvent
    callback: EventCallback
    error: BaseException
    """Without its traceback, which would keep whole calls alive; the log has it."""


class Subscriber(ABC):
    """A listener and the events that it wants."""

    wanted: WantedEvents = WantedEvents()
    dropped: int = 0
    """Events that came faster than they were taken."""
    is_plain: bool = True
    """True if events are handled at once; else they are buffered and `settle` follows."""
    is_active: bool = True
    is_choosy: bool = True
    """True if it may refuse some events of its types."""

    @property
    def waiting(self) -> int:
        """Events that were published and not handled yet."""
        return 0

    @abstractmethod
    def offer(self, event: ToolEngineEvent) -> None:
        """Deliver the event, whose type is wanted, if the other filters match."""

    def settle(self) -> None:  # noqa: B027 - without a buffer there is nothing to do
        """Start the delivery of what was put into the buffer."""

    def end(self) -> None:
        """Accept no more events; buffered ones may still be delivered."""
        self.is_active = False

    def wake(self) -> asyncio.Task[None] | None:
        """Continue with buffered events; return the task on the running loop that does it."""
        return None

    def discard(self) -> None:  # noqa: B027 - without a buffer there is nothing to do
        """Forget what is buffered."""

    def cancel(self) -> None:  # noqa: B027 - without a buffer there is nothing to do
        """Drop and count buffered events, and stop what is running."""


class CallbackSubscriber(Subscriber):
    """Calls one callback.

    The task that drains the buffer lives only while there is something in it, so that nothing is
    left running when a loop ends without `close()`.

    Args:
        callback: What to call.
        limit: The most events that wait for it.
        report: Called with each failure.
        policy: What is dropped when more events than that wait for it.
        move: Called when a plain callback is too slow to be called at once any more, with the time
            that it took.
    """

    def __init__(
        self,
        callback: EventCallback,
        limit: int,
        report: Callable[[EventFailure], None],
        policy: str = DROP_OLDEST,
        move: Callable[[CallbackSubscriber, ToolEngineEvent, float], None] | None = None,
    ) -> None:
        self._move = move
        self._is_apart = False
        self._suspect: str | None = None
        """The type of the event that a plain callback was slow with."""
        self._callback = callback
        self._limit = limit
        self._report = report
        self.is_plain = not is_async(callback)
        self._buffer: Buffer[tuple[ToolEngineEvent, Awaitable[None] | None]] = Buffer(limit, policy)
        self._loop = running_loop()
        self._context = contextvars.copy_context()
        self._task: asyncio.Task[None] | None = None
        self._is_draining = self._is_delivering = False
        self._cut_at: Any = None

    @property
    def waiting(self) -> int:
        return len(self._buffer) + self._is_delivering

    def wake(self) -> asyncio.Task[None] | None:
        running = running_loop()
        if self._loop is None or self._loop.is_closed():
            self._loop, self._is_draining = running, False
        if self._loop is None:
            return None
        if self._loop is not running:
            with suppress(RuntimeError):  # closed just now; the next event finds another loop
                self._loop.call_soon_threadsafe(self._start_draining)
            return None
        self._start_draining()
        return self._task if self._is_draining else None

    def discard(self) -> None:
        while self._buffer:
            _close_waiting(self._buffer.take())

    def cancel(self) -> None:
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

    def settle(self) -> None:
        """Start the delivery of waiting events; end a subscription that was cut off."""
        self.wake()
        if self._buffer.is_cut and self.is_active:
            self.end()
            error = EventsLostError(
                f"more than {self._limit} events waited for this callback, and policy "
                "'block_none' leaves none out: its subscription has ended; make it quicker or "
                "give it a larger buffer"
            )
            self._report(EventFailure(self._cut_at, self._callback, error))

    def offer(self, event: ToolEngineEvent) -> None:
        if not self.is_active or (self.is_choosy and not self.wanted.has_subject(event)):
            return
        if not self.is_plain:
            self._buffer_event(event, None)
            if self._is_apart:
                self.settle()  # a publisher may have found it among the plain ones a moment ago
            return
        began = monotonic()
        try:
            returned = self._callback(event)
        except asyncio.CancelledError as error:
            # A plain function's own failure, not a cancellation of the call.
            self._report_error(event, error)
        except BaseException as error:  # reported
            if ends_caller(error):
                raise
            self._report_error(event, error)
        else:
            if returned is not None and inspect.isawaitable(returned):
                self._buffer_event(event, returned)
                self.settle()
        took = monotonic() - began
        if took >= _SLOW or self._suspect is not None:
            self._judge_speed(event, took)

    def _judge_speed(self, event: ToolEngineEvent, took: float) -> None:
        """Move a slow callback out of the calls' way, unless the machine had paused."""
        if took < _SLOW:
            if event.event_type == self._suspect:
                self._suspect = None
        elif self._suspect is None and took < _MUCH_TOO_SLOW:
            self._suspect = event.event_type
        elif self._move is not None and (running_loop() or self._loop) is not None:
            # Without a loop no loop could start a thread for it.
            self.is_plain, self._is_apart = False, True
            self._move(self, event, took)

    @property
    def name(self) -> str:
        """The callback's name for messages."""
        return getattr(self._callback, "__qualname__", type(self._callback).__name__)

    def _buffer_event(self, event: ToolEngineEvent, awaitable: Awaitable[None] | None) -> None:
        refused = self._buffer.put((event, awaitable))
        if refused is not None:
            self.dropped += 1
            self._cut_at = refused[0]
            _close_waiting(refused)

    def _start_draining(self) -> None:
        if self._is_draining or not self._buffer:
            return
        # Set first: an eager task factory runs the first step inside create_task.
        self._is_draining = True
        self._task = asyncio.get_running_loop().create_task(
            self._drain_buffer(), name="tool_engine.events", context=self._context
        )
        self._task.add_done_callback(self._end_draining)

    def _end_draining(self, task: asyncio.Task[None]) -> None:
        self._is_draining = False
        if not task.cancelled():
            self._start_draining()

    async def _drain_buffer(self) -> None:
        delivered = 0
        while self._buffer:
            self._is_delivering = True  # at no moment it is in neither place
            event, awaitable = self._buffer.take()
            try:
                await (self._call_back(event) if awaitable is None else awaitable)
            except asyncio.CancelledError as error:
                if is_being_cancelled():
                    self.dropped += 1
                    raise
                self._report_error(event, error)
            except BaseException as error:  # reported
                if ends_caller(error):
                    raise
                self._report_error(event, error)
            finally:
                self._is_delivering = False
            delivered += 1
            if delivered % _YIELD_EVERY == 0:
                await asyncio.sleep(0)

    def _call_back(self, event: ToolEngineEvent) -> Awaitable[Any]:
        if self._is_apart:
            return asyncio.to_thread(self._callback, event)
        return self._callback(event)  # type: ignore[return-value] # it is async, else it were plain

    def _report_error(self, event: ToolEngineEvent, error: BaseException) -> None:
        self._report(EventFailure(event, self._callback, error))


def _close_waiting(waiting: tuple[ToolEngineEvent, Awaitable[None] | None]) -> None:
    if inspect.iscoroutine(waiting[1]):
        waiting[1].close()


def is_being_cancelled() -> bool:
    """True if the running task itself was cancelled, not only what it awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
