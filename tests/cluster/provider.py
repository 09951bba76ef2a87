"""What does a service see whose calls must not be more at once than it allows?"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator


class Provider:
    """Counts the calls that are with it: one connection each, which ends with its process too."""

    def __init__(self) -> None:
        self.port = 0
        self.running = self.most = 0
        self.started: list[str] = []
        """Who called, in order."""
        self.times: list[float] = []
        """When each was given its slot, as it says itself."""
        self.names: Counter[str] = Counter()
        """How many calls of each process are with it."""
        self.conversations: Counter[str] = Counter()
        """How many calls of each conversation are with it."""
        self.most_of_one = 0
        self._changed = asyncio.Event()

    async def until(self, count: int, seconds: float = 20.0) -> None:
        """Waits until that many have started."""
        async with asyncio.timeout(seconds):
            while len(self.started) < count:
                self._changed.clear()
                await self._changed.wait()

    async def until_left(self, name: str, count: int) -> None:
        """Waits until no more calls of a process are with it than so many."""
        async with asyncio.timeout(20.0):
            while self.names[name] > count:
                self._changed.clear()
                await self._changed.wait()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            words = (await reader.readline()).decode().split()
            if not words:  # its process was killed
                writer.close()
                return
            name, conversation, given = words
            self.running += 1
            self.names[name] += 1
            # Others may have what a process had that stood still, before it knows.
            counted = 0 if name.startswith("stopped") else 1
            self.conversations[conversation] += counted
            self.most_of_one = max(self.most_of_one, self.conversations[conversation])
            self.times.append(float(given))
            self.most = max(self.most, self.running)
            self.started.append(name)
            self._changed.set()
            try:
                writer.write(b"ok\n")
                await reader.read()
            finally:  # a process that is killed may reset its connection
                self.running -= 1
                self.names[name] -= 1
                self._changed.set()
                self.conversations[conversation] -= counted
        writer.close()


@contextlib.asynccontextmanager
async def open_provider() -> AsyncIterator[Provider]:
    provider = Provider()
    server = await asyncio.start_server(provider.serve, "127.0.0.1", 0)
    provider.port = server.sockets[0].getsockname()[1]
    try:
        yield provider
    finally:
        server.close()
