"""How is a PostgreSQL database brought to this version, and rows written into it?

With COPY, the quickest way; row by row only where an earlier try may have written some already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import asyncpg  # type: ignore[import-untyped]
import msgspec

from tool_engine.knowledge.sql.connection.address import Address
from tool_engine.knowledge.sql.database_errors import (
    BadRowsError,
    BusyError,
    UnusableDatabaseError,
)
from tool_engine.knowledge.sql.schema.counting import STATISTICS, Count, count_rows
from tool_engine.knowledge.sql.schema.keys import KEY_STEP
from tool_engine.knowledge.sql.schema.rows import Batch
from tool_engine.knowledge.sql.schema.schema import (
    COLUMNS,
    FRESH,
    IDENTITY,
    LOCK_NUMBER,
    MIGRATIONS,
    TABLES,
    check_version,
    identity_of,
    list_statements,
)
from tool_engine.model.settings.postgres_url import FALLS_BACK, connect_arguments

_CONNECT_LIMIT: Final = 5.0
_COMMAND_LIMIT: Final = 30.0
_NO_ENCRYPTION: Final = "rejected SSL upgrade"
_TRIES: Final = 1_000
_SLICE: Final = 250
"""Rows packed for the server before other tasks get a chance to run."""
_PLACES: Final = ", ".join(f"${number + 1}" for number in range(len(COLUMNS)))
_INSERT: Final = (
    f"INSERT INTO tool_calls ({', '.join(COLUMNS)}) VALUES ({_PLACES}) "  # noqa: S608 - names of columns
    "ON CONFLICT DO NOTHING"
)
_SAME: Final = (
    "SELECT 1 FROM tool_calls WHERE ("  # noqa: S608 - names of columns
    + " AND ".join(
        f"{name} IS NOT DISTINCT FROM ${number + 1}" for number, name in enumerate(IDENTITY)
    )
    + f") OR record_id = ${len(IDENTITY) + 1}"
)
_INSERT_VALUE: Final = (
    "INSERT INTO tool_values (hash, size, used_at, data) VALUES ($1, $2, $3, $4) "  # noqa: S608 - a number
    # Locks the row even without a change: no process can remove it before this commit.
    "ON CONFLICT (hash) DO UPDATE SET used_at = excluded.used_at "
    f"WHERE tool_values.used_at < excluded.used_at - {FRESH}"
)
_INSERT_DEFINITION: Final = (
    "INSERT INTO tool_definitions (id, tool_name, version, definition_hash, origin) "
    "VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING"
)
_INSERT_PROCESS: Final = (
    "INSERT INTO tool_processes (engine, process, noted_at) VALUES ($1, $2, $3) "
    "ON CONFLICT DO NOTHING"
)
_KINDS: Final = {
    **dict.fromkeys(("hour", "bin", "calls", "newest"), "bigint"),
    **dict.fromkeys(("seconds", "largest"), "float8"),
}
_ARRAYS: Final = ", ".join(
    # As texts: what arrays of numbers are, asyncpg asks the server on each new connection.
    f"${number + 1}::text[]::{_KINDS.get(name, 'text')}[]"
    for number, name in enumerate(STATISTICS)
)
_ADD_TO_STATISTICS: Final = (
    # In the order of the key, which `count_rows` gives: two processes never wait for each other.
    f"INSERT INTO tool_statistics AS known SELECT * FROM unnest({_ARRAYS}) "  # noqa: S608 - names of types
    "ON CONFLICT (hour, tool_name, bucket, outcome, error_type, measure, bin) DO UPDATE SET "
    "calls = known.calls + excluded.calls, seconds = known.seconds + excluded.seconds, "
    "largest = greatest(known.largest, excluded.largest), "
    "newest = greatest(known.newest, excluded.newest)"
)
_UNUSABLE: Final = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
)


async def open_connection(address: Address, **options: Any) -> Any:
    """Return a connection of asyncpg.

    Raises:
        UnusableDatabaseError: The URL is not understood, or the server refuses user, password or
            database.
        BusyError: It takes no connection now.
        OSError: It cannot be reached.
    """
    server = await asyncio.to_thread(Server.of, address.place)
    try:
        for arguments in server.tries[:-1]:
            try:
                return await _open_connection(arguments, options)
            except ConnectionError as error:
                if _NO_ENCRYPTION not in str(error):
                    raise
        return await _open_connection(server.tries[-1], options)
    except (*_UNUSABLE, asyncpg.ClientConfigurationError) as error:
        raise UnusableDatabaseError(str(error)) from error
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise BusyError(f"the server takes no connection: {error}") from error


async def _open_connection(arguments: dict[str, Any], options: dict[str, Any]) -> Any:
    return await asyncpg.connect(
        **arguments, **options, timeout=_CONNECT_LIMIT, command_timeout=_COMMAND_LIMIT
    )


class PostgresDatabase:
    """Writes to one PostgreSQL database, through one connection.

    Args:
        address: The database; its tables are made where they are missing.
        is_synchronous: Whether a commit waits until the disk has it, whatever the server's own
            setting.
    """

    def __init__(self, address: Address, *, is_synchronous: bool) -> None:
        self._address = address
        self._settings = {"synchronous_commit": "on"} if is_synchronous else {}
        self._connection: Any = None

    async def open(self) -> None:
        """Connect and bring the tables up to date.

        Raises:
            UnusableDatabaseError: The server refuses the user, or the tables are of a newer
                version.
            OSError: The server cannot be reached now.
        """
        # Not kept: the writer runs in an event loop of its own.
        await _close_connection(await self._ensure_connected())

    def prepare(self, batch: Batch) -> None:
        """Do nothing: the server has processors of its own."""

    async def write(self, batch: Batch) -> None:
        """Write and commit all rows, or none."""
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._ensure_connected()
        try:
            with _translate_errors():
                try:
                    await self._copy_rows(batch)
                except asyncpg.UniqueViolationError:
                    await self._insert_rows(batch)
        except (BadRowsError, BusyError):
            raise
        except BaseException:
            # Whatever failed, the tables are checked again before the next try.
            await self.close()
            raise

    async def close(self) -> None:
        """Close the connection; in the loop in which rows were written."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await _close_connection(connection)

    async def _ensure_connected(self) -> Any:
        with _translate_errors():
            connection = await open_connection(self._address, server_settings=self._settings)
        try:
            with _translate_errors():
                await _migrate_schema(connection)
        except BaseException:
            await _close_connection(connection)
            raise
        return connection

    async def _copy_rows(self, batch: Batch) -> None:
        async with self._connection.transaction():
            await self._insert_definitions(batch)
            await self._connection.copy_records_to_table(
                "tool_calls", records=_with_pauses(batch.rows), columns=COLUMNS
            )
            await self._add_counts(count_rows(batch.rows))

    async def _insert_rows(self, batch: Batch) -> None:
        async with self._connection.transaction():
            await self._insert_definitions(batch)
            new = [row for row in batch.rows if await _insert_beside(self._connection, row)]
            await self._add_counts(count_rows(new))

    async def _add_counts(self, counts: list[Count]) -> None:
        if counts:
            columns = (list(map(str, column)) for column in zip(*counts, strict=True))
            await self._connection.execute(_ADD_TO_STATISTICS, *columns)

    async def _insert_definitions(self, batch: Batch) -> None:
        # In one order, so that two processes that write the same never wait for each other.
        definitions = sorted(batch.definitions.values())
        await self._connection.executemany(_INSERT_DEFINITION, definitions)
        if batch.processes:
            processes = sorted(batch.processes.values())
            await self._connection.executemany(_INSERT_PROCESS, processes)
        if batch.values:
            values = sorted(batch.values.values())
            await self._connection.executemany(_INSERT_VALUE, values)


