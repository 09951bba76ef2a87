"""Does every call end once, whatever features meet in it? See `joints.py`."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.calls.audit import Audit, check_idle, make_engine
from tests.calls.virtual_loop import VirtualLoop
from tests.effort import share_of
from tests.postgres_server import PostgresServer
from tests.properties.joints import World
from tool_engine import ClusterConfig, ConcurrencyConfig, ToolEngine, ToolEngineConfig

BOUND = 120.0
"""Seconds, of which a busy machine takes a few."""
END_SESSIONS = (
    # Not those that are about to prepare the database.
    "SELECT pg_terminate_backend(pid) FROM pg_locks"
    " WHERE locktype = 'advisory' AND mode = 'ShareLock' GROUP BY pid"
)
STRATEGIES = ("fifo", "priority", "fair", "reject")


def limits(chance: random.Random) -> dict[str, Any]:
    """Limits that every tool fits into."""
    adaptive = {"kind": chance.choice(("aimd", "gradient2")), "min": 2, "max": 4}
    return {
        "max_concurrent": chance.randint(2, 4),
        "strategy": chance.choice(STRATEGIES),
        "queue_size": chance.choice((2, 6, 100)),
        "queue_timeout": chance.choice((0.5, 2.0, 30.0, None)),
        "adaptive": chance.choice(({}, {"custom": adaptive})),
    }


@settings(max_examples=share_of(400), suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32))
def test_in_one_engine(seed: int) -> None:
    """K28, K29, C26: hours of it, without any time passing."""

    async def play() -> None:
        world = World(chance, lambda: make_engine(**limits(chance), max_records=100_000))
        async with await world.open() as engine, asyncio.timeout(100_000):
            audit = Audit(engine)
            await world.play(12)
            await world.until_quiet()
            await asyncio.sleep(1_000)
            await audit.check(world.results)
            await world.check(engine)

    chance = random.Random(seed)  # noqa: S311 - so that it can be played again
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(play())


async def play_in_two(
    url: str,
    chance: random.Random,
    fail: Callable[[], Awaitable[object]] | None = None,
    **more: Any,
) -> World:
    """Two engines that share a database; one may give way to another, and what `fail` does."""

    def make() -> ToolEngine:
        config = ToolEngineConfig(
            tools_directory=folder.name, auto_reload=False, records=url, close_timeout=0.1
        )
        made.append(ToolEngine(config, concurrency=ConcurrencyConfig(**shared, **more)))
        return made[-1]

    made: list[ToolEngine] = []
    shared = limits(chance)
    folder = TemporaryDirectory()
    world = World(chance, make, scale=0.02, folder=Path(folder.name), fail=fail)
    try:
        for _ in range(2):
            await world.open()
        async with asyncio.timeout(BOUND):
            await world.play(40, "close")
            await world.until_quiet()
        for engine in made:
            await engine.close()
        while any(engine.controller.get_metrics().zombies for engine in made):
            await world.rest(1)  # what ignores its cancellation ends by itself
        for engine in made:
            check_idle(engine)
        await world.check(await world.open())
    finally:
        for engine in made:
            await engine.close()
        folder.cleanup()
    return world


@pytest.mark.parametrize("seed", range(share_of(60)))
async def test_in_two_engines_of_one_database(seed: int, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'records.db'}"
    world = await play_in_two(url, random.Random(seed))  # noqa: S311 - the same
    assert world.ends


@pytest.mark.parametrize("seed", range(share_of(60)))
async def test_in_a_cluster(seed: int, postgres_server: PostgresServer) -> None:
    """One limit for both engines, in calls, sessions and tasks, while one gives way to another."""
    chance = random.Random(seed)  # noqa: S311 - the same
    url = await asyncio.to_thread(postgres_server.fresh_database)
    cluster = ClusterConfig(
        url=url,
        revision=1,
        bucket_limits={"custom": 2, "spare": 2},
        key_limits=chance.choice(({}, {"conversation_id": 2})),
        idle_time=chance.choice((0.05, 5)),
        # On a busy machine no process is to be given up.
        lease_ttl=600,
        session_grace=60,
    )
    world = await play_in_two(url, chance, cluster=cluster)
    assert world.ends
    assert world.most <= 2


@pytest.mark.parametrize("seed", range(share_of(60)))
async def test_in_a_cluster_whose_sessions_end(seed: int, postgres_server: PostgresServer) -> None:
    """Calls lose their units while they run, wait, lend or end: one record and event for each."""
    chance = random.Random(seed)  # noqa: S311 - the same
    url = await asyncio.to_thread(postgres_server.fresh_database)

    async def end_sessions() -> None:
        connection = await asyncpg.connect(url)
        await connection.execute(END_SESSIONS)
        await connection.close()

    # Hardly a process is back within 2/3 of the grace.
    cluster = ClusterConfig(
        url=url,
        revision=1,
        bucket_limits={"custom": 2, "spare": 2},
        key_limits=chance.choice(({}, {"conversation_id": 2})),
        lease_ttl=600,
        session_grace=0.02,
    )
    world = await play_in_two(url, chance, end_sessions, cluster=cluster)
    assert world.ends
