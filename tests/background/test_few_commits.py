"""How often is a task written, and what if that fails? All in one file, which is looked into."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.background.test_tasks import BOUND, Work, until
from tool_engine import (
    ConcurrencyConfig,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineEventType,
)
from tool_engine.background import feeding, runner
from tool_engine.errors import RecordsUnavailableError
from tool_engine.knowledge.store import ToolKnowledgeStore

NUMBERED = {
    "name": "plain",
    "description": "ends at once",
    "parameters": [{"name": "number", "type": "integer", "required": True, "description": "which"}],
}


@pytest.fixture
async def work() -> Work:
    work = Work()
    work.gate.set()
    return work


@pytest.fixture
async def engine(
    tmp_path: Path, work: Work, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ToolEngine]:
    """An engine that has run a task, and writes nothing by itself."""
    monkeypatch.setattr(feeding, "_PULSE", 3600.0)
    monkeypatch.setattr(feeding, "_SHOWN", 3600.0)
    monkeypatch.setattr(runner, "AGAIN", 0.01)
    async with open_engine(tmp_path, work) as engine:
        engine.tasks.feeding.lease = 1e9  # type: ignore[attr-defined]
        await ready(engine)
        yield engine


def open_engine(folder: Path, work: Work, **settings: Any) -> ToolEngine:
    config = ToolEngineConfig(
        tools_directory=str(folder),
        auto_reload=False,
        records=f"sqlite:///{folder / 'kept.db'}",
        close_timeout=0.2,
        **settings,
    )
    engine = ToolEngine(config, concurrency=ConcurrencyConfig(max_concurrent=4))
    work.add_to(engine)
    engine.register_tool(dict(NUMBERED), return_number)
    return engine


async def return_number(number: int) -> int:
    await asyncio.sleep(0)
    return number


async def ready(engine: ToolEngine) -> None:
    await (await engine.start("work", {"number": 0})).wait(BOUND)
    async with asyncio.timeout(BOUND):
        own: Any = engine.tasks
        while own.feeding.backlog.is_due or not own.feeding._seen:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
    await engine.store.storage.flush()  # type: ignore[attr-defined]


@contextmanager
def commits(engine: ToolEngine) -> Iterator[list[list[str]]]:
    """The statements of each transaction that the engine makes meanwhile."""
    storage: Any = engine.store.storage
    connection = storage._database._database._connection
    made: list[list[str]] = []

    def note(statement: str) -> None:
        first = " ".join(statement.split()[:3])
        if first == "BEGIN IMMEDIATE":
            made.append([])
        elif made and first != "COMMIT":
            made[-1].append(first)

    connection.set_trace_callback(note)
    yield made
    connection.set_trace_callback(None)


async def test_one_commit(engine: ToolEngine) -> None:
    """One that ends at once is written once, with its end and the record of its call."""
    with commits(engine) as made:
        handle = await engine.start("work", {"number": 1})
        assert handle.status == "succeeded"
        ((status,),) = read(
            engine, "SELECT status FROM tool_tasks WHERE task_id = ? AND worker IS NULL", handle.id
        )
        result = await handle.wait(BOUND)
    assert status == "succeeded"
    assert len(made) == 1
    assert {"INSERT INTO tool_calls", "INSERT INTO tool_tasks"} <= set(made[0])
    (record,) = await engine.query_call_records(task_id=handle.id)
    assert (record.call_id, record.result) == (result.call_id, {"number": 1})
    found = await engine.tasks.get(handle.id)
    assert (found.result, found.state) == (result, handle.state)


async def test_two_commits(engine: ToolEngine, work: Work) -> None:
    """One that goes on is written as running; then its end, with the record of its call."""
    work.gate.clear()
    with commits(engine) as made:
        handle = await engine.start("work", {"number": 1})
        (row,) = read(engine, "SELECT status, state FROM tool_tasks WHERE task_id = ?", handle.id)
        assert row[0] == "running"
        work.gate.set()
        result = await handle.wait(BOUND)
    assert [each for each in made if "INSERT INTO tool_tasks" in each] == [
        ["INSERT INTO tool_tasks"]
    ]
    assert len(made) == 2
    assert {"INSERT INTO tool_calls", "UPDATE tool_tasks SET"} <= set(made[1])
    (record,) = await engine.query_call_records(task_id=handle.id)
    assert (record.call_id, record.result) == (result.call_id, {"number": 1})
    assert result.call_id is not None
    assert result.call_id.encode() in row[1]


async def test_a_look_for_others_holds_up_no_new_one(engine: ToolEngine, work: Work) -> None:
    """Else all would wait in line, be claimed and be written once more, as long as some come."""
    own: Any = engine.tasks
    own.feeding.backlog.is_due = True
    work.gate.clear()
    with commits(engine) as made:
        handle = await engine.start("work", {"number": 1})
        (row,) = read(engine, "SELECT status FROM tool_tasks WHERE task_id = ?", handle.id)
        assert row[0] == "running"
        work.gate.set()
        await handle.wait(BOUND)
    assert len(made) == 2


@pytest.fixture
async def lasting(
    tmp_path: Path, work: Work, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ToolEngine]:
    """An engine whose commits wait for the disk."""
    monkeypatch.setattr(feeding, "_PULSE", 3600.0)
    async with open_engine(tmp_path, work, durability="call") as engine:
        await ready(engine)
        yield engine


def levels(engine: ToolEngine, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How each commit from now on waits for the disk: 2 is `FULL`, 1 is `NORMAL`."""
    file: Any = engine.store.storage._database._database  # type: ignore[attr-defined]
    commit = file._commit_work
    made: list[int] = []

    def note(work: Any) -> Any:
        made.append(file._connection.execute("PRAGMA synchronous").fetchone()[0])
        return commit(work)

    monkeypatch.setattr(file, "_commit_work", note)
    return made


