"""What does a client hear that comes back after a restart, or to another server?"""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.server.process import ServerProcess, server_process
from tests.server.test_events import Reader

BOUND = 60.0
PATH = "/v1/events?types=execution_completed,execution_failed"
HELLO = {"arguments": {"message": "hello"}}
DROPPED = ("dropped", None, None)


@pytest.fixture(params=["sqlite", "postgresql"])
async def records(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database of this test's own."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/calls.db"
    server = request.getfixturevalue("postgres_server")
    return str(await asyncio.to_thread(server.fresh_database))


class Person:
    """A client that calls, and that hears of its calls from the place where it stopped."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls: list[str] = []
        self._headers = {"authorization": f"Bearer token-of-{name}"}
        self._place = ""

    async def call(self, server: ServerProcess, count: int) -> None:
        async with aiohttp.ClientSession(server.url, headers=self._headers) as http:
            for _ in range(count):
                async with http.post("/v1/tools/say/calls", json=HELLO) as answer:
                    self.calls.append((await answer.json())["metadata"]["call_id"])

    async def hear(self, server: ServerProcess, count: int) -> list[Any]:
        """The calls of which the next events are; None stands for some that are lost."""
        said = {"last-event-id": self._place} if self._place else {}
        heard: list[Any] = []
        async with (
            asyncio.timeout(BOUND),
            aiohttp.ClientSession(server.url, headers=self._headers) as http,
            http.get(PATH, headers=said) as answer,
        ):
            assert answer.status == 200, await answer.text()
            reader = Reader(answer)
            if not self._place:
                await self.call(server, 1)
            for _ in range(count):
                name, place, data = await reader.next()
                self._place = place or self._place
                heard.append(data["events"] if name == "dropped" else data["call_id"])
        return heard


async def test_a_restart(tmp_path: Path, records: str) -> None:
    """All that happened until the end of a server is heard of the next one, each once, in order.

    Of others it stays hidden, after the restart as before.
    """
    olga, ann = Person("olga"), Person("ann")
    async with server_process(tmp_path, records=records) as server:
        assert await ann.hear(server, 1) == ann.calls
        await olga.call(server, 5)
        await ann.call(server, 20)
        assert await ann.hear(server, 7) == ann.calls[1:8]
        await ann.call(server, 20)
        await olga.call(server, 5)
        assert (await server.end())[0] == 128 + signal.SIGTERM
    async with server_process(tmp_path, records=records) as server:
        await ann.call(server, 3)
        assert await ann.hear(server, 36) == ann.calls[8:]
        await server.end()
    async with server_process(tmp_path, records=records) as server:
        await ann.call(server, 1)
        assert await ann.hear(server, 1) == ann.calls[-1:]


async def test_a_kill(tmp_path: Path, records: str) -> None:
    """What the server had written is heard, and that the end of it is not known, once."""
    ann = Person("ann")
    async with server_process(tmp_path, records=records) as server:
        await ann.hear(server, 1)
        await ann.call(server, 200)
        await server.end(signal.SIGKILL)
    known = len(ann.calls)
    async with server_process(tmp_path, records=records) as server:
        await ann.call(server, 3)
        heard = [await ann.hear(server, 1)]
        while heard[-1] != [None]:
            heard.append(await ann.hear(server, 1))
        written = [each for (each,) in heard[:-1]]
        assert written == ann.calls[1 : len(written) + 1]
        assert await ann.hear(server, 4) == [None, *ann.calls[known:]]
        await ann.call(server, 1)
        assert await ann.hear(server, 1) == ann.calls[-1:]


async def test_more_than_is_kept(tmp_path: Path, records: str) -> None:
    """What had to go is a count of events, and then comes what is kept."""
    ann = Person("ann")
    words = ("--keep-events", "10")
    async with server_process(tmp_path, *words, records=records) as server:
        await ann.hear(server, 1)
        await ann.call(server, 30)
        await server.end()
    async with server_process(tmp_path, *words, records=records) as server:
        lost, *rest = await ann.hear(server, 5)
        # Each call has two events; a batch of them is pruned at a time.
        assert isinstance(lost, int)
        assert 0 < lost <= 60
        assert rest == ann.calls[-len(rest) - (60 - lost) // 2 + 4 :][:4]


async def test_several_servers(tmp_path: Path, records: str) -> None:
    """A client that is sent from one to the other hears late what it was not there for."""
    ann = Person("ann")
    async with (
        server_process(tmp_path, records=records) as one,
        server_process(tmp_path, records=records) as two,
    ):
        await ann.hear(one, 1)
        await ann.call(two, 2)
        # It may have missed some of the first one's, which goes on.
        assert await ann.hear(two, 3) == [None, *ann.calls[1:3]]
        await ann.call(one, 2)
        await one.end()
        await ann.call(two, 1)
        assert await ann.hear(two, 3) == ann.calls[3:6]
