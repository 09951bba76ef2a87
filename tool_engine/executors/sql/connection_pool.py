"""Which connection runs a statement, and which calls wait while all are in use?

SQLAlchemy makes, keeps and discards the connections. The statement itself goes to the driver:
only the driver describes the rows before all of them are in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, Generic, TypeVar

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool

ConnectionT = TypeVar("ConnectionT")
_RECYCLE: Final = 1800
"""Seconds until a connection is replaced: a password or a server's name may change."""


class Pool(Generic[ConnectionT]):
    """The reading or writing connections of a source, in one event loop.

    Args:
        dialect: SQLAlchemy's name of the database and its driver.
        connect: Makes a connection of the driver.
        is_fit: Returns True if a used connection can be used again.
        size: The most connections.
    """

    def __init__(
        self,
        dialect: str,
        connect: Callable[[], Awaitable[ConnectionT]],
        is_fit: Callable[[ConnectionT], bool],
        size: int,
    ) -> None:
        self._engine = create_async_engine(
            f"{dialect}://",
            async_creator=connect,
            poolclass=AsyncAdaptedQueuePool,
            pool_size=size,
            max_overflow=0,
            pool_recycle=_RECYCLE,
            pool_use_lifo=True,
            # The user of a connection ends its own transaction.
            pool_reset_on_return=None,
        )
        self._is_fit = is_fit
        self._size = size
        self._free = asyncio.Semaphore(size)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for the turn to take a connection; cancellation costs nothing."""
        async with self._free:
            yield

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[ConnectionT]:
        """Lend a connection to the holder of the turn.

        It is discarded when the body is cancelled, or leaves it unfit for another call.
        """
        holder = await self._take_connection()
        driver = await _driver_connection(holder)
        try:
            yield driver
        except BaseException as error:
            if not isinstance(error, Exception) or not self._is_fit(driver):
                await holder.invalidate()
            raise
        finally:
            await holder.close()

    async def close(self) -> None:
        await self._engine.dispose()

    async def _take_connection(self) -> AsyncConnection:
        """Return a connection; replace those that the server has closed."""
        try:
            holder = await self._engine.connect()
            for _ in range(self._size):
                if self._is_fit(await _driver_connection(holder)):
                    break
                await holder.invalidate()
                await holder.close()
                holder = await self._engine.connect()
        except DBAPIError as error:
            raise error.driver_exception from None
        return holder


async def _driver_connection(holder: AsyncConnection) -> Any:
    return (await holder.get_raw_connection()).driver_connection
