"""Do processes keep one limit where another server takes the place of theirs?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.cluster.crew import BOUND, Crew
from tests.cluster.provider import Provider
from tests.effort import IS_WHOLE
from tests.postgres_server import PostgresServer, following_server
from tests.relay import Relay, relayed

pytestmark = [
    pytest.mark.timeout(12 * BOUND),
    pytest.mark.skipif(not IS_WHOLE, reason="three servers are started: at whole effort only"),
]
ROUNDS = 10


@pytest.fixture
async def url(server: PostgresServer) -> str:
    return await asyncio.to_thread(server.fresh_database)


@pytest.fixture
async def relay(crew: Crew, server: PostgresServer) -> AsyncIterator[Relay]:
    """The address that all processes of the crew know, whichever server is behind it."""
    async with relayed(server.port) as relay:
        crew.url = crew.url.replace(f":{server.port}/", f":{relay.port}/")
        yield relay


async def until_it_follows(server: PostgresServer, standby: PostgresServer) -> None:
    """Waits until the stand-by has all that the server had a moment ago."""
    ((place,),) = await asyncio.to_thread(server.ask, "SELECT pg_current_wal_flush_lsn()::text")
    has_it = f"SELECT pg_last_wal_replay_lsn() >= '{place}'::pg_lsn"
    found = [(False,)]
    async with asyncio.timeout(2 * BOUND):
        while not found[0][0]:
            await asyncio.sleep(0.05)
            found = await asyncio.to_thread(standby.ask, has_it)


@pytest.mark.parametrize("number", range(ROUNDS))
@pytest.mark.parametrize("end", ["stop", "crash"])
async def test_a_standby_is_promoted(
    end: str, number: int, server: PostgresServer, relay: Relay, provider: Provider, crew: Crew
) -> None:
    """It takes its place under load: the limit holds, no call is lost, and all goes on."""
    del number
    crew.grace = BOUND  # a busy machine takes seconds for it
    standbys = following_server(server)
    standby = await asyncio.to_thread(standbys.__enter__)
    try:
        processes = [await crew.start(name, 4, 0.2) for name in ("one", "two")]
        await provider.until(8)
        await until_it_follows(server, standby)
        await asyncio.to_thread(getattr(server, end))
        relay.behind = standby.port
        await asyncio.to_thread(standby.ask, "SELECT pg_promote()")
        both, count = {"one", "two"}, len(provider.started)
        while set(provider.started[count:]) != both:
            await provider.until(len(provider.started) + 1, 2 * BOUND)
        assert provider.most <= 2
        for process in processes:
            process.stdin.close()
            async with asyncio.timeout(BOUND):
                said = (await process.stdout.read()).decode()
            assert said.endswith("lost 0\n"), said
    finally:
        await asyncio.to_thread(standbys.__exit__, None, None, None)
