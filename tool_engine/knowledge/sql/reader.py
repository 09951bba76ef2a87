"""How is the database asked?

Through connections of their own, beside the one that writes; what they answer is made into records
in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import aiosqlite
from sqlalchemy import Executable
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool

from tool_engine.errors import RecordsUnavailableError
from tool_engine.knowledge.sql.connection.address import Address, explain_silence
from tool_engine.knowledge.sql.connection.turns import take_turn
from tool_engine.knowledge.sql.database_errors import (
    READING,
    BusyError,
    UnusableDatabaseError,
)

T = TypeVar("T")
_FEW: Final = 20
"""Rows that are made into records faster than a thread is found for them."""
_POOL: Final = 4
_RECYCLE: Final = 1_800
_BUSY_WAIT: Final = 5.0
_ONE_MOMENT: Final = {
    "sqlite": "BEGIN",
    "postgresql": "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
}


class Reader:
    """Asks one database.

    Args:
        address: The database; its tables are there.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        driver = "aiosqlite" if address.kind == "sqlite" else "asyncpg"
        self._engine = create_async_engine(
            f"{address.kind}+{driver}://",
            async_creator=self._open_connection,
            poolclass=AsyncAdaptedQueuePool,
            pool_size=_POOL,
            max_overflow=0,
            pool_recycle=_RECYCLE,
            pool_pre_ping=True,
        )

    async def rows(self, *statements: Executable, failing: str = READING) -> list[Sequence[Any]]:
        """The rows that each statement gives, all of one moment.

        Args:
            *statements: What is asked.
            failing: The message for one without an answer, with `{place}` and `{reason}` in it.

        Raises:
            RecordsUnavailableError: The database does not answer.
        """
        async with self.connection(failing) as connection:
            if len(statements) > 1:
                await connection.exec_driver_sql(_ONE_MOMENT[self._address.kind])
            return [(await connection.execute(each)).fetchall() for each in statements]

    async def made(self, statement: Executable, make: Callable[[Any], T]) -> list[T]:
        """What `make` makes of each row.

        Raises:
            RecordsUnavailableError: The database does not answer.
        """
        (rows,) = await self.rows(statement)
        if len(rows) <= _FEW:
            return [make(row) for row in rows]
        return await asyncio.to_thread(lambda: [make(row) for row in rows])

    @asynccontextmanager
    async def connection(self, failing: str = READING) -> AsyncIterator[AsyncConnection]:
        """A connection within one transaction, which is committed where nothing fails.

        Args:
            failing: The message for one without an answer, with `{place}` and `{reason}` in it.

        Raises:
            RecordsUnavailableError: The database does not answer.
        """
        try:
            async with self._engine.begin() as connection:
                yield connection
        except (SQLAlchemyError, OSError, BusyError, UnusableDatabaseError) as error:
            reason = explain_silence(getattr(error, "orig", None) or error)
            raise RecordsUnavailableError(
                failing.format(place=self._address.shown, reason=reason)
            ) from error

    @asynccontextmanager
    async def changing(self, failing: str = READING) -> AsyncIterator[AsyncConnection]:
        """The same for what changes the database: where that is a file, in turn.

        Args:
            failing: As for `connection`.

        Raises:
            RecordsUnavailableError: The database does not answer.
        """
        if self._address.kind != "sqlite":
            async with self.connection(failing) as connection:
                yield connection
            return
        async with take_turn(Path(self._address.place)), self.connection(failing) as connection:
            yield connection

    async def close(self) -> None:
        """Gives up the connections."""
        await self._engine.dispose()

    async def _open_connection(self) -> Any:
        if self._address.kind == "sqlite":
            # As a link would be made anew: who asks must not make an empty file.
            place = f"file:{_quote_path(self._address.place)}?mode=rw"
            connection = aiosqlite.connect(place, uri=True, timeout=_BUSY_WAIT)
            # A program must be able to end.
            connection._thread.daemon = True  # noqa: SLF001 - as SQLAlchemy does for its own
            await connection
            try:
                # What is no UTF-8 is the matter of its row, and not of all that are asked for.
                connection.text_factory = _text
                # Statistics go through the whole file.
                await connection.execute("PRAGMA cache_size = -32000")
            except BaseException:
                await connection.close()
                raise
            return connection
        from tool_engine.knowledge.sql.writing.postgres import open_connection

        return await open_connection(self._address)


_text: Final = partial(str, encoding="utf-8", errors="surrogateescape")


def _quote_path(path: str) -> str:
    from urllib.parse import quote

    return quote(path)
