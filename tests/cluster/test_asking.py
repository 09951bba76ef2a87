"""Is a call refused only if no process has a unit for it, and what if the database is away?"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests import warm_async
from tests.postgres import PostgresServer
from tests.warm import ROOT
from tests.warm_async import AsyncProgram
from tool_engine.admission import ConcurrencySlot
from tool_engine.admission.cluster.cluster_limits import ClusterLimits
from tool_engine.admission.cluster.controller import ClusterController
from tool_engine.admission.cluster.member import ClusterMember
from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import ClusterUnavailableError, SlotRejectedError

BOUND = 20.0
NOWHERE = "postgresql://nobody@127.0.0.1:1/none"
Open = Callable[..., ClusterController]
Start = Callable[..., Awaitable["Process"]]


class Process:
    """One that does as it is bid."""

    def __init__(self, program: AsyncProgram) -> None:
        self.program = program

    async def bid(self, word: str) -> str:
        self.program.stdin.write(f"{word}\n".encode())
        return (await self.program.stdout.readline()).decode().strip()


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    running: list[AsyncProgram] = []

    async def begin(*words: str) -> Process:
        command = ("-m", "tests.cluster.baton", *words)
        program = await warm_async.start(*command, cwd=ROOT, imports=("tests.cluster.baton",))
        running.append(program)
        assert await program.stdout.readline() == b"ready\n"
        return Process(program)

    async with asyncio.timeout(2 * BOUND):
        yield begin
        for each in running:
            each.stdin.close()
            await each.wait()


@pytest.fixture
async def open_one() -> AsyncIterator[Open]:
    opened: list[ClusterController] = []

    def make(url: str, policy: str = "refuse", **config: object) -> ClusterController:
        limits = ClusterLimits(1, buckets={"ai": 2})
        # Who does not answer within the grace is taken for frozen, also on a busy machine.
        times = {"ttl": 1.0} if url == NOWHERE else {"ttl": 3 * BOUND, "grace": BOUND}
        name = f"p{len(opened)}"
        member = ClusterMember(url, "tests", name, limits, on_unavailable=policy, **times)
        opened.append(ClusterController(ConcurrencyConfig(**config), member))  # type: ignore[arg-type]
        return opened[-1]

    yield make
    for each in opened:
        await each.member.close()


async def test_reject_asks_first(open_one: Open, postgres_server: PostgresServer) -> None:
    """What another process has idle is had; what is in use is not waited for."""
    url = await asyncio.to_thread(postgres_server.fresh_database)
    one, other = (open_one(url, strategy="reject") for _ in range(2))
    async with asyncio.timeout(BOUND):
        async with one.slot("ai"), one.slot("ai"):
            with pytest.raises(SlotRejectedError, match=r"'ai' \(0 here of 2 of all processes in"):
                await other.acquire("ai")
        async with other.slot("ai"), other.slot("ai"):
            with pytest.raises(SlotRejectedError, match="and the strategy is 'reject'"):
                await one.acquire("ai")
    assert other.get_metrics().queue_length == one.get_metrics().queue_length == 0


async def test_no_more_are_refused_than_have_to_be(
    open_one: Open, postgres_server: PostgresServer
) -> None:
    """Of calls that come at once as many start as another process has idle units."""
    url = await asyncio.to_thread(postgres_server.fresh_database)
    controllers = [open_one(url, strategy="reject") for _ in range(3)]
    slots: list[ConcurrencySlot] = []

    async def call(controller: ClusterController) -> bool:
        try:
            slots.append(await controller.acquire("ai"))
        except SlotRejectedError:
            return False
        return True

    async with asyncio.timeout(BOUND):
        for turn in range(12):
            asking = controllers[turn % 3]
            found = await asyncio.gather(*(call(asking) for _ in range(5)))
            assert found.count(True) == 2
            while slots:
                asking.release(slots.pop())


@pytest.mark.parametrize("limits", [{"strategy": "reject"}, {"queue_size": 0}])
async def test_what_was_given_back_before_is_there(
    url: str, start: Start, limits: dict[str, Any]
) -> None:
    """Two processes pass one slot to and fro; who was refused has made it wanted."""
    one, other = [await start(url, name, json.dumps(limits)) for name in ("one", "other")]
    assert await one.bid("try") == "granted"
    for _ in range(20):
        assert await other.bid("try") in ("SlotRejectedError", "QueueFullError")
        assert await one.bid("end") == "ended"
        assert await other.bid("try") == "granted"
        one, other = other, one
    assert await one.bid("end") == "ended"


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