async def _with_pauses(rows: list[tuple[Any, ...]]) -> Any:
    for position, row in enumerate(rows):
        if position % _SLICE == 0:
            await asyncio.sleep(0)
        yield row


async def _close_connection(connection: Any) -> None:
    try:
        await connection.close(timeout=1.0)
    except Exception:  # noqa: BLE001 - a connection that is lost cannot say goodbye
        connection.terminate()


async def _insert_beside(connection: Any, row: tuple[Any, ...]) -> bool:
    """Insert a row whose key may exist already; return whether it was new."""
    for _ in range(_TRIES):
        if await connection.execute(_INSERT, *row) != "INSERT 0 0":
            return True
        same = await connection.fetchval(
            _SAME,
            *identity_of(row),
            row[1],
        )
        if same:
            return False
        row = (row[0] + KEY_STEP, *row[1:])
    raise BadRowsError("no key is free near the time of the call")


async def _migrate_schema(connection: Any) -> None:
    if await _read_version(connection) == len(MIGRATIONS):
        return
    async with connection.transaction():
        # Several processes may start at once; and CREATE ... IF NOT EXISTS alone can collide.
        await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK_NUMBER)
        await connection.execute("CREATE TABLE IF NOT EXISTS tool_engine_schema (version INTEGER)")
        for statement in list_statements("postgresql", await _read_version(connection)):
            await connection.execute(statement)


async def _read_version(connection: Any) -> int:
    """Return the number of migrations the database had; 0 if a table is missing."""
    found = await connection.fetch(
        "SELECT name FROM unnest($1::text[]) AS name WHERE to_regclass(name) IS NOT NULL",
        list(TABLES),
    )
    names = {row["name"] for row in found}
    version = 0
    if TABLES[0] in names:
        version = await connection.fetchval("SELECT max(version) FROM tool_engine_schema") or 0
    return check_version(int(version), names)


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError) as error:
        raise BadRowsError(str(error)) from error
    except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError) as error:
        raise BusyError(str(error)) from error
    except asyncpg.InsufficientPrivilegeError as error:
        raise UnusableDatabaseError(str(error)) from error


class Server(msgspec.Struct, frozen=True):
    """The arguments of `asyncpg.connect`, one set per try."""

    tries: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, url: str) -> Server:
        """Return the server of a URL without secrets to fill in.

        Blocks: it may read a certificate.

        Raises:
            UnusableDatabaseError: The URL is not understood; the message holds no password.
        """
        try:
            arguments, mode = connect_arguments(url)
        except OSError as error:
            reason = error.strerror or error
            raise UnusableDatabaseError(f"sslrootcert, sslcert or sslkey: {reason}") from None
        except ValueError as error:
            raise UnusableDatabaseError(f"the URL is not understood: {error}") from None
        if mode == FALLS_BACK and arguments["ssl"]:
            return cls((arguments, {**arguments, "ssl": False}))
        return cls((arguments,))
