"""What does a process cost that takes part, and calls nothing?"""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from tests.cluster.conftest import BRIEF, Make, Service
from tests.cluster.crew import BOUND
from tool_engine import ToolEngine

ASK = "SELECT version FROM tool_cluster"


def member_of(engine: ToolEngine) -> Any:
    return engine.controller.member  # type: ignore[attr-defined]


async def until_beats(engines: list[ToolEngine], count: int) -> None:
    """Waits until each has said that often that it goes on."""
    until = {each: member_of(each)._row._beats + count for each in engines}
    for engine, beats in until.items():
        while member_of(engine)._row._beats < beats:  # noqa: ASYNC110 - its clock says it
            await asyncio.sleep(0.01)


async def test_those_that_are_idle_write_nothing(make: Make, service: Service, url: str) -> None:
    """For longer than a ttl: they are there all the same, and hear of what is new."""
    engines = [make(**BRIEF, idle_time=0.05) for _ in range(5)]
    service.gate.set()
    connection = await asyncpg.connect(url)
    async with asyncio.timeout(BOUND):
        for each in engines:
            assert (await each.execute("work")).is_success
        await until_beats(engines, 1)
        before = await connection.fetchval(ASK)
        await until_beats(engines, 6)
        assert await connection.fetchval(ASK) == before
        assert engines[0].cluster is not None
        found = await engines[0].cluster.snapshot()
        assert len(found.processes) == len(engines)
        assert all(each.is_connected and each.seconds_left > 0 for each in found.processes)
        for each in engines:
            assert (await each.execute("work")).is_success
            assert member_of(each).lost == 0
        newer = make(revision=2, bucket_limits={"ai": 1})
        await newer.load()
        for each in engines:
            while member_of(each).limits.revision < 2:  # noqa: ASYNC110 - its next message says it
                await asyncio.sleep(0.01)
    await connection.close()


@pytest.mark.parametrize("is_long", [False, True])
async def test_what_no_call_uses_goes_without_a_word_from_outside(
    make: Make, service: Service, is_long: bool
) -> None:
    """Also after a call that took longer than it may be idle."""
    engine = make(lease_ttl=600.0, idle_time=0.1)
    await engine.load()
    assert engine.cluster is not None
    call = asyncio.create_task(engine.execute("work"))
    await service.until(1)
    if is_long:
        await asyncio.sleep(0.3)
    assert [each.units for each in (await engine.cluster.snapshot()).processes] == [
        {"bucket:ai": 1}
    ]
    service.gate.set()
    assert (await call).is_success
    async with asyncio.timeout(BOUND):
        while [each.units for each in (await engine.cluster.snapshot()).processes] != [{}]:  # noqa: ASYNC110 - its clock says it
            await asyncio.sleep(0.01)


async def test_one_of_them_ends(make: Make, service: Service) -> None:
    """The others see so, and none of it stays."""
    engines = [make(**BRIEF, idle_time=0.05) for _ in range(3)]
    service.gate.set()
    async with asyncio.timeout(BOUND):
        for each in engines:
            assert (await each.execute("work")).is_success
        await until_beats(engines, 1)
        ended = member_of(engines[0])
        ended._running.cancel()
        ended._timer.cancel()
        cluster = engines[1].cluster
        assert cluster is not None
        while len((await cluster.snapshot()).processes) > 2:  # noqa: ASYNC110 - the others say it
            await asyncio.sleep(0.01)
