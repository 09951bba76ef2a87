"""Which events do engines that run elsewhere write to the log of a database, as they write them?

Only asks: it takes no numbers, and makes and changes nothing. Each engine counts on from where it
began, and where one was killed, or two write at once, numbers jump. What is below a jump may still
be written, so that it is looked at as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from sqlalchemy import inspect, text

from tool_engine.errors import ConfigurationError, EventsExpiredError, RecordsUnavailableError
from tool_engine.knowledge.sql.connection.address import Address
from tool_engine.knowledge.sql.reader import Reader
from tool_engine.knowledge.sql.schema.event_rows import event_of
from tool_engine.model.event import ToolEngineEvent
from tool_engine.model.settings.retention import RecordsURL

_END: Final = 2**63 - 1
_MOST_RUNS: Final = 16
"""Jumps below which it is looked for more: the newest."""
_ROWS: Final = "SELECT sequence, event_type, happened_at, body FROM tool_events "
_BETWEEN: Final = text(
    f"{_ROWS} WHERE sequence > :after AND sequence < :until ORDER BY sequence LIMIT :limit"
)
_NEWEST: Final = text(
    f"{_ROWS} WHERE sequence < :before AND happened_at >= :since "
    "ORDER BY sequence DESC LIMIT :limit"
)
_OLDEST: Final = text("SELECT min(sequence) FROM tool_events")
_ENGINES: Final = text("SELECT count(*) FROM tool_event_numbers")
_RUNS: Final = text(
    "SELECT sequence, (SELECT max(sequence) FROM tool_events AS below "
    "WHERE below.sequence < run.sequence) FROM tool_events AS run WHERE NOT EXISTS "
    "(SELECT 1 FROM tool_events AS last WHERE last.sequence = run.sequence - 1) "
    "ORDER BY sequence DESC LIMIT :limit"
)
_LAST: Final = text("SELECT max(sequence) FROM tool_events")


class _Span(NamedTuple):
    """Numbers that may still come: those between two."""

    after: int | None
    """The last one that is known; None where none was known before."""
    until: int = _END


class EventReader:
    """Asks the event log of a database.

    Args:
        url: The URL of the database; see the setting `records`.

    Raises:
        ConfigurationError: The URL is wrong.

    Example:
        >>> reader = EventReader("sqlite:///calls.db")
        >>> tail = await reader.tail(after=1_000)
        >>> events = await tail.read()
    """

    def __init__(self, url: str) -> None:
        self._url = RecordsURL(url)
        self._address: Address | None = None
        self._reader: Reader | None = None
        self._file: tuple[int, int] | None = None

    async def is_kept(self) -> bool:
        """Whether an engine has ever kept its events there.

        Raises:
            RecordsUnavailableError: The database does not answer.
        """
        reader = await self._open_reader()
        if self._file is None and self._is_file:
            await self.close()
            return False
        async with reader.connection() as connection:
            if not await connection.run_sync(lambda each: inspect(each).has_table("tool_events")):
                return False
            return bool((await connection.execute(_ENGINES)).scalar_one())

    async def newest(
        self, limit: int, before: int | None = None, since: float = 0.0
    ) -> list[ToolEngineEvent]:
        """The newest events, at most `limit`, the newest first.

        Args:
            limit: The most events.
            before: Only events with lower numbers.
            since: Only those from this time on, in seconds since 1970.

        Raises:
            ConfigurationError: An event is not one that this version wrote.
            RecordsUnavailableError: The database does not answer.
        """
        asked = _NEWEST.bindparams(
            before=_END if before is None else before, since=int(since * 1e6), limit=limit
        )
        (rows,) = await self.rows(asked)
        return await asyncio.to_thread(_make_events, rows)

    async def tail(self, after: int | None = None) -> EventTail:
        """The events after the number `after`; None: after what is there now.

        Raises:
            ConfigurationError: There is no event `after` yet.
            RecordsUnavailableError: The database does not answer.
        """
        runs, ((last,),) = await self.rows(_RUNS.bindparams(limit=_MOST_RUNS), _LAST)
        start = last if after is None else after
        if start is not None and start > (last or 0):
            raise ConfigurationError(
                f"there is no event {start}: the newest is {last or 0}; go on after {last or 0}, "
                "or leave the number out"
            )
        spans = [_Span(below or 0, first) for first, below in runs if first - 1 <= (start or 0)]
        return EventTail(self, [_Span(start), *spans])

    def whole_tail(self) -> EventTail:
        """All that is there, from the oldest on, and what follows."""
        return EventTail(self, [_Span(None)])

    async def rows(self, *statements: Any) -> list[Sequence[Any]]:
        """The rows that each statement gives, all of one moment.

        Raises:
            RecordsUnavailableError: The database does not answer.
        """
        return await (await self._open_reader()).rows(*statements)

    async def is_replaced(self) -> bool:
        """Whether there is another file now in the place of the one that is asked."""
        found = await asyncio.to_thread(self._file_identity)
        return found is not None and found != self._file

    async def close(self) -> None:
        """Gives up the connections; the next question makes new ones."""
        reader, self._reader = self._reader, None
        if reader is not None:
            await reader.close()

    @property
    def _is_file(self) -> bool:
        return self._address is not None and self._address.kind == "sqlite"

    async def _open_reader(self) -> Reader:
        if self._reader is None:
            if self._address is None:
                self._address = await asyncio.to_thread(Address.of, str(self._url))
            self._file = await asyncio.to_thread(self._file_identity)
            self._reader = Reader(self._address)
        return self._reader

    def _file_identity(self) -> tuple[int, int] | None:
        """Which file it is; None where there is none."""
        if self._address is None or not self._is_file:
            return None
        try:
            found = Path(self._address.place).stat()
        except OSError:
            return None
        return (found.st_dev, found.st_ino)


class EventTail:
    """The events that come, each once; those of one engine in the order of their numbers.

    Made by `EventReader.tail`.

    Args:
        reader: Asks the database.
        spans: Which numbers may come; the first has no end.
    """

    def __init__(self, reader: EventReader, spans: Sequence[_Span]) -> None:
        self._reader = reader
        self._spans = list(spans)
        self._is_moved = False

    @property
    def last(self) -> int:
        """The highest number that was read, or from which on it is read."""
        return self._spans[0].after or 0

    async def read(self, limit: int = 500) -> list[ToolEngineEvent]:
        """What has come since, about `limit` events at most; empty: nothing.

        Raises:
            ConfigurationError: An event is not one that this version wrote.
            EventsExpiredError: Some of what has come is not kept any more.
            RecordsUnavailableError: The database does not answer.
        """
        if await self._reader.is_replaced():
            # What was written before the file was deleted is still in the one that is open.
            events = await self._read_spans(limit)
            if events:
                return events
            await self._reader.close()
            self._is_moved = True
        if self._is_moved:
            (((last,),),) = await self._reader.rows(_LAST)
            if (last or 0) < self.last:
                self._spans = [_Span(None)]  # numbers have begun anew
            self._is_moved = False
        return await self._read_spans(limit)

    async def _read_spans(self, limit: int) -> list[ToolEngineEvent]:
        asked = [
            _BETWEEN.bindparams(after=span.after or 0, until=span.until, limit=limit)
            for span in self._spans
        ]
        ((oldest,),), *found = await self._reader.rows(_OLDEST, *asked)
        after = self._spans[0].after
        if after is not None and oldest is not None and found[0] and after + 1 < oldest:
            raise EventsExpiredError(after, oldest)
        # The lower numbers first: that engine began earlier.
        rows = [row for some in (*found[1:], found[0]) for row in some]
        events = await asyncio.to_thread(_make_events, rows)
        spans = [_advance_spans(span, rows) for span, rows in zip(self._spans, found, strict=True)]
        (newest, *jumps), others = spans[0], [each for some in spans[1:] for each in some]
        self._spans = [newest, *jumps, *others][: _MOST_RUNS + 1]
        return events


def _make_events(rows: Sequence[Any]) -> list[ToolEngineEvent]:
    try:
        return [event_of(row) for row in rows]
    except RecordsUnavailableError as error:  # it will not go away
        raise ConfigurationError(
            f"{error}; read it with the version of tool-engine that the engine has"
        ) from error


def _advance_spans(span: _Span, rows: Sequence[Any]) -> list[_Span]:
    """What may still come after `rows`: beyond them first, then where they have jumped."""
    left: list[_Span] = []
    last = span.after
    for sequence, *_ in rows:
        if last is not None and sequence > last + 1:
            left.append(_Span(last, sequence))
        last = sequence
    return [_Span(last, span.until), *reversed(left)]
