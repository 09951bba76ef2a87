"""Which connection does a statement run on, and who waits while all are in use?

SQLAlchemy makes, keeps and gives up the connections. The statement itself goes to the driver:
only the driver tells what a statement returns before all of it is in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, Generic, TypeVar

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool

__all__ = ["Pool"]

ConnectionT = TypeVar("ConnectionT")
_RECYCLE: Final = 1800
"""Seconds after which a connection is made anew: a password or a server's name may change."""


class Pool(Generic[ConnectionT]):
    """The connections of one source, for reading or for writing; bound to one event loop.

    Args:
        dialect: SQLAlchemy's name of the database and its driver.
        connect: Makes a connection of the driver.
        is_fit: Whether a connection that was used can be used again.
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
            # Whoever takes a connection ends its own transaction.
            pool_reset_on_return=None,
        )
        self._is_fit = is_fit
        self._size = size
        self._free = asyncio.Semaphore(size)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Waits for one's turn to take a connection; can be cancelled at no cost."""
        async with self._free:
            yield

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[ConnectionT]:
        """A connection for whoever has the turn.

        It is thrown away when the body is cancelled, or leaves it unfit for another call.
        """
        holder = await self._holder()
        driver = await _driver(holder)
        try:
            yield driver
        except BaseException as error:
            if not isinstance(error, Exception) or not self._is_fit(driver):
                await holder.invalidate()
            raise
        finally:
            await holder.close()

    async def close(self) -> None:
        """Closes every connection."""
        await self._engine.dispose()

    async def _holder(self) -> AsyncConnection:
        """A connection; those that the server has given up meanwhile are thrown away."""
        try:
            holder = await self._engine.connect()
            for _ in range(self._size):
                if self._is_fit(await _driver(holder)):
                    break
                await holder.invalidate()
                await holder.close()
                holder = await self._engine.connect()
        except DBAPIError as error:
            raise error.driver_exception from None
        return holder


async def _driver(holder: AsyncConnection) -> Any:
    return (await holder.get_raw_connection()).driver_connection
