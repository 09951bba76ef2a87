"""How are records exported to other programs?

Page by page, the oldest first, so that any number of them needs the memory of one page.
"""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from tool_engine.knowledge.store import ToolKnowledgeStore
from tool_engine.model.checks.bounds import check_choice
from tool_engine.model.record import RecordQuery, ToolCallRecord

EXPORT_COLUMNS: Final = {
    "record_id": "string",
    "call_id": "string",
    "parent_call_id": "string",
    "tool_name": "string",
    "tool_version": "string",
    "definition_hash": "string",
    "origin": "string",
    "generation": "int64",
    "outcome": "string",
    "is_success": "bool",
    "error_type": "string",
    "error": "string",
    "reached_executor": "bool",
    "caller_id": "string",
    "caller_type": "string",
    "conversation_id": "string",
    "workflow_id": "string",
    "agent_id": "string",
    "session_id": "string",
    "task_id": "string",
    "process": "string",
    "decided_by": "string",
    "bucket": "string",
    "key": "string",
    "priority": "int64",
    "weight": "int64",
    "attempts": "int64",
    "enqueued_at": "timestamp",
    "started_at": "timestamp",
    "created_at": "timestamp",
    "queue_wait": "double",
    "execution_time": "double",
    "result_size": "int64",
    "params": "json",
    "result": "json",
}
"""The columns of an export and their types. `timestamp` is ISO 8601 in UTC with microseconds,
`json` a text that holds JSON, `bool` `true` or `false`; an empty field of a CSV file is null."""
EXPORT_FORMATS: Final = ("jsonl", "csv")
_PAGE: Final = 500
_LATE: Final = timedelta(seconds=5)
_encode: Final = msgspec.json.Encoder().encode


async def export_records(
    store: ToolKnowledgeStore, file_format: str = "jsonl", query: RecordQuery | None = None
) -> AsyncIterator[str]:
    """Yield the text of an export, in parts that end with a line.

    Records that come while it runs are left out.

    Args:
        store: Where the records are.
        file_format: `jsonl`: an object per line; `csv`: with a header, and comma and quote as in
            RFC 4180.
        query: Which records; its order, `offset` and `after` do not count. None: all.

    Raises:
        ConfigurationError: There is no such format.
        RecordsUnavailableError: The database does not answer.

    Example:
        >>> async for part in export_records(engine.store, "csv"):
        ...     file.write(part)
    """
    check_choice("file_format", file_format, EXPORT_FORMATS)
    text = _json_lines if file_format == "jsonl" else _csv_lines
    if file_format == "csv":
        yield _csv_text([list(EXPORT_COLUMNS)])
    async for page in _read_pages(store, query or RecordQuery()):
        yield text(page)


def exported_row(record: ToolCallRecord) -> dict[str, Any]:
    """Return a record by `EXPORT_COLUMNS`.

    `params` and `result` stay as they are; times become text.
    """
    row = {name: getattr(record, name) for name in EXPORT_COLUMNS}
    row["outcome"] = record.outcome.value
    for name, kind in EXPORT_COLUMNS.items():
        if kind == "timestamp":
            row[name] = row[name].astimezone(UTC).isoformat(timespec="microseconds")
    return row


async def _read_pages(
    store: ToolKnowledgeStore, query: RecordQuery
) -> AsyncIterator[Sequence[ToolCallRecord]]:
    left = query.limit
    soon = datetime.now(UTC) + _LATE
    end = query.end or max(query.start or soon, soon)
    page = msgspec.structs.replace(query, end=end, oldest_first=True, offset=0, after=None)
    while left is None or left > 0:
        size = _PAGE if left is None else min(_PAGE, left)
        found = await store.storage.query(msgspec.structs.replace(page, limit=size))
        if found:
            yield found
        if len(found) < size:
            return
        left = None if left is None else left - size
        page = msgspec.structs.replace(page, after=found[-1].record_id)


def _json_lines(page: Sequence[ToolCallRecord]) -> str:
    return "".join(f"{_encode(exported_row(each)).decode()}\n" for each in page)


def _csv_lines(page: Sequence[ToolCallRecord]) -> str:
    return _csv_text(
        [
            [_FIELDS[kind](row[name]) for name, kind in EXPORT_COLUMNS.items()]
            for row in map(exported_row, page)
        ]
    )


def _csv_text(rows: Sequence[Sequence[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _as_is(value: Any) -> Any:
    return value


def _as_json(value: Any) -> str:
    return _encode(value).decode()


_FIELDS: Final[dict[str, Callable[[Any], Any]]] = {
    "string": _as_is,
    "int64": _as_is,
    "double": repr,
    "bool": _as_json,
    "timestamp": _as_is,
    "json": _as_json,
}