async def test_the_disk_is_waited_for_once(
    lasting: ToolEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that ends at once is on the disk with its end: `start` returns when it is there."""
    await (await lasting.start("plain", {"number": 0})).wait(BOUND)
    made = levels(lasting, monkeypatch)
    for number in range(3):
        handle = await lasting.start("plain", {"number": number})
        assert handle.status == "succeeded"
        assert made == [2] * (number + 1)
        assert (await handle.wait(BOUND)).is_success


async def test_one_that_goes_on_is_on_the_disk_when_it_has_started(
    lasting: ToolEngine, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    work.gate.clear()
    made = levels(lasting, monkeypatch)
    handles = await asyncio.gather(*(lasting.start("work", {"number": 1}) for _ in range(3)))
    assert made == [2]
    assert {handle.status for handle in handles} == {"running"}
    work.gate.set()
    for handle in handles:
        await handle.wait(BOUND)
    assert set(made[1:]) == {2}


async def test_one_with_a_key_is_on_the_disk_before_it_runs(
    lasting: ToolEngine, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same request may come again after a loss of power, and must find it."""
    made, before = levels(lasting, monkeypatch), len(work.ran)
    handle = await lasting.start("work", {"number": 1}, idempotency_key="once")
    assert made[0] == 2
    await handle.wait(BOUND)
    assert len(work.ran) == before + 1


@pytest.mark.parametrize("goes_on", [True, False])
async def test_a_disk_that_fails(
    lasting: ToolEngine, work: Work, monkeypatch: pytest.MonkeyPatch, *, goes_on: bool
) -> None:
    """A start that fails says that its tool has begun; until the disk works again none begins."""
    file: Any = lasting.store.storage._database._database  # type: ignore[attr-defined]
    commit, before = file._commit_work, len(work.ran)
    if goes_on:
        work.gate.clear()

    def fail(work: Any) -> Any:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(file, "_commit_work", fail)
    with pytest.raises(RecordsUnavailableError, match=r"disk I/O error.*its tool had begun: check"):
        await lasting.start("work", {"number": 7})
    for _ in range(2):
        with pytest.raises(RecordsUnavailableError, match="disk I/O error") as caught:
            await lasting.start("work", {"number": 8})
        assert "had begun" not in str(caught.value)
    monkeypatch.setattr(file, "_commit_work", commit)
    assert work.ran[before:] == [7]
    async with asyncio.timeout(BOUND):
        while lasting.controller.get_metrics().active:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0)
    assert await lasting.tasks.list(status="running") == []
    async with asyncio.timeout(BOUND):
        # The writer of records tries again, later and later.
        while True:
            found = await lasting.query_call_records(tool_name="work", limit=1)
            if found and found[0].params == {"number": 7}:
                break
            await asyncio.sleep(0.01)
    (record,) = found
    assert record.error_type == ("records_unavailable" if goes_on else None)
    work.gate.set()
    handle = await lasting.start("work", {"number": 9})
    assert (await handle.wait(BOUND)).is_success
    assert work.ran[before:] == [7, 9]


