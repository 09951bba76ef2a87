"""Which calls are on their way, and when does each begin to wait, begin to run and end?

Events become the steps of one call. Those who trace or count calls are told of the steps, and
need not know in which order events come.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from time import time_ns
from typing import Any, Final, Protocol

import msgspec

from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType
from tool_engine.model.outcome import ErrorType
from tool_engine.model.record import ToolCallRecord
from tool_engine.observability.labels import LabelLimit

__all__ = ["CALL_EVENTS", "CallFollower", "CallListener", "FollowedCall", "ObservedEngine"]

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
"""What is published about calls."""
_MOST_ERRORS: Final = 30
"""Kinds of errors that tools have made up, beside those of `ErrorType`."""


class ObservedEngine(Protocol):
    """What of a `ToolEngine` is used to observe it."""

    controller: Any
    index: Any

    @property
    def load_errors(self) -> list[tuple[str, str]]:
        """The definitions that could not be loaded."""

    def subscribe(
        self, callback: Callable[[ToolEngineEvent], Any], event_types: Sequence[str] | None = None
    ) -> Callable[[], None]:
        """Calls `callback` with events of these types, or all; returns what ends that."""

    @property
    def query_call_records(self) -> Callable[..., Awaitable[list[ToolCallRecord]]]:
        """Asks for the records of finished calls."""


class FollowedCall(msgspec.Struct, eq=False):
    """One call, from the first that is heard of it."""

    tool: str
    """The name under which it is counted."""
    bucket: str
    """The bucket under which it is counted."""
    began: int
    """When it began, in nanoseconds of the wall clock: waiting is a part of the call."""
    is_queued: bool = False
    is_running: bool = False
    error: str | None = None
    """The kind of error under which it is counted, once it has ended; None: it succeeded."""
    is_shared: bool = False
    """Whether it ran nothing and got the result of another call."""
    span: Any = None
    """What whoever traces it keeps of it."""


class CallListener(Protocol):
    """Is told of each step of each call, in the context of its caller."""

    def queued(self, call: FollowedCall, event: ToolEngineEvent) -> None:
        """It waits for a slot."""

    def started(self, call: FollowedCall, event: ToolEngineEvent, was_queued: bool) -> None:
        """It has its slot, at once or after it waited."""

    def retried(self, call: FollowedCall, event: ToolEngineEvent) -> None:
        """An attempt has failed, and another one begins."""

    def ended(
        self,
        call: FollowedCall,
        event: ToolEngineEvent,
        result: ToolExecutionResult,
        now: int,
    ) -> None:
        """It has ended, at `now`: `call.is_queued` or `call.is_running` say how far it had come."""


class CallFollower:
    """Tells listeners of the steps of all calls of an engine.

    Args:
        engine: The engine.
        listeners: Told one after the other.
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
        self._unsubscribe = engine.subscribe(self._take, CALL_EVENTS)

    @property
    def open_calls(self) -> int:
        """How many calls have begun and not ended."""
        return len(self._calls)

    def close(self) -> None:
        """Follows no more calls, but those that have begun to their end; idempotent."""
        self._is_closing = True
        if not self._calls:
            self._unsubscribe()

    def _take(self, event: ToolEngineEvent) -> None:
        call_id = event.call_id or ""
        if event.execution_result is not None:
            self._end(self._calls.pop(call_id, None), event, event.execution_result)
            return
        call = self._calls.get(call_id)
        if call is None:
            # Of a call whose start was not heard, only the end is told.
            if self._is_closing or event.event_type is _RETRIED:
                return
            call = self._calls[call_id] = self._call(event, time_ns())
        if event.event_type is _QUEUED:
            call.is_queued = True
            _tell(self._queued, call, event)
        elif event.event_type is _RETRIED:
            _tell(self._retried, call, event)
        else:
            was_queued, call.is_queued, call.is_running = call.is_queued, False, True
            _tell(self._started, call, event, was_queued)

    def _end(
        self, call: FollowedCall | None, event: ToolEngineEvent, result: ToolExecutionResult
    ) -> None:
        now = time_ns()
        if self._is_closing:
            if not self._calls:
                self._unsubscribe()
            if call is None:
                return
        if call is None:
            call = self._call(event, now - _lasted(result))
            call.is_shared = "shared_with" in result.metadata
        if result.error_type is not None:
            call.error = self._errors.label(result.error_type)
        _tell(self._ended, call, event, result, now)

    def _call(self, event: ToolEngineEvent, began: int) -> FollowedCall:
        tool = None if event.tool is None else event.tool.name
        bucket = event.data.get("bucket")
        return FollowedCall(self._tools.label(tool), self._buckets.label(bucket), began)


def _tell(told: Sequence[Callable[..., None]], *step: Any) -> None:
    """Tells all of a step, whoever fails."""
    failure = None
    for tell in told:
        try:
            tell(*step)
        except Exception as error:  # noqa: BLE001 - raised when the others have been told
            failure = failure or error
    if failure is not None:
        raise failure


def _lasted(result: ToolExecutionResult) -> int:
    """The nanoseconds of a call of which only the end was heard."""
    seconds: float = result.metadata["queue_wait"]
    if result.metadata["attempts"]:
        seconds += result.execution_time
    return int(seconds * 1e9)
