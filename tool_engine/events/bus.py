"""How are events numbered, kept and delivered to subscribers?"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Final

from tool_engine.errors import ConfigurationError, EngineClosedError, EventsLostError
from tool_engine.events.audience import NO_LISTENERS, Audience
from tool_engine.events.buffer import BLOCK_NONE, DROP_OLDEST, check_buffer
from tool_engine.events.event_filter import EventTypes, Names, WantedEvents
from tool_engine.events.log import EventLog
from tool_engine.events.mailbox import Mailbox
from tool_engine.events.replay import Replay
from tool_engine.events.stream import EventStream, StreamSubscriber
from tool_engine.events.subscriber import CallbackSubscriber, EventFailure, Subscriber
from tool_engine.interfaces import EventCallback
from tool_engine.logger import get_logger
from tool_engine.model.call import check_timeout
from tool_engine.model.checks.bounds import check_count
from tool_engine.model.checks.setting_kinds import check_object
from tool_engine.model.event import PASSING, ToolEngineEvent, ToolEngineEventType
from tool_engine.model.json.copying import refuse_copying
from tool_engine.model.newest import keep_newest
from tool_engine.redaction import OwnSecrets, secrets_if_known, trace_of

_log: Final = get_logger(__name__)
_LOG_EVERY: Final = 100
_MAX_FAILURES: Final = 100
_MOST_NOTED: Final = 256
"""The number of newest calls with secrets whose secrets stay known for log lines."""
_NAMES: Final = frozenset(kind.value for kind in ToolEngineEventType)


@refuse_copying("pass it on as it is, or subscribe again")
class Subscription:
    """Returned by `subscribe`: call it to end the subscription; repeated calls do nothing."""

    __slots__ = ("_remove", "_subscriber")

    def __init__(self, subscriber: Subscriber, remove: Callable[[Subscriber], None]) -> None:
        self._subscriber = subscriber
        self._remove = remove

    def __call__(self) -> None:
        self._remove(self._subscriber)

    def __repr__(self) -> str:
        state = "active" if self.is_active else "ended"
        return f"<Subscription {state}, {self.dropped} dropped>"

    @property
    def is_active(self) -> bool:
        """True while events still come; `block_none` ends a subscription that is too slow."""
        return self._subscriber.is_active

    @property
    def dropped(self) -> int:
        """Events that the callback was too slow for."""
        return self._subscriber.dropped

    @property
    def waiting(self) -> int:
        """Events that wait for the callback, or that it handles; the end leaves them out."""
        return self._subscriber.waiting

    async def drain(self) -> None:
        """Wait until the callback has handled what waits for it; not to be called by it."""
        while tasks := _delivery_tasks((self._subscriber,)):
            await asyncio.wait(tasks)


class EventBus:
    """Numbers events, keeps them where configured, and delivers them to subscribers.

    The path of a call reads `has_subscribers`, or asks `listens_to`, before it builds an event. An
    event without a subscriber or a storage is not built and has no number.

    Args:
        buffer: The most events that wait for one async callback.
        close_timeout: Seconds that `close` gives async callbacks to finish.
        log: Numbers events and may keep them; None: one that keeps none.

    Raises:
        ConfigurationError: A buffer or a timeout that cannot be.

    Example:
        >>> unsubscribe = bus.subscribe(print, event_types="execution_failed")
        >>> unsubscribe()
    """

    def __init__(
        self,
        *,
        buffer: int = 10_000,
        close_timeout: float = 1.0,
        log: EventLog | None = None,
    ) -> None:
        check_buffer(buffer)
        check_timeout("close_timeout", close_timeout)
        if log is not None:
            check_object("log", log, EventLog, "EventLog(storage)")
        self.has_subscribers = False
        """True if an event would reach a subscriber or be kept."""
        self.hears_start = self.hears_end = False
        """The same for `execution_started`, and for `execution_completed`."""
        self.failures: deque[EventFailure] = deque(maxlen=_MAX_FAILURES)
        """The dead-letter list: the newest failures of subscribers."""
        self.failed = 0
        """Failures of subscribers in all."""
        self.slow = 0
        """Plain functions that were too slow to be called at once."""
        self.log = EventLog() if log is None else log
        self.log.find_secrets = self.secrets_of
        self._buffer = buffer
        self._close_timeout = close_timeout
        self._is_closed = False
        self.disowned: EngineClosedError | None = None
        """What `subscribe` and `events` raise in a process that has forked."""
        # Held while an event is numbered and buffered, so that all buffers have the same order;
        # never while a plain function is called.
        self._lock = threading.RLock()
        self._subscribers: dict[Subscriber, None] = {}
        self._audience = Audience()
        self._abandoned: deque[Subscriber] = deque()
        self._dropped_before = 0
        self._noted: OrderedDict[str, Callable[[], OwnSecrets | None]] = OrderedDict()
        """Call id -> function that returns the secrets of the call."""
        self._awaited: set[Mailbox] = set()
        self._update_flags()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "open"
        return (
            f"<EventBus {state}, {len(self._subscribers)} subscribers, "
            f"{self.failed} failed, {self.dropped} dropped>"
        )

    @property
    def dropped(self) -> int:
        """Events that callbacks and streams were too slow for, in all."""
        return self._dropped_before + sum(each.dropped for each in tuple(self._subscribers))

    @property
    def subscribers(self) -> int:
        """The number of callbacks and streams."""
        return len(self._subscribers)

    def listens_to(self, event_type: ToolEngineEventType) -> bool:
        """True if a subscriber or the storage wants events of this type."""
        return event_type in self._audience.kinds or (self._keeps_all and event_type not in PASSING)

    def subscribe(
        self,
        callback: EventCallback,
        event_types: EventTypes = None,
        tool_name: Names = None,
        *,
        call_id: Names = None,
        conversation_id: Names = None,
        buffer: int | None = None,
        policy: str = DROP_OLDEST,
    ) -> Subscription:
        """Call `callback` with every event that matches.

        A plain function is called at once, on the thread that publishes: it must be quick, as the
        call waits for it. One that holds up calls twice for 20 ms is logged (`subscriber_slow`),
        and called in a thread from then on, one event at a time and in order. A coroutine function
        is awaited in the background, likewise. What a callback raises is logged and kept in
        `failures`.

        Args:
            callback: Called with one `ToolEngineEvent`.
            event_types: The type or types wanted; None: all.
            tool_name: The tool or tools wanted; None: all, and events without a tool.
            call_id: The call or calls wanted; None: all, and events of no call.
            conversation_id: The conversation or conversations wanted; None: all.
            buffer: The most events that wait for an async or a slow callback; None: what the bus
                says.
            policy: What is dropped when more come: `drop_oldest` or `drop_newest`; or `block_none`,
                which drops nothing: the subscription ends, and the failure is reported.

        Returns:
            A function that ends the subscription; it has `dropped`.

        Raises:
            ConfigurationError: The callback cannot be called, a filter cannot match, or the buffer
                or its policy cannot be.
            EngineClosedError: The bus was closed.
        """
        if not callable(callback):
            raise ConfigurationError(f"callback must be a function, got {callback!r}")
        limit = self._buffer if buffer is None else buffer
        check_buffer(limit, policy)
        subscriber = CallbackSubscriber(
            callback, limit, self._report_failure, policy, self._move_to_thread
        )
        subscriber.wanted = WantedEvents.of(event_types, tool_name, call_id, conversation_id)
        return self._register_subscriber(subscriber)

    def events(
        self,
        event_types: EventTypes = None,
        tool_name: Names = None,
        buffer: int = 1000,
        *,
        call_id: Names = None,
        conversation_id: Names = None,
        policy: str = DROP_OLDEST,
        after: int | None = None,
    ) -> EventStream:
        """Return an async iterator over matching events, from now or from a number on.

        Args:
            event_types: The type or types wanted; None: all.
            tool_name: The tool or tools wanted; None: all, and events without a tool.
            buffer: The most events that wait to be read.
            call_id: The call or calls wanted; None: all, and events of no call.
            conversation_id: The conversation or conversations wanted; None: all.
            policy: What is dropped when more wait: `drop_oldest` or `drop_newest`; or `block_none`,
                which drops nothing: the stream reads kept events, or ends with `EventsLostError`.
            after: The number of an event that was read; those that follow come first, from where
                events are kept. Then nothing is left out, whatever the policy.

        Raises:
            ConfigurationError: A filter cannot match, the buffer or its policy cannot be, or no
                events are kept to go back to.
            EngineClosedError: The bus was closed.
        """
        check_buffer(buffer, policy)
        wanted = WantedEvents.of(event_types, tool_name, call_id, conversation_id)
        if after is not None:
            check_count("after", after)
            policy = BLOCK_NONE
        mailbox = Mailbox(buffer, self._awaited, policy)
        replay = self._make_replay(after, wanted, mailbox) if policy == BLOCK_NONE else None
        subscriber = StreamSubscriber(
            mailbox, self._abandoned.append, is_replayed=replay is not None
        )
        subscriber.wanted = wanted
        return EventStream(mailbox, self._register_subscriber(subscriber), replay)

    def note_secrets(self, call_id: str, find_secrets: Callable[[], OwnSecrets | None]) -> None:
        """Hide a call's secrets in later log lines about failed subscribers.

        Args:
            call_id: The call, whose tool declares secrets.
            find_secrets: Returns the secrets that it was sent.
        """
        with self._lock:
            keep_newest(self._noted, call_id, find_secrets, _MOST_NOTED)

    def secrets_of(self, event: ToolEngineEvent) -> OwnSecrets | None:
        """Return the secrets of the event's call; None: it had some, now unknown."""
        find = self._noted.get(event.call_id or "")
        return secrets_if_known(event.tool, None) if find is None else find()

    def publish(self, event: ToolEngineEvent) -> None:
        """Deliver an event to its subscribers; never waits or raises; thread-safe.

        The bus owns the event from then on: it writes the number into it.
        """
        kind, lock = event.event_type, self._lock
        # A `with` takes twice as long as these two, and calls pass here.
        lock.acquire()
        try:
            if self._abandoned:
                self._let_go()
            found = self._audience.kinds.get(kind)
            if found is None and (not self._keeps_all or kind in PASSING):
                return
            event = self.log.take(event)
            listeners = NO_LISTENERS if found is None else found.everyone or found.of(event)
            buffered, plain = listeners
            for subscriber in buffered:
                subscriber.offer(event)
        finally:
            lock.release()
        for subscriber in buffered:
            subscriber.settle()
        for subscriber in plain:
            subscriber.offer(event)

    def tell_trouble(self, name: str, fields: dict[str, Any]) -> None:
        """Publish a storage's log line, or a change of a limit, if it is one of the facts."""
        if name in _NAMES and self.listens_to(kind := ToolEngineEventType(name)):
            error = fields.get("error")
            self.publish(ToolEngineEvent(kind, error=error, data=dict(fields)))

    async def flush(self) -> None:
        """Wait until async callbacks have handled everything that was published."""
        while tasks := _delivery_tasks(tuple(self._subscribers)):
            await asyncio.wait(tasks)

    async def close(self) -> None:
        """End all subscriptions and streams.

        Async callbacks get `close_timeout` for what is buffered; then they are cancelled.
        """
        with self._lock:
            self._is_closed = True
            closing = tuple(self._subscribers)
            self._subscribers, self._audience = {}, Audience()
            self._update_flags()
        for subscriber in closing:
            subscriber.end()
        try:
            await self._wake_subscribers(closing)
        finally:
            for subscriber in closing:
                subscriber.cancel()
        await self._wake_subscribers(closing)
        self._dropped_before += sum(each.dropped for each in closing)

    def _make_replay(
        self, after: int | None, wanted: WantedEvents, mailbox: Mailbox
    ) -> Replay | None:
        if self.log.is_kept:
            start = self.log.sequence if after is None else after
            return Replay(self.log, start, wanted, mailbox, self._rejoin_stream)
        if after is None:
            return None
        raise ConfigurationError(
            "no events are kept to go back to: set keep_events of ToolEngineConfig, or give the "
            "engine an event_storage"
        )

    def _rejoin_stream(self, mailbox: Mailbox) -> int:
        with self._lock:
            newest = self.log.current()
            mailbox.clear()
            return newest

    async def _wake_subscribers(self, subscribers: tuple[Subscriber, ...]) -> None:
        tasks = _delivery_tasks(subscribers)
        if tasks:
            await asyncio.wait(tasks, timeout=self._close_timeout)

    def _register_subscriber(self, subscriber: Subscriber) -> Subscription:
        if self.disowned is not None:
            raise self.disowned
        with self._lock:
            self._let_go()
            if self._is_closed:
                raise EngineClosedError("cannot subscribe: the event bus was closed")
            self._subscribers[subscriber] = None
            subscriber.is_choosy = subscriber.wanted.is_choosy
            self._audience.add(subscriber)
            self._update_flags()
        return Subscription(subscriber, self._remove_subscriber)

    def _remove_subscriber(self, subscriber: Subscriber) -> None:
        with self._lock:
            if subscriber not in self._subscribers:
                return
            del self._subscribers[subscriber]
            self._audience.remove(subscriber)
            self._update_flags()
            self._dropped_before += subscriber.dropped
        subscriber.end()
        subscriber.discard()

    def _let_go(self) -> None:
        """End the subscriptions of streams that were garbage-collected."""
        while self._abandoned:
            self._remove_subscriber(self._abandoned.popleft())

    def _update_flags(self) -> None:
        """Recompute whether there are subscribers or a storage."""
        self._keeps_all = self.log.is_kept and not self._is_closed
        self.has_subscribers = bool(self._audience) or self._keeps_all
        self.hears_start = self.listens_to(ToolEngineEventType.EXECUTION_STARTED)
        self.hears_end = self.listens_to(ToolEngineEventType.EXECUTION_COMPLETED)

    def _move_to_thread(
        self, subscriber: CallbackSubscriber, event: ToolEngineEvent, took: float
    ) -> None:
        """Deliver to a slow plain function in a thread from now on."""
        with self._lock:
            self.slow += 1
            if subscriber in self._subscribers:
                self._audience.remove(subscriber)
                self._audience.add(subscriber)
        _log.warning(
            "subscriber_slow",
            subscriber=subscriber.name,
            event_type=event.event_type.value,
            seconds=round(took, 3),
            hint="from now on it is called in a thread; make it quicker, or async",
        )

    def _report_failure(self, failure: EventFailure) -> None:
        event, callback, error = failure
        self.failed += 1
        if self.failed % _LOG_EVERY == 1:
            _log.warning(
                "subscriber_failed",
                subscriber=getattr(callback, "__qualname__", type(callback).__name__),
                event_type=event.event_type.value,
                tool_name=event.tool_name,
                call_id=event.call_id,
                error=trace_of(error, self.secrets_of(event)),
                failures=self.failed,
            )
        error.__traceback__ = None
        self.failures.append(failure)
        if isinstance(error, EventsLostError):
            with self._lock:
                for each in self._subscribers:
                    if not each.is_active:
                        self._audience.remove(each)
                self._update_flags()


def _delivery_tasks(subscribers: tuple[Subscriber, ...]) -> list[asyncio.Task[None]]:
    """Return the tasks that deliver buffered events, without the current one."""
    current = asyncio.current_task()
    tasks = [subscriber.wake() for subscriber in subscribers]
    return [task for task in tasks if task is not None and task is not current]
