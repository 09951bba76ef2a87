"""What becomes of what a process has while its event loop stands still, or is lent?"""

from __future__ import annotations

import asyncio

import pytest

from tests.cluster.conftest import Make, Service
from tests.cluster.crew import BOUND, Crew
from tests.cluster.provider import Provider
from tool_engine import ToolExecutionContext
from tool_engine.admission.cluster.cluster_limits import ClusterLimits
from tool_engine.admission.cluster.controller import ClusterController
from tool_engine.admission.cluster.member import ClusterMember
from tool_engine.config import ConcurrencyConfig

TTL = 3.0


@pytest.mark.repeated
async def test_a_blocked_event_loop(crew: Crew, provider: Provider) -> None:
    """For two ttl: what is in use stays, what is idle goes, and the call is not lost."""
    crew.blocks, crew.ttl = 2 * TTL, TTL
    blocked = await crew.start("blocked", 2, 0.0)
    await provider.until(2)
    await provider.until_left("blocked", 1)
    crew.blocks = 0.0
    await crew.start("other", 4, 0.005)
    await provider.until(2 + 30)
    assert provider.names["blocked"] == 1, "others have what it has idle while it is blocked"
    await provider.until_left("blocked", 0)
    assert provider.most == 2
    blocked.stdin.close()
    async with asyncio.timeout(BOUND):
        said = (await blocked.stdout.read()).decode()
    assert said.endswith("lost 0\n"), said
    await provider.until(len(provider.started) + 30)
    assert provider.most == 2


@pytest.mark.repeated
async def test_a_limit_that_changes_under_load(crew: Crew, provider: Provider) -> None:
    """2, 1 and 4: a lowered limit drains, and a raised one is used, in all processes."""
    for name in ("one", "two", "three"):
        await crew.start(name, 6, 0.01)
    await provider.until(60)
    assert provider.most == 2
    member = ClusterMember(
        crew.url, "tests", "here", ClusterLimits(1, buckets={"ai": 2}), ttl=crew.ttl
    )
    controller = ClusterController(ConcurrencyConfig(), member)
    assert await member.join(BOUND)
    for revision, limit in ((2, 1), (3, 4), (4, 2)):
        member.configure(ClusterLimits(revision, buckets={"ai": limit}))
        # What was granted under the limit before is with the provider for a while.
        async with asyncio.timeout(BOUND):
            while True:
                provider.most = provider.running
                await provider.until(len(provider.started) + 40)
                if provider.most == limit:
                    break
    await controller.leave()


@pytest.mark.repeated
async def test_a_unit_that_went_elsewhere_while_it_was_lent(make: Make, service: Service) -> None:
    """A nested call's parent goes on once it has its slot again, before all that wait."""
    first, second = make(), make()
    inner = Service()

    async def outer(context: ToolExecutionContext) -> int:
        """Wait for a call of a bucket of its own, then work."""
        assert (await context.call("inner")).is_success
        return await service.work()

    first.tool(name="inner", concurrency={"bucket": "own"})(inner.work)
    first.tool(name="outer", concurrency={"bucket": "ai"})(outer)
    for engine in (first, second):
        await engine.load()
    parents = [asyncio.create_task(first.execute("outer")) for _ in range(2)]
    await inner.until(2)
    elsewhere = [asyncio.create_task(second.execute("work")) for _ in range(6)]
    await service.until(2)
    inner.gate.set()
    async with asyncio.timeout(BOUND):
        while first.controller.get_metrics().queue_length < 2:  # noqa: ASYNC110 - calls say it
            await asyncio.sleep(0.01)
    assert service.running == 2
    service.gate.set()
    async with asyncio.timeout(BOUND):
        results = await asyncio.gather(*parents, *elsewhere)
    assert [result.error_type for result in results] == [None] * 8
    assert service.most == 2


@pytest.mark.repeated
async def test_a_call_that_is_tried_again(make: Make, service: Service) -> None:
    """Between two tries others may have its unit; it waits for one as any other call."""
    first, second = make(), make()
    tries = 0

    async def flaky() -> int:
        """Fail at first."""
        nonlocal tries
        tries += 1
        if tries < 3:
            raise ValueError("not yet")
        return await service.work()

    retry = {"attempts": 5, "backoff": 0.05, "on": ["execution_error"]}
    concurrency = {"bucket": "ai"}
    first.tool(name="flaky", concurrency=concurrency, retry=retry, idempotent=True)(flaky)
    for engine in (first, second):
        await engine.load()
    calls = [asyncio.create_task(second.execute("work")) for _ in range(4)]
    await service.until(2)
    calls.append(asyncio.create_task(first.execute("flaky")))
    service.gate.set()
    async with asyncio.timeout(BOUND):
        results = await asyncio.gather(*calls)
    assert [result.error_type for result in results] == [None] * 5
    assert tries == 3
    assert service.most <= 2
