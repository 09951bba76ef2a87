"""What does it take to cancel many tasks at once, and does each still end once?"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest
from sqlalchemy.dialects import postgresql

from tests.background.test_tasks import Work
from tests.effort import IS_WHOLE
from tests.postgres import PostgresServer
from tool_engine import (
    ConcurrencyConfig,
    ConfigurationError,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineEvent,
    ToolEngineEventType,
    ToolExecutionContext,
)
from tool_engine.knowledge.sql.connection.opening import LazyDatabase
from tool_engine.knowledge.sql.task_claims import take_tasks

COUNT = 2_000 if IS_WHOLE else 450
BOUND = 240.0
ANN, BOB = ToolExecutionContext("ann"), ToolExecutionContext("bob")
Make = Callable[[], Awaitable[ToolEngine]]


@pytest.fixture
async def work() -> Work:
    return Work()


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
async def make(request: pytest.FixtureRequest, tmp_path: Path, work: Work) -> AsyncIterator[Make]:
    url = None if request.param == "memory" else f"sqlite:///{tmp_path / 'kept.db'}"
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        url = await asyncio.to_thread(server.fresh_database)
    config = ToolEngineConfig(
        tools_directory=str(tmp_path), auto_reload=False, records=url, close_timeout=0.2
    )
    async with asyncio.timeout(BOUND), AsyncExitStack() as stack:

        async def make_one() -> ToolEngine:
            engine = ToolEngine(config, concurrency=ConcurrencyConfig(max_concurrent=2))
            work.add_to(engine, timeout=600)
            return await stack.enter_async_context(engine)

        yield make_one
        work.gate.set()


async def start_all(engine: ToolEngine, count: int, context: ToolExecutionContext = ANN) -> Any:
    return [await engine.start("work", {"number": each}, context) for each in range(count)]


async def test_all_of_an_owner(make: Make, work: Work) -> None:
    """Those that run and those that wait end once each, in their handles too; others go on."""
    engine, ended = await make(), Counter[Any]()

    def note(event: ToolEngineEvent) -> None:
        assert event.execution_result is not None
        ended[event.execution_result.metadata["task_id"]] += 1

    engine.subscribe(
        note,
        event_types=[
            ToolEngineEventType.EXECUTION_FAILED,
            ToolEngineEventType.EXECUTION_CANCELLED,
        ],
    )
    own = await start_all(engine, 25)
    of_bob = await start_all(engine, 3, BOB)
    await work.until_ran(2)
    waiting = [asyncio.ensure_future(each.wait()) for each in own]
    assert await engine.tasks.cancel_all("ann", reason="enough") == 25
    results = await asyncio.gather(*waiting)
    assert {each.outcome.value for each in results} == {"cancelled"}
    assert {each.status for each in own} == {"cancelled"}
    assert {each.state.message for each in own} == {"the task was cancelled: enough"}
    assert await engine.tasks.cancel_all("ann") == 0
    assert {(await each.refresh()).status for each in of_bob} <= {"queued", "running"}
    work.gate.set()
    assert [(await each.wait()).is_success for each in of_bob] == [True] * 3
    records = await engine.query_call_records(limit=999)
    assert len(records) == 28
    assert sorted(ended) == sorted(each.id for each in own)
    assert set(ended.values()) == {1}


async def test_those_that_are_meant(make: Make, work: Work) -> None:
    """Of one status, of one tool, and of those that a rule lets pass."""
    engine = await make()
    handles = await start_all(engine, 9)
    await work.until_ran(2)
    assert await engine.tasks.cancel_all(tool_name="other") == 0
    assert await engine.tasks.cancel_all("bob") == 0
    assert await engine.tasks.cancel_all(status="succeeded") == 0
    last = handles[-1].id
    assert await engine.tasks.cancel_all(is_meant=lambda state: state.id == last) == 1
    assert handles[-1].status == "cancelled"
    assert await engine.tasks.cancel_all(status="queued") == 6
    assert [(await each.refresh()).status for each in handles[:2]] == ["running"] * 2
    with pytest.raises(ConfigurationError, match="status must be"):
        await engine.tasks.cancel_all(status="done")
    work.gate.set()


@pytest.mark.parametrize("make", ["sqlite", "postgresql"], indirect=True)
async def test_two_that_cancel_all_at_once(make: Make, work: Work) -> None:
    """Of two engines that both cancel all, while both run some, each task ends once."""
    first, second = await make(), await make()
    second.tasks.open()
    handles = await start_all(first, 60)
    counts = await asyncio.gather(*(each.tasks.cancel_all() for each in (first, second, first)))
    assert sum(counts) >= 60 - 4
    results = await asyncio.gather(*(each.wait() for each in handles))
    assert {each.outcome.value for each in results} == {"cancelled"}
    for engine in (first, second):
        await engine.store.storage.flush(BOUND)  # type: ignore[attr-defined]
    records = await first.query_call_records(limit=999)
    assert len(records) == 60
    assert await first.tasks.list(status="queued") == []


@pytest.mark.parametrize("make", ["postgresql"], indirect=True)
async def test_how_many_statements_it_takes(
    make: Make, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of hundreds a few: one lists two hundred, one takes them, and one writes their ends."""
    engine = await make()
    await start_all(engine, COUNT)
    await work.until_ran(2)
    asked: list[str] = []
    change, read = LazyDatabase.change, LazyDatabase.read

    async def count_changes(
        self: LazyDatabase, steps: Any, failing: str, *rest: Any, **more: Any
    ) -> Any:
        asked.extend("change" for _ in steps)
        return await change(self, steps, failing, *rest, **more)

    async def count_reads(self: LazyDatabase, statement: Any, failing: str) -> Any:
        asked.append("read")
        return await read(self, statement, failing)

    with monkeypatch.context() as patched:
        patched.setattr(LazyDatabase, "change", count_changes)
        patched.setattr(LazyDatabase, "read", count_reads)
        assert await engine.tasks.cancel_all(status="queued") >= COUNT - 6
    # The engine's own looks, once a second, are among them.
    assert len(asked) < COUNT / 6, Counter(asked)
    work.gate.set()


@pytest.mark.parametrize("make", ["postgresql"], indirect=True)
async def test_which_rows_it_reads(make: Make, work: Work) -> None:
    """Those of the tasks that are taken: a line of any length is not gone through."""
    engine = await make()
    handles = await start_all(engine, COUNT)
    taken = take_tasks([each.id for each in handles[-100:]], "someone")
    words = {"literal_binds": True}
    dialect: Any = postgresql
    given: Any = taken.statement
    statement = given.compile(dialect=dialect.dialect(), compile_kwargs=words)
    assert engine.config.records is not None
    connection = await asyncpg.connect(engine.config.records)
    try:
        # So few rows would be read as they lie.
        await connection.execute("SET enable_seqscan = off")
        plan = await connection.fetch(f"EXPLAIN (ANALYZE, COSTS off) {statement}")
    finally:
        await connection.close()
    written = "\n".join(line for (line,) in plan)
    assert "rows=100" in written
    passed_over = re.findall(r"Rows Removed by [ a-zA-Z]*: (\d+)", written)
    assert sum(map(int, passed_over)) < 100, written
    work.gate.set()
