"""Does nothing hang, and no limit break, where an operator changes what stands in the database?"""

from __future__ import annotations

import asyncio

import asyncpg  # type: ignore[import-untyped]
import pytest

from tests.cluster.conftest import BRIEF, Make, Service
from tests.cluster.crew import BOUND
from tool_engine import ToolEngine, ToolExecutionContext, ToolExecutionResult
from tool_engine.errors import ConfigurationError

Running = asyncio.Task[ToolExecutionResult]
GRANT = "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO guest"


async def do(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        for each in statements:
            await connection.execute(each)
    finally:
        await connection.close()


async def assert_going_on(service: Service, running: list[Running], calls: list[Running]) -> None:
    """Lets those end that ran as the state was removed, and then those that came after it."""
    async with asyncio.timeout(BOUND):
        # The former are lost at the latest when a ttl is over, and their work is cancelled.
        for each in await asyncio.gather(*running):
            assert each.is_success or each.error_type == "lease_lost", each.error
        service.gate.set()
        for each in await asyncio.gather(*calls):
            assert each.is_success, each.error
    assert service.most <= 2


@pytest.mark.parametrize("tables", ["tool_cluster", "tool_cluster, tool_cluster_alive"])
async def test_tables_that_are_emptied(make: Make, service: Service, url: str, tables: str) -> None:
    """Nothing is given for a ttl, for others may hold what is not known; then calls go on."""
    engines = [make(**BRIEF), make(**BRIEF)]
    running = [asyncio.create_task(engines[0].execute("work")) for _ in range(2)]
    await service.until(2)
    await do(url, f"TRUNCATE {tables}")
    calls = [asyncio.create_task(each.execute("work")) for each in engines]
    await assert_going_on(service, running, calls)


async def test_tables_that_are_removed(make: Make, service: Service, url: str) -> None:
    """They are made anew, and nothing is given for a ttl: others may hold what is not known."""
    engines = [make(**BRIEF), make(**BRIEF)]
    for engine in engines:  # one that comes later takes it for a new database
        await engine.load()
    running = [asyncio.create_task(engines[0].execute("work")) for _ in range(2)]
    await service.until(2)
    await do(url, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    calls = [asyncio.create_task(each.execute("work")) for each in engines]
    await assert_going_on(service, running, calls)


async def test_an_older_state_that_is_put_back(make: Make, service: Service, url: str) -> None:
    """It is a server that has forgotten its newest commits: all say first what they hold."""
    engines = [make(lease_ttl=6.0, session_grace=2.0) for _ in range(2)]
    service.gate.set()
    for each in engines:
        assert (await each.execute("work")).is_success
    service.gate.clear()
    await do(url, "CREATE TABLE old AS SELECT * FROM tool_cluster")
    running = [asyncio.create_task(engines[0].execute("work")) for _ in range(2)]
    await service.until(2)
    waiting = [asyncio.create_task(each.execute("work")) for each in engines * 3]
    async with asyncio.timeout(BOUND):
        await until_waiting(engines[0], 6)
        await do(url, "UPDATE tool_cluster t SET version = o.version, state = o.state FROM old o")
        await until_waiting(engines[0], 6)
        assert service.running == service.most == 2
        service.gate.set()
        for result in await asyncio.gather(*running, *waiting):
            assert result.is_success, result.error
        assert (await engines[1].execute("work")).is_success
    assert service.most == 2


async def until_waiting(engine: ToolEngine, count: int) -> None:
    assert engine.cluster is not None
    while len((await engine.cluster.snapshot()).waiting) < count:  # noqa: ASYNC110 - the database says it
        await asyncio.sleep(0.01)


async def test_one_half_of_a_surrogate_pair(make: Make, service: Service) -> None:
    """It cannot be written: what stands for it can."""
    engine = make(key_limits={"conversation_id": 1})
    service.gate.set()
    context = ToolExecutionContext(conversation_id="\ud800")
    async with asyncio.timeout(BOUND):
        assert (await engine.execute("work", {}, context)).is_success
        assert (await engine.execute("work")).is_success


async def test_a_call_that_is_heavier_than_the_limit_of_all(make: Make, service: Service) -> None:
    """It is refused at once, as where the limit is the process's own, and holds nobody up."""
    engine = make()
    service.gate.set()
    engine.tool(name="heavy", concurrency={"bucket": "ai", "weight": 3})(service.work)
    async with asyncio.timeout(BOUND):
        result = await engine.execute("heavy")
        assert result.error_type == "rejected"
        assert "weight 3 can never run: the limit of bucket 'ai' in its cluster is 2" in str(
            result.error
        )
        assert (await engine.execute("work")).is_success


async def test_a_limit_that_is_lowered_below_a_waiting_call(make: Make, service: Service) -> None:
    engine = make(bucket_limits={"ai": 3})
    engine.tool(name="heavy", concurrency={"bucket": "ai", "weight": 3})(service.work)
    running = asyncio.create_task(engine.execute("work"))
    await service.until(1)
    heavy = asyncio.create_task(engine.execute("heavy"))
    async with asyncio.timeout(BOUND):
        while not engine.controller.snapshot().waiting:  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.01)
        other = make(revision=2)
        service.gate.set()
        assert (await other.execute("work")).is_success
        assert (await heavy).is_success or "can never run" in str((await heavy).error)
        await running


async def test_a_role_that_may_make_no_tables(make: Make, service: Service, url: str) -> None:
    """Where they stand already it needs to make none; else the refusal says what it needs."""
    role = "DROP ROLE IF EXISTS guest; CREATE ROLE guest LOGIN PASSWORD 'guest'"
    await do(url, role, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    guest = url.replace(url.split("@")[0], "postgresql://guest:guest")
    refused = make(url=guest)
    with pytest.raises(ConfigurationError, match="refuses this process"):
        await refused.load()
    service.gate.set()
    assert (await make().execute("work")).is_success
    await do(url, "GRANT USAGE ON SCHEMA public TO guest", GRANT)
    async with asyncio.timeout(BOUND):
        assert (await make(url=guest).execute("work")).is_success


async def test_a_password_that_is_wrong(make: Make, url: str) -> None:
    """It is said so, and not that the server does not answer."""
    wrong = url.replace(url.split("@")[0], "postgresql://owner:wrong")
    with pytest.raises(ConfigurationError, match="password authentication failed"):
        await make(url=wrong).load()
