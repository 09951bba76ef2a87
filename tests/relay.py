"""Can a connection be cut for real, between a program and a server that both live on?"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from tests.ports import free_port


class Relay:
    """Passes bytes between whoever connects to it and a server, as long as it is not cut."""

    def __init__(self, port: int) -> None:
        self.behind = port
        """Where new connections lead to."""
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = free_port()
        self.refused: bytes | None = None
        """Connections on which this is said are ended; None: none is."""
        self.delay: Callable[[], float] | None = None
        """Seconds by which each piece is late, in both directions; None: it is not."""
        self._behind_writers: set[asyncio.StreamWriter] = set()
        self._is_half_open: set[asyncio.StreamWriter] = set()
        self._passing: set[asyncio.Task[None] | None] = set()

    async def restore(self) -> None:
        """Takes connections, at the same port each time."""
        self._server = await asyncio.start_server(self._pass, "127.0.0.1", self.port)

    async def cut(self) -> None:
        """Ends all connections at once, and refuses new ones."""
        assert self._server is not None
        self._server.close()
        for each in self._writers:
            each.transport.abort()
        await self._server.wait_closed()

    async def end(self) -> None:
        """Ends all connections, and waits for what is still late."""
        await self.cut()
        await asyncio.gather(*filter(None, self._passing), return_exceptions=True)

    def sever(self) -> None:
        """Ends all connections for the server alone: who made them hears nothing, not even that."""
        self._is_half_open |= self._behind_writers
        for each in self._behind_writers:
            each.transport.abort()

    async def _wait(self) -> None:
        if self.delay is not None:
            await asyncio.sleep(self.delay())

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        passing = asyncio.current_task()
        self._passing.add(passing)
        try:
            await self._pass_both_ways(reader, writer)
        finally:
            self._passing.discard(passing)

    async def _pass_both_ways(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self.behind)
        pair = {writer, back}
        self._writers |= pair
        self._behind_writers.add(back)
        with contextlib.suppress(OSError):
            await asyncio.gather(
                self._copy_asked(reader, back, writer), self._copy_back(there, back, writer)
            )
        self._writers -= pair
        self._behind_writers.discard(back)
        self._is_half_open.discard(back)
        for each in pair:
            each.close()

    async def _copy_asked(
        self,
        reader: asyncio.StreamReader,
        there: asyncio.StreamWriter,
        back: asyncio.StreamWriter,
    ) -> None:
        while chunk := await reader.read(65536):
            if self.refused is not None and self.refused in chunk:
                back.transport.abort()
                break
            if there in self._is_half_open:
                continue
            await self._wait()
            there.write(chunk)
            await there.drain()
        there.close()

    async def _copy_back(
        self, there: asyncio.StreamReader, back: asyncio.StreamWriter, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while chunk := await there.read(65536):
                await self._wait()
                writer.write(chunk)
                await writer.drain()
        if writer.can_write_eof() and back not in self._is_half_open:
            writer.write_eof()


@contextlib.asynccontextmanager
async def relayed(port: int) -> AsyncIterator[Relay]:
    relay = Relay(port)
    await relay.restore()
    try:
        yield relay
    finally:
        await relay.end()
