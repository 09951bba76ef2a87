"""Which calls are under way, and when does each begin to wait, run and end?

Events become the steps of one call, so that tracers and counters need not know the order of events.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from time import time_ns
from typing import Any, Final, Protocol

import msgspec

from tool_engine.clock import read_uptime_ns
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType
from tool_engine.model.outcome import ErrorType
from tool_engine.model.record import ToolCallRecord
from tool_engine.observability.labels import LabelLimit

_QUEUED: Final = ToolEngineEventType.EXECUTION_QUEUED
_STARTED: Final = ToolEngineEventType.EXECUTION_STARTED
_RETRIED: Final = ToolEngineEventType.EXECUTION_RETRIED
CALL_EVENTS: Final = (
    _QUEUED,
    _STARTED,
    _RETRIED,
    ToolEngineEventType.EXECUTION_COMPLETED,
    ToolEngineEventType.EXECUTION_FAILED,
    ToolEngineEventType.EXECUTION_CANCELLED,
    ToolEngineEventType.VALIDATION_ERROR,
)
"""The events about calls."""
_MOST_ERRORS: Final = 30
"""Error kinds invented by tools that are counted beside those of `ErrorType`."""


class Subscription(Protocol):
    """What `subscribe` returns; a call ends it."""

    @property
    def waiting(self) -> int:
        """Return how many events were published and not handled yet."""

    def __call__(self) -> None:
        """Take no more events, nor those that wait."""

    async def drain(self) -> None:
        """Wait until those that wait are handled."""


class ObservedEngine(Protocol):
    """The part of a `ToolEngine` that observers use."""

    controller: Any
    index: Any

    @property
    def load_errors(self) -> list[tuple[str, str]]:
        """Return the definitions that could not be loaded."""

    def subscribe(
        self, callback: Callable[[ToolEngineEvent], Any], event_types: Sequence[str] | None = None
    ) -> Subscription:
        """Call `callback` with events of these types, or all; return what ends that."""

    def get_event_statistics(self) -> dict[str, Any]:
        """Return counts; `sequence` is the number of the newest event."""

    @property
    def query_call_records(self) -> Callable[..., Awaitable[list[ToolCallRecord]]]:
        """Return the function that queries records of finished calls."""


class FollowedCall(msgspec.Struct, eq=False):
    """One call, from its first event on."""

    tool: str
    """The name under which it is counted."""
    bucket: str
    """The bucket under which it is counted."""
    began: int
    """When it began, in nanoseconds of the wall clock: waiting is a part of the call."""
    since: int
    """The `read_uptime_ns` of that moment."""
    is_queued: bool = False
    is_running: bool = False
    error: str | None = None
    """The kind of error that it is counted under after its end; None: it succeeded."""
    is_shared: bool = False
    """True if it ran nothing and got the result of another call."""
    span: Any = None
    """The span that a tracer keeps for it."""

    def read_time(self) -> int:
        """Return the time as the clock was set when it began: a clock that is set ends no span."""
        return self.began + read_uptime_ns() - self.since


class CallListener(Protocol):
    """Receives each step of each call, in the context of its caller."""

    def queued(self, call: FollowedCall, event: ToolEngineEvent) -> None:
        """The call waits for a slot."""

    def started(self, call: FollowedCall, event: ToolEngineEvent, was_queued: bool) -> None:
        """The call has its slot, at once or after it waited."""

    def retried(self, call: FollowedCall, event: ToolEngineEvent) -> None:
        """An attempt has failed, and another one begins."""

    def ended(
        self,
        call: FollowedCall,
        event: ToolEngineEvent,
        result: ToolExecutionResult,
        now: int,
    ) -> None:
        """The call ended at `now`; `call.is_queued` and `is_running` show its last state."""


class CallFollower:
    """Reports the steps of all calls of an engine to listeners.

    Args:
        engine: The engine.
        listeners: Called one after the other.
        tools: Names the tools.
        buckets: Names the buckets.

    Raises:
        EngineClosedError: The engine is closed.
    """

    def __init__(
        self,
        engine: ObservedEngine,
        listeners: Sequence[CallListener],
        tools: LabelLimit,
        buckets: LabelLimit,
    ) -> None:
        self._queued = [listener.queued for listener in listeners]
        self._started = [listener.started for listener in listeners]
        self._retried = [listener.retried for listener in listeners]
        self._ended = [listener.ended for listener in listeners]
        self._tools = tools
        self._buckets = buckets
        self._errors = LabelLimit("errors", _MOST_ERRORS, [kind.value for kind in ErrorType])
        self._calls: dict[str, FollowedCall] = {}
        self._is_closing = False
        self._engine = engine
        self._last = 0
        """The number of the newest event when no new calls were to be followed any more."""
        self._subscription = engine.subscribe(self._take_event, CALL_EVENTS)

    @property
    def open_calls(self) -> int:
        """The number of calls that have begun and not ended."""
        return len(self._calls)

    def close(self) -> None:
        """Follow no new calls, and the open ones to their end; idempotent.

        Open are also those whose events wait, as they do where listeners are slow.
        """
        if not self._is_closing:
            self._last = self._engine.get_event_statistics()["sequence"]
            self._is_closing = True
        if not self._calls and not self._subscription.waiting:
            self._subscription()

    async def drain(self) -> None:
        """Wait until the steps of all events that wait are reported."""
        await self._subscription.drain()

    def _take_event(self, event: ToolEngineEvent) -> None:
        try:
            self._follow_event(event)
        finally:
            # The one that waits still is this one.
            if self._is_closing and not self._calls and self._subscription.waiting <= 1:
                self._subscription()

    def _follow_event(self, event: ToolEngineEvent) -> None:
        call_id, is_new = event.call_id or "", not self._is_closing or self._is_older(event)
        if event.execution_result is not None:
            call = self._calls.pop(call_id, None)
            if call is not None or is_new:
                self._end_call(call, event, event.execution_result)
            return
        call = self._calls.get(call_id)
        if call is None:
            # Of a call whose start was not seen, only the end is reported.
            if not is_new or event.event_type is _RETRIED:
                return
            call = self._calls[call_id] = self._make_call(event)
        if event.event_type is _QUEUED:
            call.is_queued = True
            _call_listeners(self._queued, call, event)
        elif event.event_type is _RETRIED:
            _call_listeners(self._retried, call, event)
        else:
            was_queued, call.is_queued, call.is_running = call.is_queued, False, True
            _call_listeners(self._started, call, event, was_queued)

    def _end_call(
        self, call: FollowedCall | None, event: ToolEngineEvent, result: ToolExecutionResult
    ) -> None:
        if call is None:
            call = self._make_call(event, _duration_of(result))
            call.is_shared = "shared_with" in result.metadata
        if result.error_type is not None:
            call.error = self._errors.label(result.error_type)
        _call_listeners(self._ended, call, event, result, call.read_time())

    def _is_older(self, event: ToolEngineEvent) -> bool:
        """Return whether an event was published before no new calls were to be followed."""
        return event.sequence is not None and event.sequence <= self._last

    def _make_call(self, event: ToolEngineEvent, ago: int = 0) -> FollowedCall:
        tool = None if event.tool is None else event.tool.name
        bucket = event.data.get("bucket")
        began, since = time_ns() - ago, read_uptime_ns() - ago
        return FollowedCall(self._tools.label(tool), self._buckets.label(bucket), began, since)


def _call_listeners(listeners: Sequence[Callable[..., None]], *step: Any) -> None:
    """Call all listeners of a step, even if some fail."""
    failure = None
    for listener in listeners:
        try:
            listener(*step)
        except Exception as error:  # noqa: BLE001 - raised when the others have been called
            failure = failure or error
    if failure is not None:
        raise failure


def _duration_of(result: ToolExecutionResult) -> int:
    """Return the duration in nanoseconds of a call of which only the end was seen."""
    seconds: float = result.metadata["queue_wait"]
    if result.metadata["attempts"]:
        seconds += result.execution_time
    return int(seconds * 1e9)
