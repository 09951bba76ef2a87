"""Which facts does the engine publish, and what does each carry?"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum
from functools import partial
from inspect import getattr_static
from itertools import islice
from typing import Any, Final, NoReturn

import msgspec

from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.json.data import Data, redact_json, show_fields
from tool_engine.model.json.returned_value import shorten_repr
from tool_engine.model.tool import Tool


class ToolEngineEventType(str, Enum):
    """The kinds of facts.

    A call publishes at most one QUEUED, at most one STARTED, one RETRIED per attempt after the
    first, and one final event, in this order. Between STARTED and the final event come any number
    of PROGRESS and LOGGED. Questions to people come before the first of them, or after the final
    one where they are about its result.
    """

    TOOL_LOADED = "tool_loaded"
    TOOL_ADDED = "tool_added"
    TOOL_UPDATED = "tool_updated"
    TOOL_REMOVED = "tool_removed"
    TOOL_QUARANTINED = "tool_quarantined"
    GROUP_ADDED = "group_added"
    GROUP_REMOVED = "group_removed"
    RELOAD_STARTED = "reload_started"
    RELOAD_COMPLETED = "reload_completed"
    LOAD_ERROR = "load_error"
    LOAD_MENDED = "load_mended"
    VALIDATION_ERROR = "validation_error"
    EXECUTION_STARTED = "execution_started"
    EXECUTION_COMPLETED = "execution_completed"
    EXECUTION_FAILED = "execution_failed"
    EXECUTION_QUEUED = "execution_queued"
    EXECUTION_RETRIED = "execution_retried"
    EXECUTION_CANCELLED = "execution_cancelled"
    EXECUTION_PROGRESS = "execution_progress"
    EXECUTION_LOGGED = "execution_logged"
    APPROVAL_REQUESTED = "approval_requested"
    APPROVAL_ANSWERED = "approval_answered"
    DECISION_KEPT = "decision_kept"
    DECISION_REVOKED = "decision_revoked"
    TOOL_TOGGLED = "tool_toggled"
    GROUP_TOGGLED = "group_toggled"
    LIMIT_ADAPTED = "limit_adapted"
    RECORDS_NOT_WRITTEN = "records_not_written"
    RECORDS_WRITTEN_AGAIN = "records_written_again"
    RECORDS_DROPPED = "records_dropped"
    RECORD_REFUSED = "record_refused"


PASSING: Final = frozenset(
    {ToolEngineEventType.EXECUTION_PROGRESS, ToolEngineEventType.EXECUTION_LOGGED}
)
"""The facts that are over as soon as they are heard: they get no number, and are not kept."""


class UnreadOutput(partial[dict[str, Any]]):
    """Stands in `ShownResult` for an output that nothing has read yet; called, it makes it."""

    def __repr__(self) -> str:
        # What it is made from has the secrets.
        return "<an output that nothing has read>"

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or sent without the result that it belongs to, likewise."""
        raise TypeError("the output of an event is made when it is read; read it, then copy that")


class ShownResult(ToolExecutionResult):
    """The result in an event, whose output is made when it is first read.

    To hide what is secret in a table takes many times as long as the call, and most subscribers
    never look. What is read is the output as the call returned it: it is made from a snapshot.
    """

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ToolExecutionResult):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _OF_RESULT)

    __hash__ = None  # type: ignore[assignment] # as its base

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the result as it reads: an output is made before it goes elsewhere."""
        return ToolExecutionResult, tuple(getattr(self, name) for name in _OF_RESULT)


class _ShownOutput:
    """The field `output` of a `ShownResult`."""

    def __get__(self, result: ShownResult | None, owner: type[ShownResult] | None = None) -> Any:
        if result is None:
            return self
        output = _OUTPUT.__get__(result)
        if output.__class__ is UnreadOutput:
            output = output()
            _OUTPUT.__set__(result, output)
        return output

    def __set__(self, result: ShownResult, value: object) -> None:
        _OUTPUT.__set__(result, value)


_OF_RESULT: Final = ToolExecutionResult.__struct_fields__
_OUTPUT: Final[Any] = getattr_static(ToolExecutionResult, "output")
setattr(ShownResult, "output", _ShownOutput())  # noqa: B010 - over a field, which it stands for


class _EventFields(msgspec.Struct, Data, frozen=True):
    """The fields of the founding implementation, in its order."""

    event_type: ToolEngineEventType
    tool_name: str | None = None
    tool: Tool | None = None
    error: str | None = None
    validation_errors: list[dict[str, Any]] | None = None
    execution_result: ToolExecutionResult | None = None
    """Set on the final event of a call."""
    timestamp: datetime = msgspec.field(default_factory=partial(datetime.now, UTC))


class ToolEngineEvent(_EventFields, frozen=True, kw_only=True):
    """One fact that happened in the engine."""

    call_id: str | None = None
    """Set on every event that belongs to a call."""
    data: dict[str, Any] = msgspec.field(default_factory=dict)
    """Fields of this kind of event only, such as `added`, `modified`, `removed` of a reload."""
    sequence: int | None = None
    """Its number, one higher than that of the event published before; None until it is published,
    and where numbers go on from a database that is not open yet."""
    generation: int | None = None
    """The tools that were in force: for a call those that it started with."""
    process: str | None = None
    """The process in which it happened, where it comes from a database; else None."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values, with `[hidden]` in place of secrets.

        `tool` is its definition, as `Tool.to_dict` gives it.
        """
        values = super().to_dict()
        result = values["execution_result"]
        return values | {"execution_result": redact_json(result)}

    def __repr__(self) -> str:
        parts = [self.event_type.value]
        parts += [repr(self.tool_name)] if self.tool_name is not None else []
        parts += [self.call_id] if self.call_id is not None else []
        result = self.execution_result
        if result is not None and result.is_success:
            parts.append(f"output={shorten_repr(result.output)}")
        if self.error is not None:
            parts.append(f"error={shorten_repr(self.error)}")
        data = {key: value for key, value in self.data.items() if value is not None}
        parts += [f"{key}={shorten_repr(value)}" for key, value in islice(data.items(), 8)]
        return f"ToolEngineEvent({' '.join(parts)})"

    __rich_repr__ = show_fields
