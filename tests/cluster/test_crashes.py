"""Do processes keep one limit while the server of their cluster crashes, and comes back?"""

from __future__ import annotations

import asyncio

import asyncpg  # type: ignore[import-untyped]
import pytest

from tests.cluster.crew import Crew
from tests.cluster.provider import Provider
from tests.effort import IS_WHOLE
from tests.postgres import PostgresServer
from tool_engine.admission.cluster.cluster_database import RESTART_STEP, ClusterConnection, Found
from tool_engine.admission.cluster.saved_state import load_state

ROUNDS = 10 if IS_WHOLE else 2


@pytest.fixture
async def url(server: PostgresServer) -> str:
    return await asyncio.to_thread(server.fresh_database)


async def test_the_server_crashes(server: PostgresServer, provider: Provider, crew: Crew) -> None:
    """Twice within a ttl, under load: the limit holds, no call is lost, and all goes on.

    Also where nothing listens for longer than the grace, so that nothing says that it starts.
    """
    # Of a process that is busy with others for 0.2 s after the server is back, calls would be lost.
    crew.grace = 0.6
    # Calls that end while it is away end as they would: some are to run all the while.
    processes = [await crew.start(name, 6, 0.5) for name in ("one", "two", "three")]
    await provider.until(2)
    for _ in range(ROUNDS):
        for away in (0.0, 0.8):
            await asyncio.to_thread(server.crash)
            await asyncio.sleep(away)
            await asyncio.to_thread(server.start)
            count = len(provider.started)
            await provider.until(count + 6)
        assert provider.most <= 2
    await provider.until(len(provider.started) + 6)
    # What a process was at as it ended is with the provider for a moment longer.
    assert provider.most <= 2
    for process in processes:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        async with asyncio.timeout(20.0):
            said = (await process.stdout.read()).decode()
        assert said.endswith("lost 0\n"), said


async def test_the_server_is_started_anew(
    server: PostgresServer, provider: Provider, crew: Crew
) -> None:
    """All sessions have ended, as after a crash: each process has a ttl to come back."""
    processes = [await crew.start(name, 6, 0.01) for name in ("one", "two")]
    await provider.until(30)
    for _ in range(ROUNDS):
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(server.start)
        await provider.until(len(provider.started) + 30)
    found = await asyncio.to_thread(server.ask, "SELECT state FROM tool_cluster", "tests")
    state = load_state(found[0][0])
    assert state.epoch == 1 + ROUNDS
    assert provider.most <= 2
    for process in processes:
        process.stdin.close()
        async with asyncio.timeout(20.0):
            said = (await process.stdout.read()).decode()
        assert said.endswith("lost 0\n"), said


async def test_two_that_come_first_after_a_crash(postgres_server: PostgresServer) -> None:
    """One of them takes note of it; the other goes on from there."""
    url = await asyncio.to_thread(postgres_server.fresh_database)
    both = [ClusterConnection(url, "tests", lambda _: None, lambda: None) for _ in range(2)]
    for number, each in enumerate(both):
        await each.open(f"life{number}", lambda _: b"first")
    found = [await each.read() for each in both]
    assert [each.has_crashed for each in found] == [True, True]

    def restart(connection: ClusterConnection) -> asyncio.Task[Found | None]:
        return asyncio.create_task(
            connection.swap(found[0].version, b"restarted", [], is_durable=True, restarts=True)
        )

    gate = await asyncpg.connect(url)
    async with asyncio.timeout(20.0), gate.transaction():
        await gate.execute("SELECT FROM tool_cluster FOR UPDATE")
        swaps = [restart(each) for each in both]
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        while await gate.fetchval(waiting) < 2:  # noqa: ASYNC110 - the server says it
            await asyncio.sleep(0.005)
    done = await asyncio.gather(*swaps)
    await gate.close()
    for each in both:
        each.abort()
    (late,) = [each for each in done if each is not None]
    assert (late.version, late.state, late.has_crashed) == (
        found[0].version + RESTART_STEP,
        b"restarted",
        False,
    )


@pytest.mark.repeated
@pytest.mark.parametrize("strategy", ["fifo", "priority", "fair"])
async def test_many_callers(provider: Provider, crew: Crew, strategy: str) -> None:
    """Of each process some are served, and never more at once than the limit."""
    crew.strategy = strategy
    names = [f"p{number}" for number in range(4 if IS_WHOLE else 2)]
    for name in names:
        await crew.start(name, 60 if IS_WHOLE else 20, 0.0)
    # One may have made many calls before another has joined.
    while set(provider.started) != set(names):
        await provider.until(len(provider.started) + 1)
    await provider.until(len(provider.started) + (5_000 if IS_WHOLE else 250), 200.0)
    assert provider.most <= 2
    assert set(provider.started[-200:]) == set(names)


@pytest.mark.repeated
async def test_a_holder_dies_while_the_server_is_away(
    server: PostgresServer, provider: Provider, crew: Crew
) -> None:
    """What it had is free once it cannot come back any more."""
    crew.ttl = 3.0
    holder = await crew.start("holder", 2, 60.0)
    await provider.until(2)
    await crew.start("other", 4, 0.01)
    await asyncio.to_thread(server.crash)
    holder.kill()
    await asyncio.to_thread(server.start)
    await provider.until(30)
    assert provider.most <= 2
    assert "other" in provider.started
    # Who knew a state that the crash has forgotten cannot take another one for it.
    ask = "SELECT version FROM tool_cluster"
    ((version,),) = await asyncio.to_thread(server.ask, ask, "tests")
    assert version >= RESTART_STEP
