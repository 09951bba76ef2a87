"""How does a statement run in a SQLite file so that it can do no more than its tool says?

SQLite itself enforces that: the file is opened for reading only, an authorizer refuses what leads
out of the file, and a progress handler ends the statement at its deadline.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote, unquote

import aiosqlite
import msgspec

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.sql.connection_pool import Pool
from tool_engine.executors.sql.rows import Rows
from tool_engine.executors.sql.sql_entry import SQLPlan
from tool_engine.executors.sql.statement import Dialect
from tool_engine.executors.sql.watch import Watch, run_watched

T = TypeVar("T")
_DIALECT: Final = Dialect(
    mark="?",
    member="IN (SELECT value FROM json_each({}))",
    not_member="NOT IN (SELECT value FROM json_each({}))",
)
_STEPS: Final = 2_000
"""Instructions of SQLite's machine between two checks of the clock, some tens of microseconds."""
_BUSY_WAIT: Final = 0.02
"""Seconds that SQLite itself waits for a lock, during which nothing can stop it."""
_ROOM: Final = 4 * 1024 * 1024
"""Bytes of one value beyond the limit of the result."""
_MAX_PATTERN: Final = 1_000
"""Bytes of a pattern of LIKE or GLOB: comparing it with one value never checks the clock, and takes
as long as their lengths multiplied."""
_BATCH: Final = 1_000
_LATE: Final = "the statement ran at its deadline and was ended; nothing of it is kept"

_READING: Final = frozenset(
    {
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
    }
)
_NEVER: Final = frozenset(
    {
        sqlite3.SQLITE_ATTACH,
        sqlite3.SQLITE_DETACH,
        sqlite3.SQLITE_PRAGMA,
        sqlite3.SQLITE_TRANSACTION,
        sqlite3.SQLITE_SAVEPOINT,
        sqlite3.SQLITE_CREATE_VTABLE,
        sqlite3.SQLITE_DROP_VTABLE,
    }
)
_NO_FUNCTION: Final = frozenset(
    {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"}
)


class _Guard:
    """Confines one connection to the statement that runs on it.

    SQLite calls `authorize` and `must_end`, in the thread of the connection.
    """

    def __init__(self, path: str, is_readonly: bool) -> None:
        self._path = path
        self._is_readonly = is_readonly
        self._connection: sqlite3.Connection | None = None
        self._watch: Watch | None = None

    def open(self) -> sqlite3.Connection:
        mode = "ro" if self._is_readonly else "rw"
        connection = sqlite3.connect(
            f"file:{quote(self._path)}?mode={mode}",
            uri=True,
            timeout=_BUSY_WAIT,
            isolation_level=None,
            check_same_thread=False,
            # The authorizer runs at compilation, so a statement is compiled for each call.
            cached_statements=0,
        )
        try:
            if self._is_readonly:
                connection.execute("PRAGMA query_only = 1")
            connection.execute("PRAGMA trusted_schema = 0")
            # Off by default, and a tool cannot switch them on.
            connection.execute("PRAGMA foreign_keys = 1")
            # SQLite makes these at their first use, which the authorizer would refuse.
            connection.execute("SELECT 1 FROM json_each('[]'), json_tree('[]')")
        except BaseException:
            connection.close()
            raise
        connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, _MAX_PATTERN)
        connection.text_factory = _decode_text
        connection.set_authorizer(self.authorize)
        connection.set_progress_handler(self.must_end, _STEPS)
        self._connection = connection
        return connection

    @contextmanager
    def holds(self, watch: Watch, room: int) -> Iterator[None]:
        """Within it, the connection runs a tool's statement, not one of the engine."""
        assert self._connection is not None  # noqa: S101 - `open` comes first
        # Also bounds what a statement builds: no text or blob is ever larger.
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, room)
        self._watch = watch
        try:
            # An interrupt acts at each row, the progress handler only after many of them.
            with watch.interrupting(self._connection.interrupt):
                yield
        finally:
            self._watch = None

    def authorize(self, action: int, first: str | None, second: str | None, *_: object) -> int:
        if self._watch is None:
            return sqlite3.SQLITE_OK
        if action in _NEVER or (self._is_readonly and action not in _READING):
            return sqlite3.SQLITE_DENY
        if action == sqlite3.SQLITE_FUNCTION and str(second).lower() in _NO_FUNCTION:
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK

    def must_end(self) -> bool:
        return self._watch is not None and self._watch.is_over


class _GuardedConnection(aiosqlite.Connection):
    def __init__(self, path: str, is_readonly: bool) -> None:
        self.guard = _Guard(path, is_readonly)
        super().__init__(self.guard.open, iter_chunk_size=64)
        # As SQLAlchemy does for its threads: a program must be able to end.
        self._thread.daemon = True

    def is_fit(self) -> bool:
        return self._connection is not None and not self._connection.in_transaction


