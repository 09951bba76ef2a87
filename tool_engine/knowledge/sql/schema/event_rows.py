"""How does an event become a row, and a row an event?"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from tool_engine.errors import RecordsUnavailableError
from tool_engine.knowledge.snapshot import restore_value, take_snapshot
from tool_engine.knowledge.sql.schema.damage import DAMAGE
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType
from tool_engine.redaction import redact


def row_of(event: ToolEngineEvent, process: str | None = None) -> dict[str, Any]:
    """The row of an event of a process, with secrets hidden, by its columns."""
    result = event.execution_result
    body = {
        "tool_name": event.tool_name,
        "error": event.error,
        "validation_errors": event.validation_errors,
        "execution_result": None if result is None else result.to_dict(),
        "call_id": event.call_id,
        "data": event.data,
        "generation": event.generation,
    }
    if process is not None:
        body["process"] = process
    return {
        "sequence": event.sequence,
        "event_type": event.event_type.value,
        "happened_at": int(event.timestamp.timestamp() * 1e6),
        "body": _encode_body(body),
    }


def _encode_body(body: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(redact(body))
    except Exception:  # noqa: BLE001 - a foreign value may refuse to be written
        return msgspec.json.encode(redact(restore_value(take_snapshot(body))))


def event_of(row: Sequence[Any]) -> ToolEngineEvent:
    """The event in a row of `sequence`, `event_type`, `happened_at` and `body`.

    Raises:
        RecordsUnavailableError: It is not one that this version wrote.
    """
    try:
        return _read_event(*row)
    except DAMAGE as error:
        raise RecordsUnavailableError(
            f"the event {row[0]} in the database is not one that this version wrote: {error}; "
            f"go on after {row[0]}"
        ) from error


class _Body(msgspec.Struct, frozen=True):
    """What of an event stands in no column of its own."""

    tool_name: str | None
    error: str | None
    validation_errors: list[dict[str, Any]] | None
    execution_result: ToolExecutionResult | None
    call_id: str | None
    data: dict[str, Any]
    generation: int | None
    process: str | None = None


def _read_event(
    sequence: int, event_type: str, happened_at: int, encoded: bytes
) -> ToolEngineEvent:
    body = msgspec.json.decode(encoded, type=_Body)
    return ToolEngineEvent(
        ToolEngineEventType(event_type),
        body.tool_name,
        None,
        body.error,
        body.validation_errors,
        body.execution_result,
        datetime.fromtimestamp(happened_at / 1e6, UTC),
        call_id=body.call_id,
        data=body.data,
        sequence=sequence,
        generation=body.generation,
        process=body.process,
    )
