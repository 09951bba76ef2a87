"""What do events show of a call that nothing special applies to?

Most subscribers look at few events, and at little of those: what such an event does not hold as it
is, it makes when that is first read, from what the record of the call is made of, too.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from inspect import getattr_static
from time import time
from types import CellType
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
_NO_CALLER: Final = CellType(None)
"""Of a call that came without a context."""


class PlainEvent(ToolEngineEvent, frozen=True, kw_only=True):
    """An event whose time, data and result are made when they are first read.

    What they are made from stands in their own fields, in a cell: what walks through a structure
    shows each field that there is, and this has the secrets. An encoder refuses a cell.
    """

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ToolEngineEvent):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _FIELDS)

    __hash__ = None  # type: ignore[assignment] # as its base, whose data has none

    def __reduce__(self) -> Any:
        """Return the event as it reads: all of it is made before it goes elsewhere."""
        return ToolEngineEvent(**{name: getattr(self, name) for name in _FIELDS}).__reduce__()


class _LateField:
    """Stands over a field of `PlainEvent` that `make` makes when it is first read.

    Args:
        name: The field.
        unread: The type of what stands in it until then.
        make: Makes it from that and the event.
    """

    def __init__(
        self, name: str, unread: type[object], make: Callable[[PlainEvent, Any], object]
    ) -> None:
        self._field: Any = getattr_static(ToolEngineEvent, name)
        self._unread = unread
        self._make = make

    def __get__(self, event: PlainEvent | None, owner: type[PlainEvent] | None = None) -> Any:
        if event is None:
            return self
        value = self._field.__get__(event)
        if value.__class__ is self._unread:
            value = self._make(event, value)
            self._field.__set__(event, value)
        return value

    def __set__(self, event: PlainEvent, value: object) -> None:
        self._field.__set__(event, value)


def _make_time(event: PlainEvent, at: float) -> datetime:
    del event
    return datetime.fromtimestamp(at, UTC)


def _make_data(event: PlainEvent, cell: CellType) -> dict[str, Any]:
    known: CallerFacts | PlainEntry | None = cell.cell_contents
    entry = known if isinstance(known, PlainEntry) else None
    caller: Any = known if entry is None else entry.caller
    caller = caller or (None, ANONYMOUS.caller_type, *[None] * 4)
    event.timestamp  # noqa: B018 - with what is read, so that no encoder takes the number for it
    return {
        "bucket": None if event.tool is None else event.tool.bucket,
        "queue_wait": 0.0 if entry is None else entry.queue_wait,
        "caller_id": caller[0],
        "caller_type": caller[1],
        "conversation_id": caller[2],
        "session_id": caller[5],
        "task_id": None,
        "parent_call_id": caller[4],
    }


def _make_result(event: PlainEvent, cell: CellType) -> ShownResult:
    del event
    entry: PlainEntry = cell.cell_contents
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


setattr(PlainEvent, "timestamp", _LateField("timestamp", float, _make_time))  # noqa: B010 - over a field
setattr(PlainEvent, "data", _LateField("data", CellType, _make_data))  # noqa: B010 - as above
setattr(PlainEvent, "execution_result", _LateField("execution_result", CellType, _make_result))  # noqa: B010 - as above


def make_start(call: Call, plan: Plan) -> PlainEvent:
    """Return the event of a call that has its slot."""
    who = call.context
    now: Any = time()
    unread: Any = _NO_CALLER if who is ANONYMOUS else CellType(read_caller(who))
    return PlainEvent(
        _STARTED,
        call.tool_name,
        plan.tool,
        None,
        None,
        None,
        now,
        call_id=call.call_id,
        data=unread,
        generation=plan.facts["generation"],
    )


def make_end(entry: PlainEntry, plan: Plan) -> PlainEvent:
    """Return the event of a call that has its record."""
    unread: Any = CellType(entry)
    now: Any = time()
    return PlainEvent(
        _COMPLETED,
        plan.tool.name,
        plan.tool,
        None,
        [],
        unread,
        now,
        call_id=entry.call_id,
        data=unread,
        generation=plan.facts["generation"],
    )
