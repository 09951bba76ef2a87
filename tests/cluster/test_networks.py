"""Do processes keep one limit behind a network that delays, cuts and half-closes?"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable

import pytest

from tests.cluster.crew import BOUND, Crew
from tests.cluster.provider import Provider
from tests.effort import IS_WHOLE
from tests.postgres import PostgresServer
from tests.relay import Relay, relayed
from tool_engine.admission.cluster.cluster_limits import ClusterLimits
from tool_engine.admission.cluster.controller import ClusterController
from tool_engine.admission.cluster.member import ClusterMember
from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import AdmissionError

ROUNDS = 20 if IS_WHOLE else 2
CANCELS = 1_000 if IS_WHOLE else 60
Open = Callable[[], ClusterController]


@pytest.fixture
async def relay(crew: Crew, postgres_server: PostgresServer) -> AsyncIterator[Relay]:
    """Stands between all processes of the crew and their database."""
    async with relayed(postgres_server.port) as relay:
        crew.url = crew.url.replace(f":{postgres_server.port}/", f":{relay.port}/")
        assert str(relay.port) in crew.url
        yield relay


async def end_all(crew: Crew) -> list[str]:
    """Ends all processes; what each has said last."""
    said = []
    for process in crew.running:
        process.stdin.close()
        async with asyncio.timeout(BOUND):
            said.append((await process.stdout.read()).decode().splitlines()[-1])
    return said


async def test_a_network_that_delays(relay: Relay, crew: Crew, provider: Provider) -> None:
    """Each piece by another time: what is said overtakes nothing, and no call is lost."""
    chance = random.Random(1)  # noqa: S311 - a test
    relay.delay = lambda: chance.choice((0.0, 0.001, 0.02))
    crew.grace = 3.0
    for name in ("one", "two", "three"):
        await crew.start(name, 6, 0.005)
    await provider.until(40 * ROUNDS)
    while set(provider.started) != {"one", "two", "three"}:
        await provider.until(len(provider.started) + 1)
    assert provider.most <= 2
    assert await end_all(crew) == ["lost 0"] * 3


async def test_a_network_that_is_cut(relay: Relay, crew: Crew, provider: Provider) -> None:
    """All come back, with what they had or without, and the limit holds."""
    crew.grace = 1.0
    for name in ("one", "two"):
        await crew.start(name, 6, 0.005)
    await provider.until(30)
    for number in range(ROUNDS):
        await relay.cut()
        # For a moment no call is lost; for longer than the grace those that run are.
        await asyncio.sleep((number % 2) * 2 * crew.grace)
        await relay.restore()
        await provider.until(len(provider.started) + 30)
        assert provider.most <= 2


async def test_connections_that_only_the_server_sees_end(
    relay: Relay, crew: Crew, provider: Provider
) -> None:
    """Each process notices it with its next message, and goes on."""
    for name in ("one", "two"):
        await crew.start(name, 6, 0.005)
    for _ in range(ROUNDS):
        await provider.until(len(provider.started) + 30)
        relay.sever()
    both, count = {"one", "two"}, len(provider.started)
    while set(provider.started[count:]) != both:
        await provider.until(len(provider.started) + 1)
    said = await end_all(crew)
    assert [line.startswith("lost ") for line in said] == [True, True], said


@pytest.fixture
async def open_one(url: str) -> AsyncIterator[Open]:
    opened: list[ClusterController] = []

    def make() -> ClusterController:
        limits = ClusterLimits(1, buckets={"ai": 1})
        name = f"p{len(opened)}"
        member = ClusterMember(url, "tests", name, limits, ttl=3 * BOUND, grace=BOUND)
        opened.append(ClusterController(ConcurrencyConfig(queue_timeout=None), member))
        return opened[-1]

    yield make
    for each in opened:
        await each.leave()


async def test_calls_that_are_cancelled_as_they_are_granted(open_one: Open) -> None:
    """At every moment around it: the unit is used by the next one, and nothing is kept."""
    one, other = open_one(), open_one()
    chance = random.Random(2)  # noqa: S311 - a test

    async def call() -> None:
        with contextlib.suppress(AdmissionError):
            async with other.slot("ai"):
                pass

    for _ in range(CANCELS):
        async with asyncio.timeout(BOUND):
            slot = await one.acquire("ai")
            waiting = asyncio.create_task(call())
            await asyncio.sleep(chance.choice((0, 0.002)))
            one.release(slot)
            await asyncio.sleep(chance.uniform(0, 0.004))
            waiting.cancel()
            await asyncio.wait([waiting])
    for each in (one, other, one):
        async with asyncio.timeout(BOUND), each.slot("ai"):
            assert (other if each is one else one).try_acquire("ai") is None
    for each in (one, other):
        assert not each.member._waiters
        assert not each.member._numbers
        assert each.get_metrics().current_concurrent == 0
