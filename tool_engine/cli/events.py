"""What happens in engines that run elsewhere, as it happens?

Told from the records that they write: how each call ended. Nothing else leaves a process by itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from tool_engine.cli.console import make_console, plain, print_json_line
from tool_engine.cli.failures import EXIT_OK
from tool_engine.cli.history import (
    OUTCOME_STYLES,
    RecordFilters,
    local_time,
    newest_records,
    print_each,
    record_text,
)
from tool_engine.cli.settings import Settings, run_async
from tool_engine.model.event import ToolEngineEventType
from tool_engine.model.record import RecordQuery, ToolCallRecord

__all__ = ["print_events"]

_FINAL: Final = {
    "validation_error": ToolEngineEventType.VALIDATION_ERROR,
    "cancelled": ToolEngineEventType.EXECUTION_CANCELLED,
}
_NOTE: Final = (
    "told from the records of calls: the final event of each; what else happens, such as starts "
    "and reloads, is only told inside the process of the engine, by engine.events()\n"
)


def print_events(
    settings: Settings, filters: RecordFilters, *, limit: int, follow: bool, as_json: bool
) -> int:
    """Prints the final events of the newest calls; with `follow` also of those that end."""
    query = filters.query(limit)
    show = _print_json if as_json else _print_line
    if not as_json:
        sys.stderr.write(_NOTE)
    if follow:
        return print_each(settings, query, show)
    return run_async(_print(settings, query, show))


async def _print(
    settings: Settings, query: RecordQuery, show: Callable[[ToolCallRecord], None]
) -> int:
    for record in await newest_records(settings, query):
        show(record)
    return EXIT_OK


def _kind(record: ToolCallRecord) -> str:
    if record.is_success:
        return ToolEngineEventType.EXECUTION_COMPLETED.value
    return _FINAL.get(record.error_type or "", ToolEngineEventType.EXECUTION_FAILED).value


def _print_json(record: ToolCallRecord) -> None:
    facts: dict[str, Any] = {
        "event_type": _kind(record),
        "tool_name": record.tool_name,
        "call_id": record.call_id,
        "error_type": record.error_type,
        "error": record.error,
        "timestamp": record.created_at.isoformat(),
        "generation": record.generation,
        "data": {
            "bucket": record.bucket,
            "queue_wait": record.queue_wait,
            "execution_time": record.execution_time,
            "caller_id": record.caller_id,
            "caller_type": record.caller_type,
            "conversation_id": record.conversation_id,
            "parent_call_id": record.parent_call_id,
        },
    }
    print_json_line(facts)


def _print_line(record: ToolCallRecord) -> None:
    text = "" if record.is_success else f"  {record_text(record)}"
    name = " ".join(record.tool_name.split())
    line = f"{local_time(record.created_at)}  {_kind(record):<19}  {name}  {record.call_id}{text}"
    console = make_console()
    style = OUTCOME_STYLES.get(record.outcome.value, "red")
    console.print(plain(line, style), soft_wrap=True)
    console.file.flush()
