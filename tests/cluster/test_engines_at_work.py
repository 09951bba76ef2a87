"""Do shared limits hold while tools are changed, tasks run, and buckets defend themselves?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from tests.cluster.conftest import Make, Service
from tests.cluster.crew import BOUND
from tool_engine import ClusterConfig, ConcurrencyConfig, ToolEngine, ToolEngineConfig

Edit = Callable[[str], Awaitable[None]]
LIMITS = {"bucket_limits": {"ai": 2, "mail": 1}}
FILE = """
name: edited
version: 1.0.0
description: Works as long as the service does.
entry: {type: python, handler: "tests.cluster.test_engines_at_work:edited"}
concurrency: CONCURRENCY
"""
services: list[Service] = []
"""What the tool of the file calls."""


async def edited() -> int:
    """Work."""
    return await services[-1].work()


async def until_waiting(engine: ToolEngine, count: int) -> None:
    cluster = engine.cluster
    assert cluster is not None
    async with asyncio.timeout(BOUND):
        while len((await cluster.snapshot()).waiting) != count:  # noqa: ASYNC110 - it alone knows
            await asyncio.sleep(0.01)


async def used_in_cluster(engine: ToolEngine) -> dict[str, int]:
    assert engine.cluster is not None
    return (await engine.cluster.snapshot()).used


@pytest.fixture
async def edit(
    make: Make, service: Service, tmp_path: Path
) -> AsyncIterator[tuple[ToolEngine, ToolEngine, Edit]]:
    """Two engines, and what changes their tool."""
    services.append(service)
    first, second = make(**LIMITS), make(**LIMITS)

    async def change(concurrency: str) -> None:
        (tmp_path / "edited.yaml").write_text(FILE.replace("CONCURRENCY", concurrency))
        for each in (first, second):
            await each.reload()
            assert each.load_errors == []

    for each in (first, second):
        await each.load()
    await change("{bucket: ai}")
    yield first, second, change
    services.pop()


async def test_a_tool_comes_to_another_bucket_while_its_calls_wait(
    edit: tuple[ToolEngine, ToolEngine, Edit], service: Service
) -> None:
    """Those that wait go on as they came; later ones go by the new definition."""
    first, second, change = edit
    calls = [asyncio.create_task(first.execute("edited")) for _ in range(2)]
    await service.until(2)
    calls += [asyncio.create_task(second.execute("edited")) for _ in range(3)]
    await until_waiting(second, 3)
    await change("{bucket: mail}")
    later = asyncio.create_task(second.execute("edited"))
    await service.until(3)
    assert (await used_in_cluster(first)) == {"bucket:ai": 2, "bucket:mail": 1}
    assert not later.done()
    service.gate.set()
    async with asyncio.timeout(BOUND):
        results = await asyncio.gather(*calls, later)
    assert [each.error_type for each in results] == [None] * 6
    assert service.most <= 3


@pytest.mark.parametrize("weights", [(1, 2), (2, 1)])
async def test_a_tool_changes_its_weight_while_its_calls_wait(
    edit: tuple[ToolEngine, ToolEngine, Edit], service: Service, weights: tuple[int, int]
) -> None:
    first, second, change = edit
    before, after = weights
    await change(f"{{bucket: ai, weight: {before}}}")
    running = 2 // before
    calls = [asyncio.create_task(first.execute("edited")) for _ in range(running)]
    await service.until(running)
    calls += [asyncio.create_task(second.execute("edited")) for _ in range(3)]
    await until_waiting(second, 3)
    await change(f"{{bucket: ai, weight: {after}}}")
    calls += [asyncio.create_task(each.execute("edited")) for each in (first, second)]
    await until_waiting(second, 5)
    assert (await used_in_cluster(first)) == {"bucket:ai": 2}
    service.gate.set()
    async with asyncio.timeout(BOUND):
        results = await asyncio.gather(*calls)
    assert [each.error_type for each in results] == [None] * len(calls)
    assert service.most <= 2


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{bucket: own, key: tool}", "{bucket: own, key: tool, scope: cluster}"),
        (
            "{bucket: own, key: tool, breaker: {failures: 2}}",
            "{bucket: own, key: tool, breaker: {failures: 2}, scope: cluster}",
        ),
        ("{bucket: own}\nrate: 1/h", "{bucket: own, scope: cluster}\nrate: 100/s"),
    ],
)
async def test_what_a_tool_limits_comes_to_be_shared_while_its_calls_wait(
    edit: tuple[ToolEngine, ToolEngine, Edit], service: Service, before: str, after: str
) -> None:
    """In a bucket of which nothing was shared: they go on, and ask the others from then on."""
    first, second, change = edit
    await change(before)
    calls = [asyncio.create_task(first.execute("edited")) for _ in range(3)]
    await service.until(1)
    await change(after)
    service.gate.set()
    calls += [asyncio.create_task(each.execute("edited")) for each in (first, second) * 2]
    async with asyncio.timeout(BOUND):
        results = await asyncio.gather(*calls)
    assert [each.error_type for each in results] == [None] * 7
    assert service.most == 1 or "rate" in after
    assert first.cluster is not None
    assert (await first.cluster.snapshot()).limits.keys() - {"bucket:ai", "bucket:mail"}


@pytest.mark.parametrize("runs", [True, False])
async def test_a_lowered_limit_of_a_key_holds_for_units_that_stay(
    edit: tuple[ToolEngine, ToolEngine, Edit], service: Service, *, runs: bool
) -> None:
    """Each of two processes has one, and would use it again and again without asking."""
    first, second, change = edit
    await change("{bucket: own, key: tool, key_limit: 2, scope: cluster}")
    calls = [asyncio.create_task(each.execute("edited")) for each in (first, second)]
    await service.until(2)
    if not runs:
        service.gate.set()
        await asyncio.gather(*calls)
    await change("{bucket: own, key: tool, key_limit: 1, scope: cluster}")
    service.gate.set()
    await asyncio.gather(*calls)
    service.gate.clear()
    service.most = 0
    calls = [asyncio.create_task(each.execute("edited")) for each in (first, second)]
    await service.until(1)
    await until_waiting(first, 1)
    service.gate.set()
    async with asyncio.timeout(BOUND):
        results = await asyncio.gather(*calls)
    assert [each.error_type for each in results] == [None, None]
    assert service.most == 1


async def test_equal_calls_of_one_process_need_one_unit(make: Make, service: Service) -> None:
    """`single_flight` stays in the process; each process that calls needs one of its own."""
    limits = {"bucket_limits": {"ai": 2}}
    first, second = make(**limits), make(**limits)
    for each in (first, second):
        concurrency = {"bucket": "ai", "key": "tool", "collision": "single_flight"}
        each.tool(name="once", effect="read", concurrency=concurrency)(service.work)
        await each.load()
    calls = [asyncio.create_task(each.execute("once")) for each in (first, second) * 4]
    await service.until(2)
    assert (await used_in_cluster(first)) == {"bucket:ai": 2}
    service.gate.set()
    async with asyncio.timeout(BOUND):
        results = await asyncio.gather(*calls)
    assert [each.error_type for each in results] == [None] * 8
    assert service.ended == 2


async def test_tasks_that_are_kept_in_the_database_of_the_cluster(
    url: str, service: Service, tmp_path: Path
) -> None:
    """What one process starts, all run, within the limit; records and units share a database."""
    engines = []
    for name in ("one", "other"):
        cluster = ClusterConfig(url=url, bucket_limits={"ai": 2})
        config = ToolEngineConfig(tools_directory=str(tmp_path), process=name, records=url)
        limits = ConcurrencyConfig(max_concurrent=50, queue_timeout=None, cluster=cluster)
        engine = ToolEngine(config, concurrency=limits)
        engine.tool(name="work", concurrency={"bucket": "ai"})(service.work)
        await engine.load()
        engines.append(engine)
    try:
        handles = [await engines[0].start("work") for _ in range(6)]
        await service.until(2)
        await until_waiting(engines[1], 4)
        assert service.running == 2
        service.gate.set()
        async with asyncio.timeout(BOUND):
            results = [await each.wait() for each in handles]
        assert [each.error_type for each in results] == [None] * 6
        assert service.most == 2
    finally:
        for engine in engines:
            await engine.close()


async def test_an_adaptive_bucket_of_the_cluster(make: Make, service: Service) -> None:
    """Its limit finds itself in each process, within what all have together."""
    service.gate.set()
    own = {"max_concurrent": 50, "queue_timeout": None, "adaptive": {"ai": {"min": 1, "max": 20}}}
    limits = {"bucket_limits": {"ai": 3}}
    engines = [make(concurrency=own, **limits) for _ in range(2)]
    for each in engines:
        await each.load()
    async with asyncio.timeout(BOUND):
        results = await asyncio.gather(*(engines[i % 2].execute("work") for i in range(120)))
    assert [each.error_type for each in results] == [None] * 120
    assert service.most <= 3
    assert service.running == 0


async def test_an_overloaded_bucket_of_the_cluster(make: Make) -> None:
    """Calls that have waited for more than twice the target are refused when their turn comes."""
    overload = {"ai": {"target": 0.05, "interval": 0.1}}
    own = {"max_concurrent": 50, "queue_timeout": None, "overload": overload}
    limits = {"bucket_limits": {"ai": 1}}
    engines = [make(concurrency=own, **limits) for _ in range(2)]
    running = most = 0

    async def slow() -> None:
        """Work for a moment."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.06)
        running -= 1

    for each in engines:
        each.tool(name="slow", concurrency={"bucket": "ai"})(slow)
        await each.load()
    async with asyncio.timeout(BOUND):
        results = await asyncio.gather(*(engines[i % 2].execute("slow") for i in range(24)))
        kinds = [each.error_type for each in results]
        assert set(kinds) == {None, "rejected"}
        assert (await used_in_cluster(engines[0])).get("bucket:ai", 0) <= 1
        for each in engines:  # what was refused keeps no unit
            assert (await each.execute("slow")).is_success
    assert most == 1
