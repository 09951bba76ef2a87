"""How does a command follow new records until it is ended?

A database that does not answer for a while is asked again, and one whose file was deleted or
replaced is opened anew, so that it shows what other processes write now.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from asyncio_throttle.throttler import Throttler
from msgspec.structs import replace

from tool_engine.cli.console import safe_text
from tool_engine.cli.failures import EXIT_FAILED, EXIT_INTERRUPTED, CommandError
from tool_engine.cli.records.recording import open_records, records_file
from tool_engine.cli.settings import Settings
from tool_engine.cli.signals import run_async
from tool_engine.cli.stdout_reader import reader_watched
from tool_engine.errors import RecordsUnavailableError
from tool_engine.knowledge.store import ToolKnowledgeStore
from tool_engine.model.record import RecordQuery, ToolCallRecord

T = TypeVar("T")
_LOOKS: Final = 10
"""How often in an interval asyncio-throttle looks whether it is over."""
_INTERVAL: Final = 0.5
"""Seconds between two looks for new records."""
_OVERLAP: Final = timedelta(seconds=10)
"""How late a record may come: processes write theirs some time after a call has ended."""
_PAGE: Final = 500


def print_each(source: AsyncGenerator[T, None], show: Callable[[T], None]) -> int:
    """Show each value until Ctrl-C, or until stdout has no reader."""
    try:
        return run_async(_print_each(source, show))
    except CommandError as error:
        # Ctrl-C is the normal end here, and no mistake to report.
        if error.exit_code != EXIT_INTERRUPTED:
            raise
        return EXIT_INTERRUPTED


async def _print_each(source: AsyncGenerator[T, None], show: Callable[[T], None]) -> int:
    this: Any = asyncio.current_task()
    is_gone = False

    def reader_gone() -> None:
        nonlocal is_gone
        is_gone = True
        this.cancel()

    async with contextlib.aclosing(source):
        try:
            with reader_watched(reader_gone):
                async for each in source:
                    show(each)
        except asyncio.CancelledError:
            if not is_gone:
                raise
            this.uncancel()
    return EXIT_FAILED


class Pace:
    """Lets one question begin per interval of seconds, its answer's time included."""

    def __init__(self, interval: float) -> None:
        self._throttler = Throttler(1, interval, interval / _LOOKS)

    async def wait(self) -> None:
        await self._throttler.acquire()  # type: ignore[no-untyped-call] # the library has no types


class Patience:
    """Asks an unavailable database again, with one message about it."""

    def __init__(self) -> None:
        self._is_waiting = False

    async def ask(self, question: Awaitable[list[T]]) -> list[T]:
        """Return the answer; an empty list while the database is unavailable."""
        try:
            found = await question
        except RecordsUnavailableError as error:
            if not self._is_waiting:
                sys.stderr.write(f"warning: {safe_text(str(error))}; it is asked again\n")
            self._is_waiting = True
            return []
        if self._is_waiting:
            sys.stderr.write("the database answers again\n")
        self._is_waiting = False
        return found


class RecordTail:
    """The new records of a query, each once.

    The query's `limit` is for those that exist already.
    """

    def __init__(self, query: RecordQuery) -> None:
        self._query = query
        self._horizon = datetime.now(UTC)
        self._seen: dict[str, datetime] = {}

    async def begin(self, store: ToolKnowledgeStore) -> list[ToolCallRecord]:
        newest = await store.storage.query(self._query)
        self._query = replace(self._query, limit=_PAGE, end=None, oldest_first=True)
        recent = await self._read_since(store, self._horizon - _OVERLAP)
        self._seen = {each.record_id: each.created_at for each in (*recent, *newest)}
        return list(reversed(newest))

    async def look(self, store: ToolKnowledgeStore) -> list[ToolCallRecord]:
        start = self._horizon - _OVERLAP
        found = [
            each
            for each in await self._read_since(store, start)
            if each.record_id not in self._seen
        ]
        self._seen |= {each.record_id: each.created_at for each in found}
        self._horizon = max((self._horizon, *(each.created_at for each in found)))
        self._seen = {key: time for key, time in self._seen.items() if time >= start}
        return found

    async def _read_since(self, store: ToolKnowledgeStore, start: datetime) -> list[ToolCallRecord]:
        page = replace(self._query, start=max(start, self._query.start or start))
        found: list[ToolCallRecord] = []
        while records := await store.storage.query(page):
            found += records
            if len(records) < _PAGE:
                break
            page = replace(page, after=records[-1].record_id)
        return found


async def record_looks(
    settings: Settings, query: RecordQuery
) -> AsyncGenerator[list[ToolCallRecord], None]:
    """Yield the newest records, then new ones, without end."""
    tail, patience, is_first = RecordTail(query), Patience(), True
    pace = Pace(_INTERVAL)
    while True:
        async with open_records(settings, may_be_missing=False, stays_with_file=True) as store:
            file = await records_file(settings)
            if is_first:
                is_first = False
                yield await tail.begin(store)
            while await records_file(settings) in (None, file):
                await pace.wait()
                yield await patience.ask(tail.look(store))
            yield await patience.ask(tail.look(store))  # records from before the file was deleted
