"""How does a statement run in PostgreSQL so that it can do no more than its tool says?

The server enforces that: a transaction that is read-only unless the tool writes, a
`statement_timeout` at the call's deadline, and the extended protocol, which takes one statement.
A meter on the connection bounds what an answer may bring into memory.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import asyncpg  # type: ignore[import-untyped]
import msgspec

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.sql.connection_pool import Pool
from tool_engine.executors.sql.rows import Rows
from tool_engine.executors.sql.sql_arguments import ArgumentError, convert_argument
from tool_engine.executors.sql.sql_entry import SQLPlan
from tool_engine.executors.sql.statement import Dialect
from tool_engine.executors.sql.values import json_of_text
from tool_engine.executors.sql.watch import Watch, run_watched
from tool_engine.model.settings.postgres_url import FALLS_BACK, connect_arguments

_DIALECT: Final = Dialect(mark="$", member="= ANY({})", not_member="<> ALL({})", null_test="::text")
_CONNECT_TIMEOUT: Final = 15.0
_ROOM: Final = 4 * 1024 * 1024
"""Bytes of one batch of rows beyond the limit of the result."""
_SKIP: Final = 100_000
_NO_ENCRYPTION: Final = "rejected SSL upgrade"
"""asyncpg's message for a server without TLS."""
_SETTINGS: Final = """
    SELECT set_config('statement_timeout', $1, true),
        set_config('DateStyle', 'ISO, YMD', true),
        set_config('IntervalStyle', 'iso_8601', true)
"""
_Values = Sequence[tuple[str, Any]]
_COUNT: Final = re.compile(r"(?:SELECT|UPDATE|DELETE|MERGE|INSERT \d+) (\d+)")
_TIMES: Final = ("date", "time", "timetz", "timestamp", "timestamptz", "interval")
_OFFSET: Final = re.compile(r"([+-]\d\d)$")


class _Meter(asyncio.Protocol):
    """Counts arriving bytes, and cuts the connection when one batch is too large."""

    def __init__(self, inner: Any, transport: Any) -> None:
        self._inner = inner
        self._transport = transport
        self._size: int | None = None
        self._left = 0
        self.is_exceeded = False

    @contextmanager
    def bounded(self, size: int) -> Iterator[_Meter]:
        """Within it, permit `size` bytes between two calls of `refill`."""
        self._size = size
        self.refill()
        try:
            yield self
        finally:
            self._size = None

    def refill(self) -> None:
        self._left = self._size or 0

    def data_received(self, data: bytes) -> None:
        if self._size is not None:
            self._left -= len(data)
            if self._left < 0:
                self.is_exceeded = True
                self._transport.abort()
                return
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()  # type: ignore[no-any-return]

    def connection_lost(self, error: Exception | None) -> None:
        self._inner.connection_lost(error)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()


class _Connection(asyncpg.Connection):  # type: ignore[misc]
    __slots__ = ("is_ready", "meter")

    def __init__(self, protocol: Any, transport: Any, *rest: Any) -> None:
        super().__init__(protocol, transport, *rest)
        self.is_ready = False
        self.meter = _Meter(protocol, transport)
        transport.set_protocol(self.meter)

    def is_fit(self) -> bool:
        return not self.is_closed() and not self.is_in_transaction()

    async def make_ready(self) -> None:
        """Set, once, how to read types that Python cannot hold exactly."""
        for name in _TIMES:
            decode = _time_text if name.startswith("time") else str
            await self._set_codec(name, str, decode)
        for name in ("json", "jsonb"):
            await self._set_codec(name, _json_text, json_of_text)
        self.is_ready = True

    async def begin_call(self, watch: Watch) -> None:
        """Set the limits of one transaction."""
        left = 0 if watch.left is None else max(1, int(watch.left * 1000))
        await self.fetchval(_SETTINGS, str(left))

    async def _set_codec(
        self, name: str, encode: Callable[[Any], str], decode: Callable[[str], Any]
    ) -> None:
        await self.set_type_codec(
            name, schema="pg_catalog", encoder=encode, decoder=decode, format="text"
        )


