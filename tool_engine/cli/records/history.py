"""Which calls were made, when, by whom, and how did they end?"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec
from rich.console import Console
from rich.table import Table

from tool_engine.cli.console import json_text, make_console, plain, print_json_line
from tool_engine.cli.failures import EXIT_OK
from tool_engine.cli.records.drawing import drawn
from tool_engine.cli.records.following import print_each, record_looks
from tool_engine.cli.records.quantities import parse_moment, seconds_text
from tool_engine.cli.records.recording import open_records
from tool_engine.cli.settings import Settings, run_async
from tool_engine.cli.tables import make_table
from tool_engine.knowledge.export import exported_row
from tool_engine.model.record import RecordQuery, ToolCallRecord

OUTCOME_STYLES: Final = {"succeeded": "green", "rejected": "yellow", "cancelled": "yellow"}
_WIDE: Final = 110
"""Columns from which on a table has room for everything."""
_LONGEST: Final = 160


class RecordFilters(msgspec.Struct, frozen=True):
    """Which records to show; None matches all."""

    tool: str | None = None
    is_failed: bool = False
    error_type: str | None = None
    caller: str | None = None
    conversation: str | None = None
    since: str | None = None
    until: str | None = None
    session: str | None = None

    def query(self, limit: int | None = None) -> RecordQuery:
        return RecordQuery(
            tool_name=self.tool,
            is_success=False if self.is_failed else None,
            error_type=self.error_type,
            caller_id=self.caller,
            conversation_id=self.conversation,
            session_id=self.session,
            start=None if self.since is None else parse_moment("--since", self.since),
            end=None if self.until is None else parse_moment("--until", self.until),
            limit=limit,
        )


def print_history(
    settings: Settings, filters: RecordFilters, *, limit: int, follow: bool, as_json: bool
) -> int:
    query = filters.query(limit)
    if follow:
        return print_each(_follow_records(settings, query), _print_json if as_json else _print_line)
    return run_async(_print_records(settings, query, as_json=as_json))


async def _follow_records(
    settings: Settings, query: RecordQuery
) -> AsyncGenerator[ToolCallRecord, None]:
    """Yield each newest record, oldest first, then each new one."""
    async with contextlib.aclosing(record_looks(settings, query)) as looks:
        async for records in looks:
            for record in records:
                yield record


async def newest_records(settings: Settings, query: RecordQuery) -> list[ToolCallRecord]:
    async with open_records(settings) as store:
        return list(reversed(await store.storage.query(query)))


async def _print_records(settings: Settings, query: RecordQuery, *, as_json: bool) -> int:
    records = await newest_records(settings, query)
    if as_json:
        for record in records:
            _print_json(record)
    elif not records:
        sys.stderr.write("no such calls are recorded\n")
    elif (console := make_console()).width >= _WIDE:
        console.print(_make_history_table(records, console))
    else:
        for record in records:
            _print_line(record)
    return EXIT_OK


def local_time(time: datetime, *, now: datetime | None = None) -> str:
    """Return the local time, with the date unless it is today."""
    here, today = time.astimezone(), (now or datetime.now(UTC)).astimezone()
    is_today = here.date() == today.date()
    return here.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M:%S")


def record_text(record: ToolCallRecord) -> str:
    if record.is_success:
        text = json_text(record.params, indent=None)
    else:
        text = f"{record.error_type or 'failed'}: {record.error or ''}"
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _make_history_table(records: Sequence[ToolCallRecord], console: Console) -> Table:
    columns = ("ended", "call", "tool", "outcome", "waited", "ran", "caller", "arguments or error")
    table = make_table("", *columns)
    # Never cut: a person copies it.
    table.columns[1].min_width = min(max(len(record.call_id or "") for record in records), 40)
    for record in records:
        outcome = record.outcome.value
        table.add_row(
            plain(local_time(record.created_at)),
            plain(record.call_id or "-", "cyan"),
            plain(record.tool_name, "bold cyan"),
            plain(outcome, OUTCOME_STYLES.get(outcome, "red")),
            plain(drawn(seconds_text(record.queue_wait), console)),
            plain(drawn(seconds_text(record.execution_time), console)),
            plain(record.caller_id or "-"),
            plain(record_text(record)),
        )
    return table


def _print_json(record: ToolCallRecord) -> None:
    print_json_line(exported_row(record))


def _print_line(record: ToolCallRecord) -> None:
    outcome = record.outcome.value
    console = make_console()
    words = (
        local_time(record.created_at),
        record.call_id or "-",
        f"{outcome:<9}",
        f"{drawn(seconds_text(record.execution_time), console):>8}",
        record.tool_name,
        record_text(record),
    )
    line = "  ".join(" ".join(word.split("\n")) for word in words)
    console.print(plain(line, OUTCOME_STYLES.get(outcome, "red")), soft_wrap=True)
    console.file.flush()