class SQLiteDatabase:
    """A file for reading or writing, with at most `pool_size` statements at once."""

    mark = "`"
    """The quote of identifiers. SQLite reads an unknown name in `"` as a text."""

    def __init__(self, name: str, url: str, *, is_readonly: bool, pool_size: int) -> None:
        self._name = name
        path = unquote(url.partition("://")[2][1:])
        self._path = str(Path(path).expanduser().absolute())
        self._is_readonly = is_readonly
        self._pool: Pool[_GuardedConnection] = Pool(
            "sqlite+aiosqlite", self._open_connection, _GuardedConnection.is_fit, pool_size
        )

    async def run(
        self, plan: SQLPlan, params: Mapping[str, Any], chosen: Mapping[str, str], watch: Watch
    ) -> dict[str, Any]:
        sql, names = plan.statement.render(_DIALECT, plan.lists, chosen)
        values = [_bind_value(params.get(name)) for name in names]
        async with self._pool.turn():
            return await run_watched(
                self._run_statement(plan, sql, values, watch), lambda _: watch.stop()
            )

    async def close(self) -> None:
        await self._pool.close()

    async def _open_connection(self) -> _GuardedConnection:
        return await _GuardedConnection(self._path, self._is_readonly)  # type: ignore[return-value]

    async def _run_statement(
        self, plan: SQLPlan, sql: str, values: Sequence[Any], watch: Watch
    ) -> dict[str, Any]:
        try:
            return await _retry_locked(
                lambda: self._attempt_statement(plan, sql, values, watch), watch
            )
        except (sqlite3.Error, sqlite3.Warning, OverflowError) as error:
            raise _explain_error(error, self._name, plan, watch) from None

    async def _attempt_statement(
        self, plan: SQLPlan, sql: str, values: Sequence[Any], watch: Watch
    ) -> dict[str, Any]:
        async with self._pool.connection() as connection:
            try:
                await connection.execute("BEGIN" if self._is_readonly else "BEGIN IMMEDIATE")
                with connection.guard.holds(watch, plan.max_bytes + _ROOM):
                    result = await _fetch_answer(connection, plan, sql, values)
                if not self._is_readonly:
                    if watch.is_over:
                        raise TimeoutError(_LATE)
                    await _retry_locked(connection.commit, watch)
                return result
            finally:
                await connection.rollback()


class _FullError(Exception):
    """No more rows are taken."""


async def _fetch_answer(
    connection: _GuardedConnection, plan: SQLPlan, sql: str, values: Sequence[Any]
) -> dict[str, Any]:
    changed = connection.total_changes
    async with connection.execute(sql, values) as cursor:
        if cursor.description is None:
            is_counted = cursor.rowcount >= 0 or connection.total_changes == changed
            # Python does not count the rows that a statement after WITH has written.
            count = max(cursor.rowcount, 0) if is_counted else await _count_changes(connection)
            return {"row_count": count}
        rows = Rows(plan, [column[0] for column in cursor.description])

        def take(_: object, row: Sequence[Any]) -> None:
            rows.add(row)
            if rows.is_full and plan.is_readonly:
                raise _FullError

        # Called in the thread, row by row: only rows with room in the result are in memory.
        cursor.row_factory = take  # type: ignore[assignment]
        try:
            # A statement that writes runs to its end, however many of its rows are kept.
            while await cursor.fetchmany(_BATCH):
                pass
        except _FullError:
            pass  # the kept rows are enough: `result` says that there are more
        return rows.result(None if plan.is_readonly else rows.count)


async def _count_changes(connection: _GuardedConnection) -> int:
    """Return how many rows the last statement wrote, without those of triggers."""
    async with connection.execute("SELECT changes()") as cursor:
        return sum(row[0] for row in await cursor.fetchall())


async def _retry_locked(step: Callable[[], Awaitable[T]], watch: Watch) -> T:
    """Do `step` as soon as no other connection has locked the file."""
    while True:
        try:
            return await step()
        except sqlite3.OperationalError as error:
            is_busy = (error.sqlite_errorcode & 0xFF) == sqlite3.SQLITE_BUSY
            if not is_busy or watch.is_over:
                raise


def _bind_value(value: Any) -> Any:
    if isinstance(value, list | dict):
        return msgspec.json.encode(value).decode()
    return value


def _decode_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _explain_error(error: Exception, name: str, plan: SQLPlan, watch: Watch) -> Exception:
    if isinstance(error, OverflowError):
        return ToolExecutionError(
            "a number is too large for SQLite; whole numbers go from -2**63 to 2**63 - 1"
        )
    if "pattern too complex" in str(error):
        return ToolExecutionError(
            f"a pattern of LIKE or GLOB is longer than {_MAX_PATTERN} bytes; send a shorter one"
        )
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_INTERRUPT or (code == sqlite3.SQLITE_BUSY and watch.is_over):
        is_busy = code == sqlite3.SQLITE_BUSY
        return TimeoutError(
            _LATE.replace("ran", "was still waiting for a lock" if is_busy else "ran")
        )
    return ToolExecutionError(_make_sentence(error, code, name, plan))


def _make_sentence(error: Exception, code: int, name: str, plan: SQLPlan) -> str:
    if code == sqlite3.SQLITE_CANTOPEN:
        return (
            f"the file of the source {name!r} cannot be opened; it must exist and be readable"
            f"{'' if plan.is_readonly else ', and writable with its folder,'} by the engine's user"
        )
    if code == sqlite3.SQLITE_IOERR:
        return f"the file of the source {name!r} cannot be read or written: {error}"
    if code == sqlite3.SQLITE_NOTADB:
        return f"the file of the source {name!r} is no SQLite database"
    if code == sqlite3.SQLITE_TOOBIG:
        return (
            f"a value is larger than {plan.max_bytes + _ROOM} bytes; select a part of it, or raise "
            "entry.config.max_bytes in the tool's YAML"
        )
    if code == sqlite3.SQLITE_AUTH or code == sqlite3.SQLITE_READONLY:
        may = "only reads" if plan.is_readonly else "stays in its database"
        return f"the database refused the statement: {error}; the tool {may}"
    return f"the database refused the statement: {error}"
