"""Is a call that a shared rate holds up refused as by a rate of its own process?"""

from __future__ import annotations

import asyncio

import pytest

from tests.cluster.conftest import Make, Service
from tests.cluster.crew import BOUND
from tool_engine import ToolEngine, ToolExecutionResult

PERIOD = 60.0
SLOW = {"calls": 1, "period": PERIOD}


async def take_the_start(engine: ToolEngine, service: Service, tool: str) -> None:
    service.gate.set()
    await engine.load()
    assert (await engine.execute(tool)).is_success


def check_refused(result: ToolExecutionResult) -> None:
    assert result.error_type == "rate_limited"
    assert 0 < result.metadata["error_details"]["retry_after"] <= PERIOD + 1
    assert "1/min" in str(result.error)
    assert "allows no call for another" in str(result.error)


def make_by(make: Make, strategy: str, **fields: object) -> ToolEngine:
    # To be answered takes a while on a busy machine; of `reject` nothing else does.
    timeout = {"queue_timeout": BOUND if strategy == "reject" else 2.0, "max_concurrent": 50}
    return make(concurrency={"strategy": strategy, **timeout}, bucket_limits={}, **fields)


@pytest.mark.parametrize("strategy", ["fifo", "priority", "fair", "reject"])
async def test_the_rate_of_a_bucket(make: Make, service: Service, strategy: str) -> None:
    engines = [make_by(make, strategy, bucket_rates={"ai": SLOW}) for _ in range(2)]
    await take_the_start(engines[0], service, "work")
    async with asyncio.timeout(BOUND):
        for each in engines:
            await each.load()
            check_refused(await each.execute("work"))


@pytest.mark.parametrize("strategy", ["fifo", "reject"])
async def test_the_rate_of_a_tool(make: Make, service: Service, strategy: str) -> None:
    engines = [make_by(make, strategy) for _ in range(2)]
    for each in engines:
        concurrency = {"bucket": "ai", "scope": "cluster"}
        each.tool(name="slow", rate="1/min", concurrency=concurrency)(service.work)
    await take_the_start(engines[0], service, "slow")
    async with asyncio.timeout(BOUND):
        for each in engines:
            await each.load()
            check_refused(await each.execute("slow"))


async def test_a_unit_that_is_lacking_is_no_rate(make: Make, service: Service) -> None:
    """A bucket with both: what holds the call up is what its error says."""
    fast = {"calls": 1000, "period": PERIOD}
    concurrency = {"strategy": "fifo", "queue_timeout": 0.5, "max_concurrent": 50}
    limits = {"bucket_limits": {"ai": 1}, "bucket_rates": {"ai": fast}}
    engines = [make(concurrency=concurrency, **limits) for _ in range(2)]
    for each in engines:
        await each.load()
    running = asyncio.create_task(engines[0].execute("work"))
    await service.until(1)
    async with asyncio.timeout(BOUND):
        assert (await engines[1].execute("work")).error_type == "queue_timeout"
        service.gate.set()
        assert (await running).is_success


async def test_explain_says_when(make: Make, service: Service) -> None:
    engines = [make(bucket_limits={}, bucket_rates={"ai": SLOW}) for _ in range(2)]
    await take_the_start(engines[0], service, "work")
    waiting = asyncio.create_task(engines[1].execute("work"))
    cluster = engines[1].cluster
    assert cluster is not None
    async with asyncio.timeout(BOUND):
        while not (found := engines[1].controller.snapshot().waiting):  # noqa: ASYNC110 - the database says it
            await asyncio.sleep(0.01)
        call_id = str(found[0].call_id)
        while " s at the earliest" not in (  # noqa: ASYNC110 - the database says it
            said := str(engines[1].controller.explain(call_id))
        ):
            await asyncio.sleep(0.01)
        assert "the rate of bucket 'ai' (1/min) is shared with other processes" in said
        assert " to go" not in said, "what others start before is not known"
        said = await cluster.explain(call_id)
    assert "for rate:ai in the cluster" in said
    assert "lets the next call through in" in said
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