class PostgreSQLDatabase:
    """A database for reading or writing, with at most `pool_size` statements at once.

    `ValueError` where the URL is not understood, `OSError` where its certificate cannot be read.
    """

    mark = '"'

    def __init__(self, name: str, url: str, *, is_readonly: bool, pool_size: int) -> None:
        self._name = name
        self._arguments, self._sslmode = connect_arguments(url)
        self._is_readonly = is_readonly
        self._pool: Pool[_Connection] = Pool(
            "postgresql+asyncpg", self._open_connection, _Connection.is_fit, pool_size
        )

    async def run(
        self, plan: SQLPlan, params: Mapping[str, Any], chosen: Mapping[str, str], watch: Watch
    ) -> dict[str, Any]:
        sql, names = plan.statement.render(_DIALECT, plan.lists, chosen)
        values = [(name, params.get(name)) for name in names]
        async with self._pool.turn():
            return await run_watched(
                self._run_statement(plan, sql, values, watch), lambda task: task.cancel()
            )

    async def close(self) -> None:
        await self._pool.close()

    async def _open_connection(self) -> _Connection:
        arguments = {
            **self._arguments,
            "connection_class": _Connection,
            "timeout": _CONNECT_TIMEOUT,
        }
        try:
            return await asyncpg.connect(**arguments)  # type: ignore[no-any-return]
        except ConnectionError as error:
            if self._sslmode != FALLS_BACK or _NO_ENCRYPTION not in str(error):
                raise
        arguments["ssl"] = False
        return await asyncpg.connect(**arguments)  # type: ignore[no-any-return]

    async def _run_statement(
        self, plan: SQLPlan, sql: str, values: _Values, watch: Watch
    ) -> dict[str, Any]:
        meter: _Meter | None = None
        try:
            while True:
                async with self._pool.connection() as connection:
                    meter = connection.meter
                    if (
                        transaction := await self._begin_transaction(connection, watch)
                    ) is not None:
                        return await self._in_transaction(
                            connection, transaction, plan, sql, values, watch
                        )
        except ArgumentError as error:
            raise ToolExecutionError(str(error)) from None
        except _FAULTS as error:
            if meter is not None and meter.is_exceeded:
                raise ToolExecutionError(
                    f"the next rows are larger than {plan.max_bytes + _ROOM} bytes; select fewer "
                    "columns or a part of them, or raise entry.config.max_bytes in the tool's YAML"
                ) from None
            raise _explain_error(error, self._name, plan, [name for name, _ in values]) from None

    async def _begin_transaction(self, connection: _Connection, watch: Watch) -> Any:
        """Begin a transaction; None: the server had ended the idle connection."""
        was_idle = connection.is_ready
        try:
            if not was_idle:
                await connection.make_ready()
            transaction = connection.transaction(readonly=self._is_readonly)
            await transaction.start()
            # A query: after it, a read-only transaction cannot be made a writing one.
            await connection.begin_call(watch)
        except _FAULTS as error:
            # The error of a new connection describes the server itself.
            if not was_idle or isinstance(error, _LATE):
                raise
            connection.terminate()
            return None
        return transaction

    async def _in_transaction(
        self,
        connection: _Connection,
        transaction: Any,
        plan: SQLPlan,
        sql: str,
        values: _Values,
        watch: Watch,
    ) -> dict[str, Any]:
        try:
            result = await _fetch_answer(connection, plan, sql, values, watch)
            if watch.is_late:
                raise TimeoutError
        except Exception:
            if not connection.is_closed():
                await transaction.rollback()
            raise
        if self._is_readonly:
            await transaction.rollback()
        else:
            await transaction.commit()
        return result


async def _fetch_answer(
    connection: _Connection, plan: SQLPlan, sql: str, values: _Values, watch: Watch
) -> dict[str, Any]:
    statement = await connection.prepare(sql)
    types = statement.get_parameters()
    arguments = [
        convert_argument(name, value, kind.name, kind.kind == "array")
        for (name, value), kind in zip(values, types, strict=True)
    ]
    columns = [column.name for column in statement.get_attributes()]
    if not columns:
        await statement.fetch(*arguments)
        counted = _COUNT.fullmatch(statement.get_statusmsg())
        return {"row_count": int(counted[1]) if counted else 0}
    rows = Rows(plan, columns)
    cursor = await statement.cursor(*arguments)
    with connection.meter.bounded(plan.max_bytes + _ROOM) as meter:
        while not rows.is_full and not watch.is_late:
            size = rows.batch
            meter.refill()
            found = await cursor.fetch(size)
            for row in found:
                rows.add(tuple(row))
            if len(found) < size:
                break
    count = None if plan.is_readonly else rows.count + await _count_rest(cursor, watch)
    return rows.result(count)


async def _count_rest(cursor: Any, watch: Watch) -> int:
    """Return how many rows follow; a writing statement runs to its end anyway."""
    count = 0
    while not watch.is_late:
        skipped = await cursor.forward(_SKIP)
        count += skipped
        if skipped < _SKIP:
            break
    return count


def _time_text(text: str) -> str:
    """Return the time in ISO 8601, with a T and minutes in the offset."""
    return _OFFSET.sub(r"\1:00", text.replace(" ", "T", 1) if text[:4].isdigit() else text)


def _json_text(value: Any) -> str:
    # A text is JSON text, like a literal in SQL.
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


# What asyncpg and a socket raise; asyncpg's classes have no root of their own.
_FAULTS: Final = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
)
_LATE: Final = (asyncpg.QueryCanceledError, TimeoutError)


def _explain_error(error: Exception, name: str, plan: SQLPlan, values: Sequence[str]) -> Exception:
    if isinstance(error, _LATE):
        return TimeoutError("the statement ran at its deadline and was ended; nothing is kept")
    state = getattr(error, "sqlstate", None) or ""
    reason = str(getattr(error, "message", None) or error)
    if isinstance(error, OSError) or state.startswith(_CONNECTION_STATES):
        return ToolExecutionError(
            f"no connection to the source {name!r}: {_explain_reason(error, reason)}"
        )
    if state == _READ_ONLY and plan.is_readonly:
        reason += "; the tool only reads"
    reason = _PLACE.sub(lambda found: _name_parameter(found, values), reason)
    return ToolExecutionError(f"the database refused the statement: {reason}")


_READ_ONLY: Final = "25006"
_CONNECTION_STATES: Final = ("08", "28", "3D", "53", "57P")
_PLACE: Final = re.compile(r"(?<=parameter )\$(\d+)|(?<=argument )\$(\d+)")


def _name_parameter(found: re.Match[str], values: Sequence[str]) -> str:
    """Return the parameter of a number, which only the rendered text has."""
    number = int(found[1] or found[2])
    return f":{values[number - 1]}" if number <= len(values) else found.group()


def _explain_reason(error: Exception, reason: str) -> str:
    if isinstance(error, ssl.SSLError):
        return f"it is not secure ({error.reason})"
    if _NO_ENCRYPTION in reason:
        return "the server offers no encryption, which sslmode asks for"
    if isinstance(error, OSError):
        why = os.strerror(error.errno) if error.errno else "it cannot be reached"
        return f"{why}; start the database, or correct the URL of the source"
    return reason
