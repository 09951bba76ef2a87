"""Do processes that share a database keep one limit, whatever becomes of them?"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.cluster.crew import BOUND, Crew
from tests.cluster.provider import Provider
from tests.postgres import PostgresServer
from tool_engine.admission.cluster.cluster_limits import ClusterLimits
from tool_engine.admission.cluster.controller import ClusterController
from tool_engine.admission.cluster.member import ClusterMember
from tool_engine.config import ConcurrencyConfig

Open = Callable[[], Awaitable[ClusterController]]
LIMITS = ClusterLimits(1, buckets={"ai": 2})


@pytest.fixture
async def open_one(url: str) -> AsyncIterator[Callable[[], ClusterController]]:
    opened: list[ClusterController] = []

    def make(ttl: float = 3 * BOUND, grace: float = BOUND) -> ClusterController:
        # On a busy machine one does not come back in 0.2 s: a life that is given up connects anew.
        name = f"p{len(opened)}"
        member = ClusterMember(url, "tests", name, LIMITS, ttl=ttl, grace=grace)
        config = ConcurrencyConfig(max_concurrent=100, queue_timeout=None)
        opened.append(ClusterController(config, member))
        return opened[-1]

    yield make
    for each in opened:
        await each.member.close()


async def test_one_limit(open_one: Callable[[], ClusterController]) -> None:
    controllers = [open_one() for _ in range(3)]
    running = most = 0

    async def call(controller: ClusterController) -> None:
        nonlocal running, most
        for _ in range(10):
            async with controller.slot("ai"):
                running += 1
                most = max(most, running)
                await asyncio.sleep(0)
                running -= 1

    async with asyncio.timeout(BOUND), asyncio.TaskGroup() as group:
        for number in range(12):
            group.create_task(call(controllers[number % 3]))
    assert most == 2
    for each in controllers:
        assert each.get_metrics().current_concurrent == 0


async def test_nothing_is_asked_while_nobody_competes(
    open_one: Callable[[], ClusterController],
) -> None:
    controller = open_one()
    async with controller.slot("ai"):
        pass
    before = controller.member.count()["statements"]
    for _ in range(1000):
        async with controller.slot("ai"):
            pass
    assert controller.member.count()["statements"] == before


async def test_a_process_that_needs_nothing_listens_to_nothing(
    open_one: Callable[..., ClusterController],
) -> None:
    """Each notification wakes all who listen in a database; it does again when it takes part."""
    member = (controller := open_one(ttl=3.0, grace=0.3)).member

    async def count_channels() -> int:
        connection: Any = member._connection
        async with connection._turn:
            ask = "SELECT count(*) FROM pg_listening_channels()"
            return int(await connection._open_connection.fetchval(ask))

    async with asyncio.timeout(BOUND):
        for _ in range(2):
            async with controller.slot("ai"):
                while not await count_channels():  # noqa: ASYNC110 - only the database knows
                    await asyncio.sleep(0.01)
                assert await count_channels() == 1
            member.let_idle_go()
            while await count_channels():  # noqa: ASYNC110 - only the database knows
                await asyncio.sleep(0.01)
            assert not member._connection.is_listening


@pytest.mark.repeated
async def test_a_process_that_is_killed(crew: Crew, provider: Provider) -> None:
    """What it held is free soon after; what it waited for is forgotten."""
    holder = await crew.start("holder", 52, 60.0)
    await provider.until(2)
    await crew.start("other", 4, 0.01)
    await asyncio.sleep(0.3)
    assert provider.started == ["holder", "holder"]
    holder.kill()
    await provider.until(40)
    assert provider.most == 2
    assert set(provider.started[2:]) == {"other"}


@pytest.mark.repeated
async def test_a_process_that_is_frozen(crew: Crew, provider: Provider) -> None:
    """Others have its units when its time is over; when it wakes, its calls are lost."""
    crew.ttl = 3.0
    holder = await crew.start("holder", 2, 60.0)
    await provider.until(2)
    await crew.start("other", 4, 0.01)
    holder.send_signal(signal.SIGSTOP)
    await provider.until(30)
    holder.send_signal(signal.SIGCONT)
    assert holder.stdout is not None
    async with asyncio.timeout(BOUND):
        while b"cluster_leases_lost" not in (line := await holder.stdout.readline()):
            assert line, "it ended before it knew"
        holder.stdin.close()
        while b"cluster_leases_lost" in (line := await holder.stdout.readline()):
            pass
    assert line == b"lost 2\n"


async def test_the_end_of_a_connection_that_is_heard_late_ends_no_other_one(
    open_one: Callable[[], ClusterController], postgres_server: PostgresServer
) -> None:
    """Each end made the next connection end as well, for ever."""
    controller, other = open_one(), open_one()
    async with asyncio.timeout(BOUND), controller.slot("ai"), controller.slot("ai"):
        connection: Any = controller.member._connection
        before = connection._connection
        end = f"SELECT pg_terminate_backend({before.get_server_pid()})"
        await asyncio.to_thread(postgres_server.ask, end)
        while connection._connection in (before, None):  # noqa: ASYNC110 - only it knows
            await asyncio.sleep(0.0005)
        made = connection._connection
        connection._hear_end(before)
        assert connection._connection is made
    async with asyncio.timeout(BOUND), other.slot("ai"), other.slot("ai"):
        assert connection._connection is made
    assert controller.lost == 0


@pytest.mark.repeated
async def test_sessions_that_are_ended(
    crew: Crew, provider: Provider, postgres_server: PostgresServer
) -> None:
    """All come back in time: no call is lost, and the limit holds."""
    crew.grace = 3.0
    for name in ("one", "other"):
        await crew.start(name, 4, 0.02)
    for count in (20, 60, 100):
        await provider.until(count)
        await asyncio.to_thread(
            postgres_server.ask,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = 'tests' AND pid <> pg_backend_pid()",
        )
    await provider.until(150)
    assert provider.most <= 2
    for process in crew.running:
        process.stdin.close()
        assert process.stdout is not None
        async with asyncio.timeout(BOUND):
            said = await process.stdout.read()
        assert said.endswith(b"lost 0\n"), said