async def test_many_at_once_share_commits(engine: ToolEngine) -> None:
    with commits(engine) as made:
        handles = await asyncio.gather(
            *(engine.start("work", {"number": number}) for number in range(40))
        )
        assert len(made) < 10
        for handle in handles:
            assert (await handle.wait(BOUND)).is_success
    records = await engine.query_call_records(tool_name="work")
    assert len({record.task_id for record in records}) == len(records) == 41


async def test_a_reader_waits_for_the_record(engine: ToolEngine, work: Work) -> None:
    """Who hears that a call has ended finds its record, also while the task is being written."""
    work.gate.clear()
    handle = await engine.start("work", {"number": 1})
    await work.until_ran(2)
    ended = asyncio.Event()
    engine.subscribe(lambda _: ended.set(), ToolEngineEventType.EXECUTION_COMPLETED)
    with open_file(engine) as connection:
        connection.execute("BEGIN IMMEDIATE")
        work.gate.set()
        await asyncio.wait_for(ended.wait(), BOUND)
        asking = asyncio.create_task(engine.query_call_records(task_id=handle.id))
        done, _ = await asyncio.wait([asking], timeout=0.2)
        assert not done
        assert handle.status == "running"
    assert len(await asking) == 1
    assert (await handle.wait(BOUND)).is_success


async def test_a_record_that_is_refused(engine: ToolEngine) -> None:
    """It costs the task nothing, and is counted as one that was lost."""
    change(
        engine,
        "CREATE TRIGGER no BEFORE INSERT ON tool_calls BEGIN SELECT RAISE(ABORT, 'no'); END",
    )
    handle = await engine.start("work", {"number": 1})
    assert (await handle.wait(BOUND)).is_success
    assert await engine.query_call_records(task_id=handle.id) == []
    assert engine.store.storage.dropped == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("action", ["ABORT", "ROLLBACK"])
async def test_an_end_that_cannot_be_written(engine: ToolEngine, work: Work, action: str) -> None:
    """The record is there once, and the task ends once the database takes it."""
    change(
        engine,
        "CREATE TRIGGER no BEFORE UPDATE ON tool_tasks WHEN new.status = 'succeeded' "
        f"BEGIN SELECT RAISE({action}, 'no'); END",
    )
    work.gate.clear()
    handle = await engine.start("work", {"number": 1})
    work.gate.set()
    async with asyncio.timeout(BOUND):
        while not await engine.query_call_records(task_id=handle.id):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
    assert handle.status == "running"
    change(engine, "DROP TRIGGER no")
    assert (await handle.wait(BOUND)).is_success
    assert len(await engine.query_call_records(task_id=handle.id)) == 1


