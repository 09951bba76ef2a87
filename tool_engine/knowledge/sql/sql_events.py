"""How does a database keep events, so that another process can go on where this one stopped?

Events are appended to a buffer and written behind the calls. Numbers go on where the last engine
stopped, and never twice: an engine takes a block of numbers when it opens, and gives back what it
did not use when it closes. After a crash the rest of a block is left out.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from contextvars import Context
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, Final

import msgspec

from tool_engine.errors import (
    ConfigurationError,
    EventsExpiredError,
    RecordsUnavailableError,
)
from tool_engine.interfaces import EventLife
from tool_engine.knowledge.sql.connection.address import explain_error
from tool_engine.knowledge.sql.connection.opening import LazyDatabase
from tool_engine.knowledge.sql.schema.event_rows import event_of, row_of
from tool_engine.logger import get_logger
from tool_engine.model.checks.bounds import check_count
from tool_engine.model.event import ToolEngineEvent
from tool_engine.model.json.copying import refuse_copying
from tool_engine.model.settings.retention import RecordsURL

_log: Final = get_logger(__name__)
BLOCK: Final = 10_000_000_000
"""Numbers that an engine takes at once: ten thousand a second for eleven days."""
_MOST_LIVES: Final = 200
"""Engines of which it is known which events they had: the newest."""
_MOST_WAITING: Final = 50_000
_BATCH: Final = 1_000
_BATCH_SIZE: Final = 1 << 20
"""Bytes after which a batch is written: outputs may be large."""
_INTERVAL: Final = 0.05
"""Seconds that an event waits for others to be written with it."""
_LONGEST_PAUSE: Final = 2.0
_CLOSE_LIMIT: Final = 5.0
_PATIENCE: Final = 10.0
_TOO_LATE: Final = (
    f"the database has not taken them for {_PATIENCE:g} s: another process holds it locked, or it "
    "does not answer"
)
_NOT_TAKEN: Final = "the events in {place} cannot be kept: {reason}"
_RESERVE: Final = (
    "INSERT INTO tool_event_numbers (id, reserved) VALUES (1, :block) ON CONFLICT (id) "
    "DO UPDATE SET reserved = tool_event_numbers.reserved + :block RETURNING reserved"
)
_GIVE_BACK: Final = (
    "UPDATE tool_event_numbers SET reserved = :newest WHERE id = 1 AND reserved = :end"
)
_INSERT: Final = (
    "INSERT INTO tool_events (sequence, event_type, happened_at, body) "
    "VALUES (:sequence, :event_type, :happened_at, :body) ON CONFLICT DO NOTHING"
)
_READ: Final = (
    "SELECT sequence, event_type, happened_at, body FROM tool_events "
    "WHERE sequence > :after AND sequence <= :newest ORDER BY sequence LIMIT :limit"
)
_READ_CALL: Final = (
    "SELECT sequence, event_type, happened_at, body FROM tool_events "
    "WHERE sequence > :after AND {has_words} ORDER BY sequence LIMIT :limit"
)
_HAS_WORDS: Final = {
    "sqlite": "instr(body, :words) > 0",
    "postgresql": "position(CAST(:words AS bytea) IN body) > 0",
}
_KEEP_RESERVED: Final = (
    "INSERT INTO tool_event_numbers (id, reserved) VALUES (1, :end) ON CONFLICT (id) DO NOTHING"
)
_BEGIN_LIFE: Final = (
    "INSERT INTO tool_event_lives (first) VALUES (:first) ON CONFLICT (first) "
    "DO UPDATE SET last = NULL"
)
_END_LIFE: Final = "UPDATE tool_event_lives SET last = :last WHERE first = :first"
_FORGET_LIVES: Final = (
    "DELETE FROM tool_event_lives WHERE first <= "
    "(SELECT first FROM tool_event_lives ORDER BY first DESC LIMIT 1 OFFSET :most)"
)
_LIVES: Final = "SELECT first, last FROM tool_event_lives WHERE first <> :own ORDER BY first"
_NEWEST: Final = "SELECT max(sequence) FROM tool_events"
_OLDEST: Final = "SELECT min(sequence) FROM tool_events"
# By time: of two engines at once one has all the higher numbers.
_OLDEST_TO_KEEP: Final = (
    "SELECT happened_at, sequence FROM tool_events "
    "ORDER BY happened_at DESC, sequence DESC LIMIT 1 OFFSET :more"
)
_PRUNE: Final = "DELETE FROM tool_events WHERE (happened_at, sequence) < (:happened_at, :sequence)"


@refuse_copying("open the same address again")
class SQLEventStorage:
    """Keeps the newest events in a SQLite file or a PostgreSQL database.

    An event that comes from there has no `tool`; its name, version and hash are there. One engine
    at a time is meant to keep its events in a database: another one gets numbers of its own, and a
    reader hears what happens live in its own engine only.

    Args:
        url: The URL of the database; see the setting `records`.
        max_events: About how many are kept; the oldest go first.

    Raises:
        ConfigurationError: The URL is wrong, or `max_events` is less than 1.

    Example:
        >>> storage = SQLEventStorage("sqlite:///calls.db", 100_000)
    """

    goes_on = True

    def __init__(self, url: str, max_events: int = 100_000) -> None:
        check_count("max_events", max_events, minimum=1)
        self.newest: int | None = None
        """The highest number that was given out; None until it is open."""
        self.first = 1
        """The number with which this engine begins, once it is open."""
        self.process: str | None = None
        """The name of this process, which its events bear."""
        self.dropped = 0
        """Events that had to go before they were written."""
        self.is_failing = False
        """Whether the database did not take the last batch."""
        self._database = LazyDatabase(str(RecordsURL(url)), is_synchronous=False)
        self._max_events = max_events
        self._end = 0
        self._waiting: deque[ToolEngineEvent] = deque()
        self._lock = Lock()
        self._bell = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_closing = False
        self._unpruned = 0
        self._file: tuple[int, int] | None = None

    def __repr__(self) -> str:
        state = "closed" if self._is_closing else "failing" if self.is_failing else "writing"
        return f"<SQLEventStorage {state}, {len(self._waiting)} waiting, newest {self.newest}>"

    async def open(self) -> None:
        """Connects, and takes the numbers that follow those of the engine before.

        Raises:
            ConfigurationError: The database cannot be used.
            RecordsUnavailableError: It does not answer now.
            MissingExtraError: Its libraries are not installed.
        """
        if self.newest is not None:
            return
        problem = await self._database.start()
        if problem is not None:
            raise RecordsUnavailableError(
                f"events go on where they stopped, and the database cannot be asked where: "
                f"{explain_error(problem)}; start it, or leave out keep_events"
            )
        try:
            newest = await self._take_numbers()
            self.first = newest + 1
            await self._begin_life()
            await self._execute_statement(_FORGET_LIVES, {"most": _MOST_LIVES})
            self.newest = newest
        except BaseException:
            await self._close_database()  # an engine that has not opened closes nothing
            raise

    async def _take_numbers(self) -> int:
        self._file = await asyncio.to_thread(self._file_identity)
        ((self._end,),) = await self._fetch_rows(_RESERVE, block=BLOCK)
        ((newest,),) = await self._fetch_rows(_NEWEST)
        last = newest or 0
        # What it gave out from there would be taken for events that are kept already.
        if type(self._end) is not int or not last <= self._end - BLOCK:
            raise RecordsUnavailableError(
                f"the row of tool_event_numbers is damaged: it says {self._end - BLOCK}, and event "  # noqa: S608 - a message
                f"{last} is kept; UPDATE tool_event_numbers SET reserved = {last} WHERE id = 1"
            )
        return self._end - BLOCK

    def append(self, event: ToolEngineEvent) -> None:
        """Keeps one event; never waits, never raises."""
        sequence = event.sequence or 0
        with self._lock:
            if sequence > self._end or self._is_closing:
                self._drop_events(
                    1
                )  # the block is used up, and what follows may be another engine's
                return
            self.newest = sequence
            self._waiting.append(event)
            if len(self._waiting) > _MOST_WAITING:
                self._waiting.popleft()
                self._drop_events(1)
            if len(self._waiting) == 1 or self._loop is None or self._loop.is_closed():
                self._ensure_writing()

    async def read(self, after: int, limit: int) -> Sequence[ToolEngineEvent]:
        """The events that follow number `after`, oldest first, at most `limit`.

        Raises:
            EventsExpiredError: Some of them are not kept any more.
            ConfigurationError: There is no event `after` yet.
            RecordsUnavailableError: The database does not answer.
        """
        newest = self.newest or 0
        if after > newest:
            raise ConfigurationError(
                f"there is no event {after}: the newest is {newest}; go on after {newest}, or "
                "leave the number out"
            )
        # First what is not written: an event that is written meanwhile is found in the database.
        with self._lock:
            waiting = self._waiting_after(after, limit)
        if waiting and waiting[0].sequence == after + 1:
            return waiting
        rows = await self._fetch_rows(_READ, after=after, newest=newest, limit=limit)
        if not rows or rows[0][0] != after + 1:
            await self._check_kept(after, newest)
        found = await asyncio.to_thread(lambda: list(map(event_of, rows)))
        if len(found) < limit:
            last = found[-1].sequence or 0 if found else after
            found += [each for each in waiting if (each.sequence or 0) > last]
        return self._cut_at_hole(after, found[:limit])

    def _cut_at_hole(self, after: int, found: list[ToolEngineEvent]) -> list[ToolEngineEvent]:
        """Return the events up to the first one of this engine that had to go."""
        last = after
        for place, event in enumerate(found):
            number = event.sequence or 0
            if last + 1 < number and self.first <= last + 1:
                if place == 0:
                    raise EventsExpiredError(after, number)
                return found[:place]
            last = number
        return found

    async def list_lives(self) -> list[EventLife]:
        """The numbers of the other engines of this database, lowest first.

        Raises:
            RecordsUnavailableError: The database does not answer.
        """
        lives = [EventLife(*row) for row in await self._fetch_rows(_LIVES, own=self.first)]
        ((oldest,),) = await self._fetch_rows(_OLDEST)
        if oldest is not None and oldest < min([self.first, *(each.first for each in lives)]):
            lives.insert(0, EventLife(1, None))  # of before lives were written down
        return lives

    async def read_life(self, after: int, until: int, limit: int) -> Sequence[ToolEngineEvent]:
        """The kept events with numbers above `after` up to `until`, oldest first.

        Raises:
            RecordsUnavailableError: The database does not answer.
        """
        rows = await self._fetch_rows(_READ, after=after, newest=until, limit=limit)
        return await asyncio.to_thread(lambda: list(map(event_of, rows)))

    async def read_call(self, call_id: str, limit: int) -> Sequence[ToolEngineEvent]:
        """The events of a call, oldest first, at most `limit`.

        Raises:
            RecordsUnavailableError: The database does not answer.
        """
        # First what is not written: an event that is written meanwhile is found in the database.
        with self._lock:
            waiting = list(self._waiting)
        events = {each.sequence: each for each in waiting if each.call_id == call_id}
        address = self._database.address
        words = b'"call_id":' + msgspec.json.encode(call_id)
        after = 0 if address is not None else None
        while address is not None and after is not None:
            statement = _READ_CALL.format(has_words=_HAS_WORDS[address.kind])
            rows = await self._fetch_rows(statement, words=words, limit=_BATCH, after=after)
            found = await asyncio.to_thread(lambda some: list(map(event_of, some)), rows)
            # The words may stand in values too: which call an event is of is said by the event.
            events |= {each.sequence: each for each in found if each.call_id == call_id}
            after = rows[-1][0] if len(rows) == _BATCH else None
        return sorted(events.values(), key=lambda each: each.sequence or 0)[:limit]

    async def close(self) -> None:
        """Writes what is left, for 5 seconds at most, and gives back the unused numbers."""
        if self._is_closing:
            return
        self._is_closing = True
        task, self._task = self._task, None
        self._bell.set()
        if task is not None and self._loop is asyncio.get_running_loop():
            await asyncio.wait([task], timeout=_CLOSE_LIMIT)
            task.cancel()
            await asyncio.wait([task])
        try:
            if self.newest is not None and not self.is_failing:
                with suppress(RecordsUnavailableError, ConfigurationError):
                    await self._write_waiting()
                    await self._execute_statement(
                        _GIVE_BACK, {"newest": self.newest, "end": self._end}
                    )
                    await self._execute_statement(
                        _END_LIFE, {"first": self.first, "last": self.newest}
                    )
        finally:
            self._drop_events(len(self._waiting))
            await self._close_database()

    def _waiting_after(self, after: int, limit: int) -> list[ToolEngineEvent]:
        if not self._waiting:
            return []
        # They are numbered one by one: what was let go came before all of them.
        start = max(0, after + 1 - (self._waiting[0].sequence or 0))
        return list(islice(self._waiting, start, start + limit))

    async def _check_kept(self, after: int, newest: int) -> None:
        ((oldest,),) = await self._fetch_rows(_OLDEST)
        if oldest is None:
            with self._lock:
                oldest = self._waiting[0].sequence if self._waiting else newest + 1
        if after + 1 < oldest and after < newest:
            raise EventsExpiredError(after, oldest)

    def _ensure_writing(self) -> None:
        """Sees to it that a task writes what waits; with the lock held."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        if self._loop is not None and not self._loop.is_closed():
            if loop is self._loop:
                self._bell.set()
            else:
                self._loop.call_soon_threadsafe(self._bell.set)
        elif loop is not None and not self._is_closing:
            self._loop, self._bell = loop, asyncio.Event()
            self._bell.set()
            # Not in the context of the call that came first, which nothing must keep alive.
            self._task = loop.create_task(
                self._run_writing(), name="tool-engine-events", context=Context()
            )

    async def _run_writing(self) -> None:
        pause = _INTERVAL
        while not self._is_closing:
            await self._bell.wait()
            self._bell.clear()
            await self._wait_for_more(pause)
            try:
                await self._write_waiting()
                pause = _INTERVAL
            except (RecordsUnavailableError, ConfigurationError) as error:
                self._report_failure(str(error))
                pause = min(pause * 2, _LONGEST_PAUSE)
                self._bell.set()

    def _report_failure(self, reason: str) -> None:
        """Says once that the database does not take events, or has not for too long."""
        if not self.is_failing:
            self.is_failing = True
            _log.error("events_not_written", error=reason, waiting=len(self._waiting))

    async def _wait_for_more(self, seconds: float) -> None:
        """Lets more events come, but for the last ones."""
        left = seconds
        while left > 0 and not self._is_closing:
            await asyncio.sleep(min(left, _INTERVAL))
            left -= _INTERVAL

    async def _write_waiting(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            # For each batch: where more come all the time, there is always one to be written.
            late = loop.call_later(_PATIENCE, self._report_failure, _TOO_LATE)
            try:
                await self._write_batch()
            finally:
                late.cancel()
            if self.is_failing:
                self.is_failing = False
                _log.warning("events_written_again", dropped=self.dropped)

    async def _write_batch(self) -> None:
        with self._lock:
            batch = list(islice(self._waiting, _BATCH))
        await self._look_for_file()
        rows = await asyncio.to_thread(_make_rows, batch, self.process)
        await self._execute_statement(_INSERT, rows)
        self._unpruned += len(rows)
        if self._unpruned >= min(_BATCH, self._max_events):
            self._unpruned = 0
            await self._prune_events()
        with self._lock:
            # What waited longest may have been let go meanwhile.
            last = rows[-1]["sequence"]
            while self._waiting and (self._waiting[0].sequence or 0) <= last:
                self._waiting.popleft()

    async def _prune_events(self) -> None:
        for time, sequence in await self._fetch_rows(_OLDEST_TO_KEEP, more=self._max_events - 1):
            oldest = {"happened_at": time, "sequence": sequence}
            await self._execute_statement(_PRUNE, oldest)

    async def _look_for_file(self) -> None:
        """A file that was deleted or replaced would go on taking rows that no reader ever sees."""
        if await asyncio.to_thread(self._file_identity) != self._file:
            await self._close_database()
            problem = await self._database.start()
            if problem is not None:
                raise RecordsUnavailableError(explain_error(problem))
            self._file = await asyncio.to_thread(self._file_identity)
            await self._execute_statement(_KEEP_RESERVED, {"end": self._end})
            await self._begin_life()

    async def _begin_life(self) -> None:
        await self._execute_statement(_BEGIN_LIFE, {"first": self.first})

    async def _close_database(self) -> None:
        try:
            await self._database.close()
        finally:
            await self._database.close_reader()

    def _file_identity(self) -> tuple[int, int] | None:
        """Which file it is; None where there is none."""
        address = self._database.address
        if address is None or address.kind != "sqlite":
            return None
        try:
            found = Path(address.place).stat()
        except OSError:
            return None
        return (found.st_dev, found.st_ino)

    def _drop_events(self, count: int) -> None:
        if count and not self.dropped:
            _log.error("events_dropped", waiting=len(self._waiting))
        self.dropped += count

    async def _fetch_rows(self, statement: str, **values: Any) -> list[Any]:
        from sqlalchemy import text

        self._database.require_own()
        async with self._database.reader.connection() as connection:
            return list((await connection.execute(text(statement), values)).fetchall())

    async def _execute_statement(self, statement: str, values: Any) -> None:
        from sqlalchemy import text

        self._database.require_own()
        if self._database.is_file:
            # In turn with all others of this process who write the file.
            from tool_engine.knowledge.sql.changes import Step

            rows = values if isinstance(values, list) else [values]
            steps = [Step(text(statement), row) for row in rows]
            await self._database.change(steps, _NOT_TAKEN, is_lasting=False)
            return
        async with self._database.reader.connection() as connection:
            await connection.execute(text(statement), values)


def _make_rows(events: list[ToolEngineEvent], process: str | None) -> list[dict[str, Any]]:
    """Return the rows of the first events, so many as are written at once."""
    rows: list[dict[str, Any]] = []
    size = 0
    for event in events:
        rows.append(row_of(event, process))
        size += len(rows[-1]["body"])
        if size >= _BATCH_SIZE:
            break
    return rows
