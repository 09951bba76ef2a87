"""Who hears of what happens in the engine?"""

from __future__ import annotations

import asyncio
import difflib
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from tool_engine.errors import ConfigurationError, EngineClosedError
from tool_engine.events.stream import EventStream, Mailbox, StreamSubscriber
from tool_engine.events.subscriber import CallbackSubscriber, EventFailure, Subscriber
from tool_engine.interfaces import EventCallback
from tool_engine.logger import get_logger
from tool_engine.model.call import check_timeout
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType
from tool_engine.redaction import redact_text

__all__ = ["EventBus", "EventTypes", "ToolNames"]

EventTypes: TypeAlias = str | Iterable[str] | None
"""One event type, several, or None for all; a `ToolEngineEventType` is a string too."""
ToolNames: TypeAlias = str | Iterable[str] | None
"""One tool name, several, or None for all events, those without a tool included."""

_log: Final = get_logger(__name__)
_LOG_EVERY: Final = 100
_MAX_FAILURES: Final = 100
_ALL_TYPES: Final = frozenset(kind.value for kind in ToolEngineEventType)


class EventBus:
    """Tells subscribers what happened.

    The path of a call reads `is_idle`, or asks `listens_to`, before it builds an event.

    Args:
        buffer: The most events that wait for one async callback; the oldest go first.
        close_timeout: Seconds that `close` gives async callbacks to finish.

    Raises:
        ConfigurationError: A buffer or a timeout that cannot be.

    Example:
        >>> unsubscribe = bus.subscribe(print, event_types="execution_failed")
        >>> unsubscribe()
    """

    def __init__(self, *, buffer: int = 10_000, close_timeout: float = 1.0) -> None:
        _check_buffer(buffer)
        check_timeout("close_timeout", close_timeout)
        self.is_idle = True
        """Nobody listens to anything."""
        self.has_subscribers = False
        """The opposite of `is_idle`."""
        self.failures: deque[EventFailure] = deque(maxlen=_MAX_FAILURES)
        """The dead-letter list: the newest failures of subscribers."""
        self.failed = 0
        """Failures of subscribers in all."""
        self._buffer = buffer
        self._close_timeout = close_timeout
        self._is_closed = False
        self._lock = threading.Lock()
        self._subscribers: tuple[Subscriber, ...] = ()
        self._by_type: dict[str, tuple[Subscriber, ...]] = {}
        self._dropped_before = 0
        self._awaited: set[Mailbox] = set()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "open"
        return (
            f"<EventBus {state}, {len(self._subscribers)} subscribers, "
            f"{self.failed} failed, {self.dropped} dropped>"
        )

    @property
    def dropped(self) -> int:
        """Events that async callbacks were too slow for, in all; a stream counts its own."""
        return self._dropped_before + sum(each.dropped for each in self._subscribers)

    def listens_to(self, event_type: ToolEngineEventType) -> bool:
        """Whether anybody wants events of this type."""
        return event_type in self._by_type

    def subscribe(
        self,
        callback: EventCallback,
        event_types: EventTypes = None,
        tool_name: ToolNames = None,
    ) -> Callable[[], None]:
        """Has `callback` called with every event that matches.

        A plain function is called at once, on the thread that publishes: it must be quick, as the
        engine waits for it. A coroutine function is awaited in the background, one event at a time
        and in order. What a callback raises is logged and kept in `failures`.

        Args:
            callback: Called with one `ToolEngineEvent`.
            event_types: The type or types wanted; None: all.
            tool_name: The tool or tools wanted; None: all, and events without a tool.

        Returns:
            A function that ends the subscription; calling it again does nothing.

        Raises:
            ConfigurationError: The callback cannot be called, or a filter cannot match.
            EngineClosedError: The bus was closed.
        """
        if not callable(callback):
            raise ConfigurationError(f"callback must be a function, got {callback!r}")
        subscriber = CallbackSubscriber(callback, self._buffer, self._report)
        return self._register(subscriber, event_types, tool_name)

    def events(
        self,
        event_types: EventTypes = None,
        tool_name: ToolNames = None,
        buffer: int = 1000,
    ) -> EventStream:
        """The events that match, from now on, as an async iterator.

        Args:
            event_types: The type or types wanted; None: all.
            tool_name: The tool or tools wanted; None: all, and events without a tool.
            buffer: The most events that wait to be read; the oldest go first.

        Raises:
            ConfigurationError: A filter cannot match, or the buffer is less than 1.
            EngineClosedError: The bus was closed.
        """
        _check_buffer(buffer)
        mailbox = Mailbox(buffer, self._awaited)
        subscriber = StreamSubscriber(mailbox, self._remove)
        return EventStream(mailbox, self._register(subscriber, event_types, tool_name))

    def publish(self, event: ToolEngineEvent) -> None:
        """Tells everybody who wants to know; never waits, never raises, from any thread."""
        for subscriber in self._by_type.get(event.event_type, ()):
            subscriber.offer(event)

    async def flush(self) -> None:
        """Waits until async callbacks are done with everything that was published."""
        while tasks := _wake(self._subscribers):
            await asyncio.wait(tasks)

    async def close(self) -> None:
        """Ends all subscriptions and streams.

        Async callbacks get `close_timeout` for what is buffered; then they are cancelled.
        """
        with self._lock:
            self._is_closed = True
            closing = self._subscribers
            self._index(())
        for subscriber in closing:
            subscriber.end()
        try:
            await self._settle(closing)
        finally:
            for subscriber in closing:
                subscriber.cancel()
        await self._settle(closing)
        self._dropped_before += sum(each.dropped for each in closing)

    async def _settle(self, subscribers: tuple[Subscriber, ...]) -> None:
        tasks = _wake(subscribers)
        if tasks:
            await asyncio.wait(tasks, timeout=self._close_timeout)

    def _register(
        self, subscriber: Subscriber, event_types: EventTypes, tool_name: ToolNames
    ) -> Callable[[], None]:
        types = _names("event_types", event_types)
        if types is not None:
            _check_types(types)
        subscriber.event_types = _ALL_TYPES if types is None else types
        subscriber.tool_names = _names("tool_name", tool_name)
        with self._lock:
            if self._is_closed:
                raise EngineClosedError("cannot subscribe: the event bus was closed")
            self._index((*self._subscribers, subscriber))
        return lambda: self._remove(subscriber)

    def _remove(self, subscriber: Subscriber) -> None:
        with self._lock:
            if subscriber not in self._subscribers:
                return
            self._index(tuple(each for each in self._subscribers if each is not subscriber))
            self._dropped_before += subscriber.dropped
        subscriber.end()
        subscriber.discard()

    def _index(self, subscribers: tuple[Subscriber, ...]) -> None:
        # New objects each time: a publish under way goes on with those that it began with.
        wanting = {
            kind: tuple(each for each in subscribers if kind in each.event_types)
            for kind in ToolEngineEventType
        }
        self._subscribers = subscribers
        self._by_type = {kind: some for kind, some in wanting.items() if some}
        self.has_subscribers = bool(subscribers)
        self.is_idle = not subscribers

    def _report(self, failure: EventFailure) -> None:
        event, callback, error = failure
        self.failed += 1
        if self.failed % _LOG_EVERY == 1:
            _log.warning(
                "subscriber_failed",
                subscriber=getattr(callback, "__qualname__", type(callback).__name__),
                event_type=event.event_type.value,
                tool_name=event.tool_name,
                call_id=event.call_id,
                error=redact_text("".join(traceback.format_exception(error))),
                failures=self.failed,
            )
        error.__traceback__ = None
        self.failures.append(failure)


