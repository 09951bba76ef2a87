"""When is the database connected, and what happens if that fails?

At the first use, or when the engine starts: there, what only a person can fix is an error.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Sequence,
)
from contextlib import asynccontextmanager
from importlib import import_module
from threading import Lock
from typing import Any, Final, TypeVar

from tool_engine.errors import ConfigurationError, MissingExtraError, RecordsUnavailableError
from tool_engine.forking import disown_in_child
from tool_engine.knowledge.shared_clock import SharedClock
from tool_engine.knowledge.sql.connection.address import Address, explain_error, explain_silence
from tool_engine.knowledge.sql.connection.grouping import Change, ChangeQueue
from tool_engine.knowledge.sql.database_errors import (
    READING,
    BadRowsError,
    BusyError,
    UnusableDatabaseError,
)
from tool_engine.knowledge.sql.schema.rows import Batch
from tool_engine.model.json.copying import refuse_copying
from tool_engine.model.settings.retention import RecordsURL
from tool_engine.redaction import redact_text
from tool_engine.trusted import TrustedPath, database_files, trust_paths

_ROOM: Final = "tool_engine.knowledge.sql"
_TRIES: Final = 5
"""How often a file is asked that another process is writing; each takes about a second."""
_REFUSALS: Final = (sqlite3.Error, OSError, BusyError, BadRowsError, UnusableDatabaseError)
_KINDS: Final = {
    "sqlite": ("sqlite", "SQLiteDatabase", "sql"),
    "postgresql": ("postgres", "PostgresDatabase", "postgres"),
}
"""Per kind of database: module, class, and the extra that brings its libraries."""
_Result = TypeVar("_Result")


@refuse_copying("open the same address again")
class LazyDatabase:
    """A database that is connected when it is needed.

    Args:
        url: Its URL; secrets are not filled in yet.
        is_synchronous: Whether a commit waits until the disk has it.
        stays_with_file: Whether to go on reading the first opened file after it was replaced or
            deleted.
    """

    def __init__(self, url: str, *, is_synchronous: bool, stays_with_file: bool = False) -> None:
        self._url = url
        self._is_synchronous = is_synchronous
        self._stays_with_file = stays_with_file
        self._opening = asyncio.Lock()
        self._queue = ChangeQueue(self._change_file)
        self._loading = Lock()
        self._database: Any = None
        self._is_open = False
        self._is_ended = False
        self._asking = 0
        self._readings: set[asyncio.Task[Any]] = set()
        self._file: tuple[int, int] | None = None
        self._disowned: str | None = None
        self.address: Address | None = None
        """The address; None before the database was opened."""
        self.reader: Any = None
        """The reading connections; None before the database was opened."""
        self.clock = SharedClock(self.read_time)
        """What time it is for all programs that share the database."""
        trust_paths(self)

    def trusted_paths(self) -> Iterable[TrustedPath]:
        """The SQLite files: a tool that writes them could forge history. Blocks."""
        try:
            address = self.address or Address.of(self._url)
        except ConfigurationError:
            return ()
        is_file = address.kind == "sqlite"
        return database_files(address.place, "the engine's database") if is_file else ()

    async def start(self) -> Exception | None:
        """Open the database; return an error that may pass by itself.

        Raises:
            ConfigurationError: The setting or the database has to be changed; the message says how.
            MissingExtraError: Its libraries are not installed.
        """
        try:
            await self.open()
        except (UnusableDatabaseError, sqlite3.Error, socket.gaierror) as error:
            raise ConfigurationError(self._describe_unusable(error)) from error
        except BusyError as error:
            return error
        except OSError as error:
            if self.is_file:
                raise ConfigurationError(self._describe_unusable(error)) from error
            return error
        return None

    async def open(self) -> None:
        """Connect, and create and migrate the tables, unless done already."""
        self.require_own()
        if self._is_open:
            return
        async with self._opening:
            if self._is_open:
                return
            if self._database is None:
                await asyncio.to_thread(self._load_database)
            await self._database.open()
            self._file = await self._file_now()
            self._is_open = True

    @asynccontextmanager
    async def asked(self, failing: str = READING, *, looks: bool = True) -> AsyncIterator[Any]:
        """Yield the reading side; after `end` it stays open only for this block.

        Args:
            failing: The error's message, with `{place}` and `{reason}` in it.
            looks: Whether to look first if the file was replaced.

        Raises:
            RecordsUnavailableError: The database does not answer.
        """
        self._asking += 1
        try:
            try:
                if looks:
                    await self._reopen_if_replaced()
                await self.open()
            except Exception as error:
                raise RecordsUnavailableError(
                    failing.format(place=self._shown_url, reason=explain_silence(error))
                ) from error
            yield self.reader
        except RecordsUnavailableError:
            # Whatever failed, the tables are checked again before the next try.
            self._is_open = False
            raise
        finally:
            await self._leave_database()

    async def execute(self, failing: str, *statements: Any) -> list[Any]:
        """Make the changes of statements that hold their values; see `change`.

        Raises:
            RecordsUnavailableError: The database does not take it: nothing was changed.
        """
        self.require_own()
        if not self._is_open:
            async with self.asked(failing):
                pass
        from tool_engine.knowledge.sql.changes import Step

        return await self.change([Step(each) for each in statements], failing)

    async def change(
        self,
        steps: Sequence[Any],
        failing: str,
        prepare: Callable[[], Batch | None] | None = None,
        *,
        is_lasting: bool = True,
    ) -> list[Any]:
        """Make all changes, or none, and return what each gave; it is never broken off.

        Into a file those that are asked for at once share a commit.

        Args:
            steps: Each a `tool_engine.knowledge.sql.changes.Step`.
            failing: As for `asked`.
            prepare: Completes the values of the steps in another thread, and returns the calls that
                a file takes in the same transaction.
            is_lasting: Whether the disk has them when this returns, where `durability` promises
                that.

        Raises:
            RecordsUnavailableError: The database does not take it: nothing was changed.
        """
        if self._is_open and self.is_file:
            self.require_own()
            return await self._make_in_file(steps, failing, prepare, is_lasting)
        return await finish_work(self._make_changes(steps, failing, prepare, is_lasting))

    @property
    def is_file(self) -> bool:
        """True if it is known to be a SQLite file."""
        return self.address is not None and self.address.kind == "sqlite"

    @property
    def is_ready(self) -> bool:
        """True if it is open, and took what it was last given."""
        return self._is_open

    async def read(self, statement: Any, failing: str) -> Sequence[Any]:
        """Return the rows that a statement gives.

        A caller that is cancelled does not wait for them; they are read all the same, since a
        connection that is left in the middle is closed some time, when the loop may be gone.

        Raises:
            RecordsUnavailableError: The database does not answer.
        """

        async def ask() -> Sequence[Any]:
            async with self.asked(failing) as reader:
                (rows,) = await reader.rows(statement, failing=failing)
            found: Sequence[Any] = rows
            return found

        reading = asyncio.ensure_future(ask())
        self._readings.add(reading)
        reading.add_done_callback(self._forget_reading)
        return await asyncio.shield(reading)

    async def read_time(self) -> float | None:
        """Return the time that all who share the database agree on, Unix time in seconds.

        None where that is not known: then each goes on from its own.

        Raises:
            RecordsUnavailableError: The database does not answer.
        """
        async with self.asked(looks=False):
            asking = import_module(f"{_ROOM}.connection.shared_time")
        time: float | None = await asking.read_time(self)
        return time

    async def finish(self, limit: float) -> None:
        """Close the reading side, after what is still read for callers that are gone.

        Args:
            limit: Seconds to wait for that at most.
        """
        self.end()
        if self._readings:
            await asyncio.wait(self._readings, timeout=limit)
        self._queue.close()
        await self.close_reader()

    def _forget_reading(self, reading: asyncio.Task[Any]) -> None:
        self._readings.discard(reading)
        if not reading.cancelled():
            # Read, so that it is not reported as lost.
            reading.exception()

    async def _make_changes(
        self,
        steps: Sequence[Any],
        failing: str,
        prepare: Callable[[], Batch | None] | None,
        is_lasting: bool,
    ) -> list[Any]:
        async with self.asked(failing, looks=False) as reader:
            if self.is_file:
                return await self._make_in_file(steps, failing, prepare, is_lasting)
            from tool_engine.knowledge.sql.changes import run_step

            if prepare is not None:
                await asyncio.to_thread(prepare)
            async with reader.connection(failing) as connection:
                return [await run_step(connection, step) for step in steps]

    async def _make_in_file(
        self,
        steps: Sequence[Any],
        failing: str,
        prepare: Callable[[], Batch | None] | None,
        is_lasting: bool,
    ) -> list[Any]:
        from tool_engine.knowledge.sql.changes import Done, write_for_sqlite

        change = Change([write_for_sqlite(step) for step in steps], prepare, is_lasting)
        await self._wait_for_file(self._queue.make(change), failing)
        return [Done(rows, changed) for rows, changed in change.found]

    async def _wait_for_file(self, writing: Awaitable[None], failing: str) -> None:
        """Wait for what is written to a file that is open; as `asked` does, in one step."""
        self._asking += 1
        try:
            await writing
        except _REFUSALS as error:
            self._is_open = False
            raise RecordsUnavailableError(
                failing.format(place=self._shown_url, reason=explain_silence(error))
            ) from error
        finally:
            await self._leave_database()

    async def _leave_database(self) -> None:
        self._asking -= 1
        if self._is_ended and not self._asking:
            await self.close()
            await self.close_reader()

    def _change_file(self, changes: Sequence[Change]) -> None:
        """Make changes in a file, in the thread that writes them."""
        tries = 1
        while True:
            try:
                self._database.change(changes)
            except BusyError:
                if tries == _TRIES:
                    raise
                tries += 1
            else:
                return

    def disown(self, reason: str) -> None:
        """Stop using the connections: they belong to the process before a fork."""
        self._disowned = f"the database cannot be used here: {reason}"

    def require_own(self) -> None:
        """Raise RecordsUnavailableError in a process forked after the opening."""
        if self._disowned is not None:
            raise RecordsUnavailableError(self._disowned)

    def end(self) -> None:
        """Close connections as soon as they are unused, from now on."""
        self._is_ended = True

    def prepare(self, batch: Batch) -> None:
        """Prepare in advance the part of a write that needs no connection."""
        if self._database is not None:
            self._database.prepare(batch)

    async def write(self, batch: Batch) -> None:
        """Write and commit all rows or none, in the writer's own event loop."""
        self.require_own()
        if self._database is None:
            await asyncio.to_thread(self._load_database)
        await self._database.write(batch)

    async def close(self) -> None:
        """Close the writing side; it may be opened again."""
        self._queue.close()
        if self._database is not None and self._disowned is None:
            await self._database.close()

    async def close_reader(self) -> None:
        self._is_open = False
        if self.reader is not None and self._disowned is None:
            await self.reader.close()

    async def _reopen_if_replaced(self) -> None:
        """Reopen a replaced file: the deleted one would go on answering."""
        if self._stays_with_file or not self._is_open:
            return
        if await self._file_now() != self._file:
            await self.close_reader()

    async def _file_now(self) -> tuple[int, int] | None:
        """Return the file's identity; None: no file is there, or it is a server."""
        if self.address is None or not self.is_file:
            return None
        try:
            found = await asyncio.to_thread(os.stat, self.address.place)
        except OSError:
            return None
        return (found.st_dev, found.st_ino)

    @property
    def _shown_url(self) -> str:
        return repr(RecordsURL(self._url))

    def _load_database(self) -> None:
        with self._loading:
            if self._database is None:
                self._load_once()

    def _load_once(self) -> None:
        address = Address.of(self._url)
        module, name, extra = _KINDS[address.kind]
        try:
            writing = import_module(f"{_ROOM}.writing.{module}")
            reading = import_module(f"{_ROOM}.reader")
            for each in ("queries", "retention", "summing"):
                import_module(f"{_ROOM}.{each}")
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("tool_engine"):
                raise
            raise MissingExtraError(
                f"records in {address.kind} need {error.name}; run: "
                f"pip install 'tool-engine[{extra}]'"
            ) from error
        self.address = address
        self.reader = reading.Reader(address)
        self._database = getattr(writing, name)(address, is_synchronous=self._is_synchronous)
        disown_in_child(self)

    def _describe_unusable(self, error: Exception) -> str:
        place = "the database" if self.address is None else self.address.shown
        is_told = isinstance(error, UnusableDatabaseError)
        reason = redact_text(str(error)) if is_told else explain_error(error)
        return f"records: {place} cannot be used: {reason}; make it usable, or name another one"


async def finish_work(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Do work to its end; a caller that is cancelled meanwhile waits for that."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            # Read, so that it is not reported as lost.
            task.exception()
        raise
