"""Which calls were made, when, by whom, and how did they end?"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from tool_engine.cli.console import json_text, make_console, plain, print_json_line
from tool_engine.cli.drawing import drawn
from tool_engine.cli.failures import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, CommandError
from tool_engine.cli.quantities import parse_moment, seconds_text
from tool_engine.cli.recording import open_records
from tool_engine.cli.settings import Settings, run_async
from tool_engine.cli.tables import make_table
from tool_engine.cli.watching import reader_watched
from tool_engine.knowledge.export import exported_row
from tool_engine.knowledge.store import ToolKnowledgeStore
from tool_engine.model.record import RecordQuery, ToolCallRecord

__all__ = [
    "OUTCOME_STYLES",
    "RecordFilters",
    "local_time",
    "newest_records",
    "print_each",
    "print_history",
    "record_text",
]

OUTCOME_STYLES: Final = {"succeeded": "green", "rejected": "yellow", "cancelled": "yellow"}
_INTERVAL: Final = 0.5
"""Seconds between two looks for new records."""
_OVERLAP: Final = timedelta(seconds=10)
"""How late a record may come: processes write theirs some time after a call has ended."""
_PAGE: Final = 500
_WIDE: Final = 110
"""Columns from which on a table has room for everything."""
_LONGEST: Final = 160


class RecordFilters(msgspec.Struct, frozen=True):
    """Which records somebody wants; what is None matches all."""

    tool: str | None = None
    is_failed: bool = False
    error_type: str | None = None
    caller: str | None = None
    conversation: str | None = None
    since: str | None = None
    until: str | None = None

    def query(self, limit: int | None = None) -> RecordQuery:
        """What the store is asked for.

        Raises:
            CommandError: A time is none.
        """
        return RecordQuery(
            tool_name=self.tool,
            is_success=False if self.is_failed else None,
            error_type=self.error_type,
            caller_id=self.caller,
            conversation_id=self.conversation,
            start=None if self.since is None else parse_moment("--since", self.since),
            end=None if self.until is None else parse_moment("--until", self.until),
            limit=limit,
        )


def print_history(
    settings: Settings, filters: RecordFilters, *, limit: int, follow: bool, as_json: bool
) -> int:
    """Prints the newest records, the newest last; with `follow` also those that come."""
    query = filters.query(limit)
    if follow:
        return print_each(settings, query, _print_json if as_json else _print_line)
    return run_async(_print(settings, query, as_json=as_json))


def print_each(
    settings: Settings, query: RecordQuery, show: Callable[[ToolCallRecord], None]
) -> int:
    """Shows the newest records and those that come, until Ctrl-C or until nobody reads them."""
    try:
        return run_async(_follow(settings, query, show))
    except CommandError as error:
        # Ctrl-C is how it is meant to end, and no mistake that is told.
        if error.exit_code != EXIT_INTERRUPTED:
            raise
        return EXIT_INTERRUPTED


async def _followed(store: ToolKnowledgeStore, query: RecordQuery) -> AsyncIterator[ToolCallRecord]:
    """The newest records, oldest first, and then those that come; each once, without end.

    Args:
        store: Where they are.
        query: Which; its `limit` is for those that are there already.
    """
    horizon = datetime.now(UTC)
    newest = await store.storage.query(query)
    query = replace(query, limit=_PAGE, end=None, oldest_first=True)
    seen = {
        record.record_id: record.created_at
        async for record in _from(store, query, horizon - _OVERLAP)
    }
    for record in reversed(newest):
        seen[record.record_id] = record.created_at
        yield record
    while True:
        await asyncio.sleep(_INTERVAL)
        start = horizon - _OVERLAP
        async for record in _from(store, query, start):
            if record.record_id not in seen:
                seen[record.record_id] = record.created_at
                horizon = max(horizon, record.created_at)
                yield record
        seen = {key: time for key, time in seen.items() if time >= start}


async def _from(
    store: ToolKnowledgeStore, query: RecordQuery, start: datetime
) -> AsyncIterator[ToolCallRecord]:
    page = replace(query, start=max(start, query.start or start))
    while found := await store.storage.query(page):
        for record in found:
            yield record
        if len(found) < _PAGE:
            return
        page = replace(page, after=found[-1].record_id)


async def newest_records(settings: Settings, query: RecordQuery) -> list[ToolCallRecord]:
    """The newest records, the newest last."""
    async with open_records(settings) as store:
        return list(reversed(await store.storage.query(query)))


async def _print(settings: Settings, query: RecordQuery, *, as_json: bool) -> int:
    records = await newest_records(settings, query)
    if as_json:
        for record in records:
            _print_json(record)
    elif not records:
        sys.stderr.write("no such calls are recorded\n")
    elif (console := make_console()).width >= _WIDE:
        console.print(_table(records, console))
    else:
        for record in records:
            _print_line(record)
    return EXIT_OK


async def _follow(
    settings: Settings, query: RecordQuery, show: Callable[[ToolCallRecord], None]
) -> int:
    this: Any = asyncio.current_task()
    is_gone = False

    def reader_gone() -> None:
        nonlocal is_gone
        is_gone = True
        this.cancel()

    async with open_records(settings, may_be_missing=False) as store:
        try:
            with reader_watched(reader_gone):
                async for record in _followed(store, query):
                    show(record)
        except asyncio.CancelledError:
            if not is_gone:
                raise
            this.uncancel()
    return EXIT_FAILED


def local_time(time: datetime, *, now: datetime | None = None) -> str:
    """A time of day here, with its date unless that is today's."""
    here, today = time.astimezone(), (now or datetime.now(UTC)).astimezone()
    is_today = here.date() == today.date()
    return here.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M:%S")


def record_text(record: ToolCallRecord) -> str:
    """What a call was about, on one line that is not too long: its arguments, or its error."""
    if record.is_success:
        text = json_text(record.params, indent=None)
    else:
        text = f"{record.error_type or 'failed'}: {record.error or ''}"
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _table(records: Sequence[ToolCallRecord], console: Console) -> Table:
    columns = ("ended", "call", "tool", "outcome", "waited", "ran", "caller", "arguments or error")
    table = make_table("", *columns)
    # Somebody wants to copy it.
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
