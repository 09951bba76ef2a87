"""What of a task that its caller waits for at first, and keeps only if that takes long?"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from contextvars import ContextVar, copy_context
from pathlib import Path
from typing import Any

import pytest

from tests.background.test_restarts import die
from tests.background.test_tasks import BOUND, Work, until
from tool_engine import ConcurrencyConfig, ToolEngine, ToolEngineConfig
from tool_engine.background import feeding
from tool_engine.errors import RecordsUnavailableError

Make = Callable[..., Awaitable[ToolEngine]]
seen: ContextVar[str | None] = ContextVar("seen", default=None)


@pytest.fixture
async def work() -> Work:
    return Work()


@pytest.fixture
async def make(tmp_path: Path, work: Work, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Make]:
    """Opens an engine on one database, which has looked for what others have left."""
    monkeypatch.setattr(feeding, "_PULSE", 3600.0)
    made: list[ToolEngine] = []

    async def make_one(lease: float = 1e9) -> ToolEngine:
        config = ToolEngineConfig(
            tools_directory=str(tmp_path),
            auto_reload=False,
            records=f"sqlite:///{tmp_path / 'kept.db'}",
            close_timeout=0.1,
        )
        engine = ToolEngine(config, concurrency=ConcurrencyConfig(max_concurrent=2))
        made.append(engine)
        work.add_to(engine)

        @engine.tool
        async def look() -> str | None:
            """Look what is seen."""
            return seen.get()

        own: Any = engine.tasks
        own.feeding.lease = lease
        await engine.load()
        if lease >= 1e9:
            # Else a task may have to wait behind others, and is kept at once.
            own.open()
            async with asyncio.timeout(BOUND):
                while own.feeding.backlog.is_due:  # noqa: ASYNC110 - no event
                    await asyncio.sleep(0.01)
        return engine

    yield make_one
    for engine in made:
        await engine.close()


def rows_in(folder: Path) -> list[Any]:
    with closing(sqlite3.connect(folder / "kept.db")) as connection, connection:
        return connection.execute("SELECT task_id, status FROM tool_tasks").fetchall()


async def test_what_ends_early_is_never_written(make: Make, work: Work, tmp_path: Path) -> None:
    engine = await make()
    handle = await engine.tasks.start("work", {"number": 7}, is_late=True)
    await work.until_ran(1)
    assert rows_in(tmp_path) == []
    assert await engine.tasks.list() == []
    work.gate.set()
    result = await handle.wait(BOUND)
    assert (result.output, handle.status) == ({"number": 7}, "succeeded")
    assert not await engine.tasks.keep(handle.id)
    assert rows_in(tmp_path) == []
    (record,) = await engine.query_call_records(tool_name="work")
    assert record.is_success


async def test_what_is_kept_is_a_task_as_any_other(make: Make, work: Work, tmp_path: Path) -> None:
    """Its id resolves in another engine, and its end is written."""
    engine = await make()
    handle = await engine.tasks.start("work", {"number": 7}, is_late=True)
    await work.until_ran(1)
    assert await engine.tasks.keep(handle.id)
    assert await engine.tasks.keep(handle.id)
    assert rows_in(tmp_path) == [(handle.id, "running")]
    other = await make()
    assert (await other.tasks.get(handle.id)).status == "running"
    work.gate.set()
    await handle.wait(BOUND)
    found = await (await other.tasks.get(handle.id)).wait(BOUND)
    assert found.output == {"number": 7}
    assert await engine.tasks.forget(handle.id)
    assert rows_in(tmp_path) == []


@pytest.mark.parametrize("steps", range(12))
async def test_kept_as_it_ends(make: Make, work: Work, tmp_path: Path, steps: int) -> None:
    """Whichever is first: what is written is how it ended, or nothing."""
    engine = await make()
    handle = await engine.tasks.start("work", {"number": 7}, is_late=True)
    await work.until_ran(1)
    keeping = asyncio.create_task(engine.tasks.keep(handle.id))
    for _ in range(steps):
        await asyncio.sleep(0)
    work.gate.set()
    await handle.wait(BOUND)
    assert rows_in(tmp_path) == ([(handle.id, "succeeded")] if await keeping else [])


async def test_a_killed_engine_leaves_what_was_kept(make: Make, work: Work) -> None:
    engine = await make()
    handles = [
        await engine.tasks.start("work", {"number": each}, is_late=True) for each in range(4)
    ]
    await work.until_ran(2)
    for handle in (handles[0], handles[2]):
        assert await engine.tasks.keep(handle.id)
    await die(engine)
    work.gate.set()
    later = await make(lease=0.6)
    ran, waited = [await later.tasks.get(handles[each].id) for each in (0, 2)]
    assert (await ran.wait(BOUND)).error_type == "worker_lost"
    assert (await waited.wait(BOUND)).output == {"number": 2}
    assert sorted(work.ran) == [0, 1, 2]
    assert len(await later.tasks.list()) == 2


async def test_a_database_that_does_not_answer(make: Make, work: Work, tmp_path: Path) -> None:
    """It is not kept, and that is said; it goes on, and its caller may wait."""
    engine = await make()
    handle = await engine.tasks.start("work", {"number": 7}, is_late=True)
    await work.until_ran(1)
    kept = sqlite3.connect(tmp_path / "kept.db", timeout=BOUND, isolation_level=None)
    with closing(kept) as connection:
        connection.execute("ALTER TABLE tool_tasks RENAME TO elsewhere")
        # In its place, so that none is made anew by a look at the tasks in between.
        connection.execute("CREATE VIEW tool_tasks AS SELECT * FROM elsewhere")
    with pytest.raises(RecordsUnavailableError):
        await engine.tasks.keep(handle.id)
    work.gate.set()
    assert (await handle.wait(BOUND)).output == {"number": 7}


async def test_closing(make: Make, work: Work, tmp_path: Path) -> None:
    """What was not kept ends with its engine, for no other one knows it."""
    engine = await make()
    handles = [
        await engine.tasks.start("work", {"number": each}, is_late=True) for each in range(4)
    ]
    await work.until_ran(2)
    await engine.close()
    results = [await handle.wait(BOUND) for handle in handles]
    assert [each.error_type for each in results] == ["engine_closed"] * 4
    assert rows_in(tmp_path) == []


async def test_in_its_turn(make: Make, work: Work) -> None:
    """It overtakes no task that waits: where some do, it is kept and waits behind them."""
    engine = await make()
    early = [await engine.start("work", {"number": each}) for each in range(9)]
    late = await engine.tasks.start("work", {"number": 9}, is_late=True)
    assert late.id in {each.id for each in await engine.tasks.list()}
    work.gate.set()
    for handle in (*early, late):
        await handle.wait(BOUND)
    assert work.ran[-1] == 9


async def test_what_a_task_sees(make: Make) -> None:
    """Nothing of who started it, unless that is wished for."""
    engine = await make()
    seen.set("mine")
    plain = await engine.start("look")
    given = await engine.tasks.start("look", run_in=copy_context(), is_late=True)
    results = [await each.wait(BOUND) for each in (plain, given)]
    assert [each.output["result"] for each in results] == [None, "mine"]


async def test_forgetting(make: Make, work: Work) -> None:
    """Only what has ended is forgotten."""
    engine = await make()
    handle = await engine.start("work", {"number": 7})
    await until(handle, "running")
    assert not await engine.tasks.forget(handle.id)
    work.gate.set()
    await handle.wait(BOUND)
    assert await engine.tasks.forget(handle.id)
    assert not await engine.tasks.forget(handle.id)
    assert await engine.tasks.list() == []
