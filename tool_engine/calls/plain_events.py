"""What do events show of a call that nothing special applies to?

Most subscribers look at few events, and at little of those: what such an event does not hold as it
is, it makes when that is first read, from what the record of the call is made of, too.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from inspect import getattr_static
from time import time
from typing import Any, Final

from tool_engine.calls.call import ANONYMOUS, Call, read_caller
from tool_engine.calls.ending import redact_output
from tool_engine.calls.plan import Plan
from tool_engine.knowledge.memory import CallerFacts, PlainEntry
from tool_engine.model.event import (
    ShownResult,
    ToolEngineEvent,
    ToolEngineEventType,
    UnreadOutput,
)

_STARTED: Final = ToolEngineEventType.EXECUTION_STARTED
_COMPLETED: Final = ToolEngineEventType.EXECUTION_COMPLETED
_FIELDS: Final = ToolEngineEvent.__struct_fields__
_UNREAD: Final[Any] = type("UnreadField", (), {"__slots__": ()})()
"""Stands in an event for what nothing has read yet; an encoder refuses it."""


class PlainEvent(ToolEngineEvent, frozen=True, kw_only=True):
    """An event whose time, data and result are made when they are first read."""

    _at: float
    """When it happened, on the wall clock."""
    _bucket: str
    _caller: CallerFacts | None = None
    """Who called; None: the call came without a context."""
    _entry: PlainEntry | None = None
    """What is kept of the call; None: it has only begun."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ToolEngineEvent):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _FIELDS)

    __hash__ = None  # type: ignore[assignment] # as its base, whose data has none

    def __reduce__(self) -> Any:
        """Return the event as it reads: all of it is made before it goes elsewhere."""
        return ToolEngineEvent(**{name: getattr(self, name) for name in _FIELDS}).__reduce__()


class _LateField:
    """Stands over a field of `PlainEvent` that `make` makes when it is first read."""

    def __init__(self, name: str, make: Callable[[PlainEvent], object]) -> None:
        self._field: Any = getattr_static(ToolEngineEvent, name)
        self._make = make

    def __get__(self, event: PlainEvent | None, owner: type[PlainEvent] | None = None) -> Any:
        if event is None:
            return self
        value = self._field.__get__(event)
        if value is _UNREAD:
            value = self._make(event)
            self._field.__set__(event, value)
        return value

    def __set__(self, event: PlainEvent, value: object) -> None:
        self._field.__set__(event, value)


def _make_time(event: PlainEvent) -> datetime:
    return datetime.fromtimestamp(event._at, UTC)  # noqa: SLF001 - the event's own


def _make_data(event: PlainEvent) -> dict[str, Any]:
    caller = event._caller or (None, ANONYMOUS.caller_type, *[None] * 4)  # noqa: SLF001 - the event's own
    entry = event._entry  # noqa: SLF001 - the event's own
    return {
        "bucket": event._bucket,  # noqa: SLF001 - the event's own
        "queue_wait": 0.0 if entry is None else entry.queue_wait,
        "caller_id": caller[0],
        "caller_type": caller[1],
        "conversation_id": caller[2],
        "session_id": caller[5],
        "task_id": None,
        "parent_call_id": caller[4],
    }


def _make_result(event: PlainEvent) -> ShownResult:
    entry: Any = event._entry  # noqa: SLF001 - the event's own
    output: Any = UnreadOutput(redact_output, entry.result)
    return ShownResult(
        True,
        entry.tool.name,
        output,
        None,
        None,
        [],
        entry.execution_time,
        entry.date,
        entry.facts | {"call_id": entry.call_id, "queue_wait": entry.queue_wait},
    )


for _name, _make in {
    "timestamp": _make_time,
    "data": _make_data,
    "execution_result": _make_result,
}.items():
    setattr(PlainEvent, _name, _LateField(_name, _make))


def make_start(call: Call, plan: Plan) -> PlainEvent:
    """Return the event of a call that has its slot."""
    who = call.context
    return PlainEvent(
        _STARTED,
        call.tool_name,
        plan.tool,
        None,
        None,
        None,
        _UNREAD,
        call_id=call.call_id,
        data=_UNREAD,
        generation=plan.facts["generation"],
        _at=time(),
        _bucket=plan.bucket,
        _caller=None if who is ANONYMOUS else read_caller(who),
    )


def make_end(entry: PlainEntry, plan: Plan) -> PlainEvent:
    """Return the event of a call that has its record."""
    return PlainEvent(
        _COMPLETED,
        plan.tool.name,
        plan.tool,
        None,
        [],
        _UNREAD,
        _UNREAD,
        call_id=entry.call_id,
        data=_UNREAD,
        generation=plan.facts["generation"],
        _at=time(),
        _bucket=plan.bucket,
        _caller=entry.caller,
        _entry=entry,
    )