def _wake(subscribers: tuple[Subscriber, ...]) -> list[asyncio.Task[None]]:
    """The tasks that deliver what is buffered, but for the one that asks."""
    current = asyncio.current_task()
    tasks = [subscriber.wake() for subscriber in subscribers]
    return [task for task in tasks if task is not None and task is not current]


def _check_buffer(buffer: object) -> None:
    if isinstance(buffer, bool) or not isinstance(buffer, int) or buffer < 1:
        raise ConfigurationError(f"buffer must be a whole number >= 1, got {buffer!r}")


def _names(field: str, value: str | Iterable[str] | None) -> frozenset[str] | None:
    if value is None:
        return None
    listed: list[object] = [value] if isinstance(value, str) else list(value)
    wrong = [each for each in listed if not isinstance(each, str)]
    if wrong or not listed:
        found = repr(wrong[0]) if wrong else "none"
        raise ConfigurationError(f"{field} must name at least one, as text, got {found}")
    return frozenset(each for each in listed if isinstance(each, str))


def _check_types(names: frozenset[str]) -> None:
    for name in sorted(names - _ALL_TYPES):
        near = difflib.get_close_matches(name, _ALL_TYPES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(_ALL_TYPES))}"
        raise ConfigurationError(f"unknown event type {name!r}; {hint}")
