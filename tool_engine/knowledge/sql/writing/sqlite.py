"""How is a SQLite file brought to this version, and how are rows written into it?

Beside the thread of the calls, through one connection, in write-ahead mode: readers and the writer
do not wait for one another, and a process that is killed loses nothing that was committed.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Final, TypeVar

from tool_engine.knowledge.sql.connection.address import Address
from tool_engine.knowledge.sql.connection.grouping import Change
from tool_engine.knowledge.sql.connection.turns import identify_file, turn_of
from tool_engine.knowledge.sql.database_errors import (
    BadRowsError,
    BusyError,
    UnusableDatabaseError,
)
from tool_engine.knowledge.sql.schema.counting import STATISTICS, count_rows
from tool_engine.knowledge.sql.schema.keys import KEY_STEP
from tool_engine.knowledge.sql.schema.rows import Batch, merge_batches
from tool_engine.knowledge.sql.schema.schema import (
    COLUMNS,
    FRESH,
    IDENTITY,
    MIGRATIONS,
    TABLES,
    check_version,
    identity_of,
    list_statements,
)
from tool_engine.knowledge.sql.writing.bulk import STATEMENTS, BulkInsert, insert_rows

_T = TypeVar("_T")
_BUSY_WAIT: Final = 1.0
"""Seconds for which SQLite itself waits for a lock, during which the thread is held."""
_LAST_WAIT: Final = 100
"""Milliseconds for which the end waits for those who read."""
_TRIES: Final = 1_000
_FILES: Final = 5
"""Files that a batch is written into at most, should one after the other be taken away."""
_INSERT_ONE: Final = (
    f"INSERT INTO tool_calls ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))}) "  # noqa: S608 - names of columns
    "ON CONFLICT DO NOTHING"
)
_INSERT_VALUE: Final = (
    "INSERT INTO tool_values (hash, size, used_at, data) VALUES (?, ?, ?, ?) "  # noqa: S608 - a number
    "ON CONFLICT (hash) DO UPDATE SET used_at = excluded.used_at "
    f"WHERE tool_values.used_at < excluded.used_at - {FRESH}"
)
_INSERT_DEFINITION: Final = (
    "INSERT INTO tool_definitions (id, tool_name, version, definition_hash, origin) "
    "VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
_INSERT_PROCESS: Final = (
    "INSERT INTO tool_processes (engine, process, noted_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
)
_ADD_TO_STATISTICS: Final = (
    "ON CONFLICT DO UPDATE SET calls = calls + excluded.calls, "
    "seconds = seconds + excluded.seconds, largest = max(largest, excluded.largest), "
    "newest = max(newest, excluded.newest)"
)
_VERSION: Final = (
    "SELECT CAST(max(version) AS INTEGER), max(typeof(version) <> 'integer' OR version < 0) "
    "FROM tool_engine_schema"
)
_SETTINGS: Final = (
    # Takes effect on a new file only; what retention frees goes back to the disk.
    "PRAGMA auto_vacuum = INCREMENTAL",
    "PRAGMA journal_mode = WAL",
    # What is written again and again goes from the log into the file once in a while only.
    "PRAGMA wal_autocheckpoint = 16000",
    "PRAGMA journal_size_limit = 67108864",
    "PRAGMA cache_size = -32000",
)


class SQLiteDatabase:
    """Writes to one SQLite file.

    Args:
        address: The file; it and its folder are made where they are missing.
        is_synchronous: Whether a commit waits until the disk has it, so that it also survives a
            loss of power.
    """

    def __init__(self, address: Address, *, is_synchronous: bool) -> None:
        self._path = Path(address.place)
        self._synchronous = "FULL" if is_synchronous else "NORMAL"
        self._connection: sqlite3.Connection | None = None
        self._level = ""
        """How a commit waits for the disk by now."""
        self._file: tuple[int, int] = (0, 0)
        self._turn = Lock()
        """Held by who writes the file in this process; see `turn_of`."""
        self._calls = BulkInsert("tool_calls", COLUMNS, "ON CONFLICT DO NOTHING")
        self._statistics = BulkInsert("tool_statistics", STATISTICS, _ADD_TO_STATISTICS)
        # A write that was given up may still be under way in its thread.
        self._lock = Lock()

    async def open(self) -> None:
        """Opens the file and brings its tables up to date.

        Raises:
            UnusableDatabaseError: It is no database, or none that this version can write.
            BusyError: Another process holds it locked.
            sqlite3.Error: It cannot be opened now.
            OSError: It cannot be made.
        """
        await asyncio.to_thread(self._run_locked, self._open_file)

    def prepare(self, batch: Batch) -> None:
        """Makes the statements that write the batch; in any thread, before `write`."""
        counts = count_rows(batch.rows)
        batch.prepared = (self._calls.statements(batch.rows), self._statistics.statements(counts))

    async def write(self, batch: Batch) -> None:
        """Writes and commits all rows, or none."""
        await asyncio.to_thread(self._run_locked, self._write_batch, batch)

    def change(self, changes: Sequence[Change]) -> None:
        """Makes and commits all changes, or none, and notes what each of their steps gave."""
        self._run_locked(self._make_changes, changes)

    async def close(self) -> None:
        """Closes the file; it may be opened again."""
        connection = self._connection
        # Where nothing is under way it would keep SQLite from emptying the log.
        if connection is not None and self._lock.locked():
            connection.interrupt()
        await asyncio.to_thread(self._run_locked, self._end_file)

    def _run_locked(self, step: Callable[..., _T], *args: Any) -> _T:
        with self._lock, _translate_errors():
            return step(*args)

    def _open_file(self) -> None:
        self._close_connection()
        self._make_file()
        connection = sqlite3.connect(
            self._path,
            timeout=_BUSY_WAIT,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=STATEMENTS,
        )
        try:
            for setting in _SETTINGS:
                connection.execute(setting)
            self._calls.most_values = connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER)
            _migrate_schema(connection)
        except BaseException:
            connection.close()
            raise
        # What is no UTF-8 is the matter of its row.
        connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
        self._connection = connection
        self._file = identify_file(self._path)
        self._turn = turn_of(self._file)

    def _make_file(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # No other user may read what was called. SQLite gives its other files the same mode.
        with suppress(FileExistsError):
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))

    def _end_file(self) -> None:
        """Closes with everything in the file itself, so that a copy of it alone has all."""
        connection = self._connection
        if connection is not None:
            # Others may have the file open, and be reading: the last one to close it does the rest.
            with suppress(sqlite3.Error):
                connection.execute(f"PRAGMA busy_timeout = {_LAST_WAIT}")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._close_connection()

    def _close_connection(self) -> None:
        connection, self._connection, self._level = self._connection, None, ""
        if connection is not None:
            connection.close()

    def _write_batch(self, batch: Batch) -> None:
        self._commit_safely(lambda connection: self._insert_rows(connection, batch), True)

    def _make_changes(self, changes: Sequence[Change]) -> None:
        prepared = [change.prepare() for change in changes if change.prepare is not None]
        batches = [batch for batch in prepared if batch is not None and batch.rows]
        batch = merge_batches(batches) if batches else None
        if batch is not None:
            self.prepare(batch)

        def work(connection: sqlite3.Connection) -> None:
            if batch is not None:
                # First: where one of them is there already, the transaction begins again.
                self._insert_rows(connection, batch)
            for change in changes:
                change.found = _run_steps(connection, change.steps)

        self._commit_safely(work, any(change.is_lasting for change in changes))

    def _commit_safely(self, work: Callable[[sqlite3.Connection], _T], is_lasting: bool) -> _T:
        # A file that was deleted or replaced goes on taking rows that no reader will ever see, also
        # while this batch is on its way into it.
        for _ in range(_FILES):
            if self._connection is None:
                self._open_file()
            self._set_level(self._synchronous if is_lasting else "NORMAL")
            done = self._commit_work(work)
            if self._file == identify_file(self._path):
                return done
            self._close_connection()
        raise sqlite3.OperationalError("the file is deleted or replaced again and again")

    def _commit_work(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        connection = self._connection
        if connection is None:
            raise sqlite3.OperationalError("the file is not open")
        with self._turn:
            try:
                connection.execute("BEGIN IMMEDIATE")
                done = work(connection)
                connection.execute("COMMIT")
            except BaseException as error:
                self._roll_back(connection, error)
                raise
        return done

    def _set_level(self, level: str) -> None:
        """Have commits wait for the disk or not; with one that does it has all before it, too."""
        if self._connection is not None and self._level != level:
            self._connection.execute(f"PRAGMA synchronous = {level}")
            self._level = level

    def _insert_rows(self, connection: sqlite3.Connection, batch: Batch) -> None:
        if batch.prepared is None:
            self.prepare(batch)
        calls, statistics = batch.prepared
        _insert_definitions(connection, batch)
        if insert_rows(connection, calls, batch.under_way) < len(batch.rows):
            # One by one, to know which of them are there already.
            connection.execute("ROLLBACK")
            connection.execute("BEGIN IMMEDIATE")
            _insert_definitions(connection, batch)
            new = [row for row in batch.rows if _insert_beside(connection, row)]
            statistics = self._statistics.statements(count_rows(new))
        insert_rows(connection, statistics)

    def _roll_back(self, connection: sqlite3.Connection, error: BaseException) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._close_connection()
        if not isinstance(error, BadRowsError) and not _is_busy(error) and not _is_bad_row(error):
            # Whatever it was, the tables are looked at again before the next try.
            self._close_connection()


def _run_steps(
    connection: sqlite3.Connection, steps: Sequence[tuple[str, Any]]
) -> list[tuple[list[Any], int]]:
    done = []
    for statement, values in steps:
        cursor = connection.execute(statement, values)
        done.append((cursor.fetchall(), cursor.rowcount))
    return done


def _insert_definitions(connection: sqlite3.Connection, batch: Batch) -> None:
    connection.executemany(_INSERT_DEFINITION, batch.definitions.values())
    connection.executemany(_INSERT_PROCESS, batch.processes.values())
    if batch.values:
        connection.executemany(_INSERT_VALUE, batch.values.values())


def _insert_beside(connection: sqlite3.Connection, row: tuple[Any, ...]) -> bool:
    """Inserts a row whose key another one may have, with the next key that is free.

    Returns:
        Whether it was not there yet.
    """
    same = f"SELECT 1 FROM tool_calls WHERE {' AND '.join(f'{name} IS ?' for name in IDENTITY)}"  # noqa: S608 - names of columns
    for _ in range(_TRIES):
        if connection.execute(_INSERT_ONE, row).rowcount:
            return True
        if connection.execute(same, identity_of(row)).fetchone():
            return False
        if row[1] is not None:
            known = "SELECT 1 FROM tool_calls WHERE record_id = ?"
            if connection.execute(known, (row[1],)).fetchone():
                return False
        row = (row[0] + KEY_STEP, *row[1:])
    raise BadRowsError("no key is free near the time of the call")


def _migrate_schema(connection: sqlite3.Connection) -> None:
    if _read_version(connection) == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute("CREATE TABLE IF NOT EXISTS tool_engine_schema (version INTEGER)")
        for statement in list_statements("sqlite", _read_version(connection)):
            _apply_change(connection, statement)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _apply_change(connection: sqlite3.Connection, statement: str) -> None:
    try:
        connection.execute(statement)
    except sqlite3.OperationalError as error:
        # A statement may run again, and SQLite knows no ADD COLUMN IF NOT EXISTS.
        if not str(error).startswith("duplicate column name"):
            raise


def _read_version(connection: sqlite3.Connection) -> int:
    """How many migrations the file had; 0 where a table is missing."""
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    version = 0
    if TABLES[0] in names:
        version, is_odd = connection.execute(_VERSION).fetchone()
        if is_odd:
            raise UnusableDatabaseError(
                "tool_engine_schema does not say of which version its tables are; take the "
                "database from a copy"
            )
    return check_version(version or 0, names)


def _is_busy(error: BaseException) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _is_bad_row(error: BaseException) -> bool:
    if isinstance(error, OverflowError | UnicodeEncodeError):
        return True
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH)


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OverflowError, UnicodeEncodeError) as error:
        if _is_busy(error):
            raise BusyError(str(error)) from error
        if _is_bad_row(error):
            raise BadRowsError(str(error)) from error
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_NOTADB:
            raise UnusableDatabaseError("the file is no SQLite database") from error
        raise
