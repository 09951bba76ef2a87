"""Is a call refused only if no process has a unit for it, and what if the database is away?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from tests.postgres import PostgresServer
from tool_engine.admission.cluster.cluster_limits import ClusterLimits
from tool_engine.admission.cluster.controller import ClusterController
from tool_engine.admission.cluster.member import ClusterMember
from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import ClusterUnavailableError, SlotRejectedError

BOUND = 20.0
NOWHERE = "postgresql://nobody@127.0.0.1:1/none"
Open = Callable[..., ClusterController]


@pytest.fixture
async def open_one() -> AsyncIterator[Open]:
    opened: list[ClusterController] = []

    def make(url: str, policy: str = "refuse", **config: object) -> ClusterController:
        limits = ClusterLimits(1, buckets={"ai": 2})
        name = f"p{len(opened)}"
        member = ClusterMember(url, "tests", name, limits, ttl=1.0, on_unavailable=policy)
        opened.append(ClusterController(ConcurrencyConfig(**config), member))  # type: ignore[arg-type]
        return opened[-1]

    yield make
    for each in opened:
        await each.member.close()


async def settle(controller: ClusterController) -> None:
    """Waits until the others can know what was given back."""
    await asyncio.sleep(0)
    while sending := controller.member._sending:
        await asyncio.wait(sending)


async def test_reject_asks_first(open_one: Open, postgres_server: PostgresServer) -> None:
    """What another process has idle is had; what is in use is not waited for."""
    url = await asyncio.to_thread(postgres_server.fresh_database)
    one, other = (open_one(url, strategy="reject") for _ in range(2))
    async with asyncio.timeout(BOUND):
        async with one.slot("ai"), one.slot("ai"):
            with pytest.raises(SlotRejectedError, match=r"'ai' \(0 here of 2 of all processes in"):
                await other.acquire("ai")
        await settle(one)
        async with other.slot("ai"), other.slot("ai"):
            with pytest.raises(SlotRejectedError, match="and the strategy is 'reject'"):
                await one.acquire("ai")
    assert other.get_metrics().queue_length == one.get_metrics().queue_length == 0


async def test_calls_are_refused_while_the_database_is_away(open_one: Open) -> None:
    one = open_one(NOWHERE)
    async with asyncio.timeout(BOUND):
        for _ in range(2):
            with pytest.raises(
                ClusterUnavailableError, match="set on_unavailable to 'local'"
            ) as caught:
                await one.acquire("ai")
            assert caught.value.retry_after is not None
        async with one.slot("files"):
            pass


async def test_limits_hold_in_each_process_while_the_database_is_away(open_one: Open) -> None:
    one = open_one(NOWHERE, "local")
    async with asyncio.timeout(BOUND):
        async with one.slot("ai"), one.slot("ai"):
            assert one.try_acquire("ai") is None
        async with one.slot("ai"):
            pass