async def test_a_database_that_fails_for_a_while(
    engine: ToolEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was not committed is tried again: the end and the record are there, once."""
    file: Any = engine.store.storage._database._database  # type: ignore[attr-defined]
    commit, failures = file._commit_work, iter(range(3))

    def fail(work: Any) -> Any:
        done = commit(work)
        if next(failures, None) is not None:
            # The answer is lost, not what was written.
            raise sqlite3.OperationalError("disk I/O error")
        return done

    handle = await engine.start("work", {"number": 1})
    monkeypatch.setattr(file, "_commit_work", fail)
    assert (await handle.wait(BOUND)).is_success
    assert len(await engine.query_call_records(task_id=handle.id)) == 1
    assert (await engine.tasks.list(status="succeeded"))[0].id == handle.id


@pytest.mark.parametrize("kind", ["keyed", "repeatable", "once", "ended"])
async def test_a_start_whose_answer_is_lost(
    engine: ToolEngine, work: Work, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """What never ran is run; what began is run again where it may be, else it is lost."""
    file: Any = engine.store.storage._database._database  # type: ignore[attr-defined]
    commit = file._commit_work
    if kind == "repeatable":
        engine.unregister_tool("work")
        work.add_to(engine, effect="read")
        await (await engine.start("work", {"number": 0})).wait(BOUND)

    def fail(work: Any) -> Any:
        commit(work)
        raise sqlite3.OperationalError("disk I/O error")

    if kind != "ended":
        work.gate.clear()
    monkeypatch.setattr(file, "_commit_work", fail)
    with pytest.raises(RecordsUnavailableError, match="disk I/O error"):
        await engine.start("work", {"number": 7}, idempotency_key="k" if kind == "keyed" else None)
    monkeypatch.setattr(file, "_commit_work", commit)
    work.gate.set()
    async with asyncio.timeout(BOUND):
        while engine.controller.get_metrics().active:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0)
    state, *_ = await engine.tasks.list()
    for _ in range(2):
        await engine.tasks.feeding._look_around()  # type: ignore[attr-defined]
    found = await (await engine.tasks.get(state.id)).wait(BOUND)
    assert found.error_type == ("worker_lost" if kind == "once" else None)
    assert work.ran.count(7) == (2 if kind == "repeatable" else 1)


async def test_a_start_that_is_refused_holds_no_slot(engine: ToolEngine) -> None:
    change(engine, "ALTER TABLE tool_tasks RENAME TO elsewhere")
    with pytest.raises(RecordsUnavailableError):
        await engine.start("work", {"number": 1})
    change(engine, "ALTER TABLE elsewhere RENAME TO tool_tasks")
    assert engine.controller.get_metrics().active == 0
    assert await engine.calls.list() == []
    assert await engine.query_call_records(is_success=False) == []


async def test_a_caller_that_is_gone_before_it_is_written(engine: ToolEngine, work: Work) -> None:
    """What was written is run, and each of them gives its slot back."""
    for steps in range(12):
        starting = asyncio.create_task(engine.start("work", {"number": 100 + steps}))
        for _ in range(steps):
            await asyncio.sleep(0)
        starting.cancel()
        await asyncio.wait([starting])
    async with asyncio.timeout(BOUND):
        # A task whose caller has gone is written and run all the same.
        while engine.controller.get_metrics().active:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)
    for state in await engine.tasks.list():
        assert (await (await engine.tasks.get(state.id)).wait(BOUND)).is_success
    assert len(set(work.ran)) == len(work.ran) == len(await engine.tasks.list())


async def test_a_definition_that_changes_before_it_runs(engine: ToolEngine, work: Work) -> None:
    """It ends, and its slot is free at once."""
    starting = asyncio.create_task(engine.start("work", {"number": 1}))
    async with asyncio.timeout(BOUND):
        while not engine.controller.get_metrics().active:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0)
    engine.unregister_tool("work")
    work.add_to(engine, version="2.0.0")
    handle = await starting
    assert (await handle.wait(BOUND)).error_type == "execution_rejected"
    assert engine.controller.get_metrics().active == 0
    assert len(await engine.query_call_records(task_id=handle.id)) == 1
    assert engine._pipeline.present._reserved == {}


async def test_a_store_that_looks_at_each_call(tmp_path: Path, work: Work) -> None:
    """A program's own store gets the records of tasks as those of all calls."""

    class Store(ToolKnowledgeStore):
        def append(self, entry: Any) -> None:
            seen.append(entry.task_id)
            super().append(entry)

    seen: list[str] = []
    async with open_engine(tmp_path, work) as plain:
        storage = plain.store.storage
        settings = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
        async with ToolEngine(settings, store=Store(storage)) as engine:
            work.add_to(engine)
            handle = await engine.start("work", {"number": 1})
            await handle.wait(BOUND)
            assert seen == [handle.id]
            assert len(await engine.query_call_records(task_id=handle.id)) == 1


async def test_closing_while_it_runs(tmp_path: Path) -> None:
    """Its end and its record are there, when the engine is closed."""
    work = Work()
    async with open_engine(tmp_path, work) as engine:
        handle = await engine.start("work", {"number": 1})
        await until(handle, "running")
        await work.until_ran(1)
    assert handle.status == "rejected"
    async with open_engine(tmp_path, work) as later:
        (record,) = await later.query_call_records(task_id=handle.id)
        assert record.error_type == "engine_closed"


@pytest.mark.parametrize("durability", ["buffered", "call"])
async def test_own_variables(tmp_path: Path, work: Work, durability: str) -> None:
    """Tasks that were started without a context share nothing."""

    async def note(number: int, context: Any) -> dict[str, Any]:
        context.variables[str(number)] = number
        return dict(context.variables)

    work.run = note  # type: ignore[method-assign]
    async with open_engine(tmp_path, work, durability=durability) as engine:
        handles = [await engine.start("work", {"number": number}) for number in range(3)]
        found = [(await handle.wait(BOUND)).output for handle in handles]
    assert found == [{"0": 0}, {"1": 1}, {"2": 2}]


def read(engine: ToolEngine, question: str, *values: Any) -> list[Any]:
    with open_file(engine) as connection:
        return connection.execute(question, values).fetchall()


def change(engine: ToolEngine, statement: str) -> None:
    with open_file(engine) as connection:
        connection.execute(statement)


@contextmanager
def open_file(engine: ToolEngine) -> Iterator[sqlite3.Connection]:
    path = str(engine.config.records).removeprefix("sqlite:///")
    connection = sqlite3.connect(path, timeout=BOUND, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()
