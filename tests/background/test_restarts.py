"""What becomes of tasks when engines end, die, or share a database?"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.background.test_tasks import BOUND, Work, until
from tests.effort import IS_WHOLE
from tests.warm import ROOT
from tests.warm_async import start
from tool_engine import (
    ConcurrencyConfig,
    EngineClosedError,
    QueueApprover,
    TaskConflictError,
    TaskNotFoundError,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineEventType,
    ToolExecutionContext,
)
from tool_engine.background import feeding as feeding_module
from tool_engine.background import watching

Make = Callable[..., Awaitable[ToolEngine]]


@pytest.fixture
async def work() -> Work:
    return Work()


@pytest.fixture(params=["sqlite", "postgresql"])
async def make(request: pytest.FixtureRequest, tmp_path: Path, work: Work) -> AsyncIterator[Make]:
    made: list[ToolEngine] = []
    url = f"sqlite:///{tmp_path / 'kept.db'}"
    if request.param == "postgresql":
        server = request.getfixturevalue("postgres_server")
        url = await asyncio.to_thread(server.emptied_database)

    async def make_one(
        keys: dict[str, Any] | None = None, approver: Any = None, **settings: Any
    ) -> ToolEngine:
        config = ToolEngineConfig(
            tools_directory=str(tmp_path),
            auto_reload=False,
            records=url,
            close_timeout=0.1,
            **settings,
        )
        limits = ConcurrencyConfig(max_concurrent=2)
        engine = ToolEngine(config, concurrency=limits, approver=approver)
        made.append(engine)
        work.add_to(engine, **(keys or {}))
        engine.tasks.feeding.lease = 0.6  # type: ignore[attr-defined]
        await engine.load()
        return engine

    yield make_one
    for engine in made:
        await engine.close()


def live_on(*engines: ToolEngine) -> None:
    """Has engines take none for dead, however busy the machine is."""
    for engine in engines:
        engine.tasks.feeding.lease = BOUND  # type: ignore[attr-defined]


def listen(engine: ToolEngine) -> list[str | None]:
    """The calls whose final event is heard, in order."""
    ends: list[str | None] = []
    kinds = [ToolEngineEventType.EXECUTION_CANCELLED, ToolEngineEventType.EXECUTION_FAILED]
    engine.subscribe(lambda event: ends.append(event.call_id), event_types=kinds)
    return ends


async def die(engine: ToolEngine) -> None:
    """Ends an engine as a killed process does: nothing more of it is written."""
    feeding = engine.tasks.feeding  # type: ignore[attr-defined]
    tasks = [*feeding._loops, *(run.task for run in feeding.runner.runs.values() if run.task)]

    async def lost(*_: Any) -> bool:
        return False

    feeding.storage.change = feeding.storage.give_back = lost
    for run in feeding.runner.runs.values():
        run.is_lost = True
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def test_a_secret_that_comes_again(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process cannot know it again: it says so, and names the task, which runs once."""
    ran: list[str] = []
    hidden = {"name": "pin", "type": "string", "description": "It", "secret": True}
    hidden["required"] = True
    tool = {"name": "pin", "description": "Takes it", "parameters": [hidden]}
    ann = ToolExecutionContext("ann")
    first, later = await make(), await make()

    def take(pin: str) -> None:
        ran.append(pin)

    for engine in (first, later):
        engine.register_tool(tool, take)
    handle = await first.start("pin", {"pin": "1234"}, ann, idempotency_key="k")
    assert (await handle.wait(BOUND)).is_success
    again = await later.start("pin", {"pin": "1234"}, ann, idempotency_key="k")
    assert again.id == handle.id
    monkeypatch.setattr("tool_engine.background.request_digest._SECRET", b"of another process")
    with pytest.raises(TaskConflictError, match="another process, which alone knows") as raised:
        await later.start("pin", {"pin": "1234"}, ann, idempotency_key="k")
    named = str(raised.value).partition("ask for the task ")[2].partition(",")[0]
    assert (await (await later.tasks.get(named, "ann")).wait(BOUND)).is_success
    other = await later.start("pin", {"pin": "1234"}, ann, idempotency_key="of its own")
    assert (await other.wait(BOUND)).is_success
    assert ran == ["1234", "1234"]


async def test_closed_and_opened_again(make: Make, work: Work) -> None:
    """Queued tasks wait for the next engine; those that ran when it closed have ended."""
    engine = await make()
    handles = [await engine.start("work", {"number": each}) for each in range(9)]
    await work.until_ran(2)
    await engine.close()
    work.gate.set()
    later = await make()
    found = [await later.tasks.get(handle.id) for handle in handles]
    results = [await handle.wait(BOUND) for handle in found]
    assert [result.error_type for result in results] == ["engine_closed"] * 2 + [None] * 7
    assert sorted(work.ran) == list(range(9))


async def test_a_closed_engine_takes_no_task(make: Make, work: Work) -> None:
    """What it took could not end: nothing would hear of it."""
    engine = await make(run_tasks=False)
    handle = await engine.start("work", {"number": 1})
    await engine.close()
    for ask in (handle.cancel, handle.wait):
        with pytest.raises(EngineClosedError, match="ask for it in an open engine") as caught:
            await ask()
        assert handle.id in str(caught.value)
    later = await make(run_tasks=False)
    ends = listen(later)
    assert await (await later.tasks.get(handle.id)).cancel()
    (record,) = await later.query_call_records(task_id=handle.id)
    assert ends == [record.call_id]


async def test_cancelled_while_the_engine_closes(
    make: Make, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine waits for what takes a task, and gives it back: no call is made of it."""
    engine = await make(run_tasks=False)
    ends = listen(engine)
    handle = await engine.start("work", {"number": 1})
    storage = engine.tasks.feeding.storage  # type: ignore[attr-defined]
    take, asked, gate = storage.take, asyncio.Event(), asyncio.Event()

    async def take_late(*args: Any) -> Any:
        asked.set()
        await gate.wait()
        return await take(*args)

    monkeypatch.setattr(storage, "take", take_late)
    cancel = asyncio.create_task(handle.cancel())
    await asked.wait()
    closing = asyncio.create_task(engine.close())
    await asyncio.wait([closing], timeout=0.2)
    gate.set()
    await closing
    await asyncio.wait([cancel])
    assert isinstance(cancel.exception(), EngineClosedError)
    later = await make(run_tasks=False)
    assert (await later.tasks.get(handle.id)).status == "queued"
    assert await later.query_call_records(task_id=handle.id) == []
    assert ends == []


async def test_a_task_that_begins_while_it_is_read(
    make: Make, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read before it began does not stand over what it is now."""
    engine = await make(run_tasks=False)
    handle = await engine.start("work", {"number": 1})
    storage = engine.tasks.feeding.storage  # type: ignore[attr-defined]
    read = storage.get

    async def read_slowly(task_id: str) -> Any:
        found = await read(task_id)
        engine.tasks.open()
        await work.until_ran(1)
        await until(handle, "running")
        return found

    monkeypatch.setattr(storage, "get", read_slowly)
    assert (await handle.refresh()).status == "running"
    work.gate.set()
    assert (await handle.wait(BOUND)).is_success


async def test_an_engine_that_runs_none(make: Make, work: Work) -> None:
    """A program that only looks leaves the tasks to others."""
    engine = await make()
    handles = [await engine.start("work", {"number": each}) for each in range(9)]
    await work.until_ran(2)
    await engine.close()
    work.gate.set()
    looker = await make(run_tasks=False)
    assert len(await looker.tasks.list(status="queued")) == 7
    assert len(work.ran) == 2
    assert handles[8].id in {state.id for state in await looker.tasks.list()}


async def test_an_engine_that_found_none(
    make: Make, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine without tasks runs what another program starts later, and leaves to it."""
    monkeypatch.setattr(watching, "EVERY", 0.1)
    runner, starter = await make(), await make(run_tasks=False)
    assert not runner.tasks.feeding.runs_all  # type: ignore[attr-defined]
    work.gate.set()
    handle = await starter.start("work", {"number": 1})
    assert (await handle.wait(BOUND)).is_success
    assert runner.tasks.feeding.runs_all  # type: ignore[attr-defined]
    assert not starter.tasks.feeding.runs_all  # type: ignore[attr-defined]


async def test_an_engine_that_is_closed_looks_no_more(
    make: Make, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "EVERY", 0.01)
    runner, starter = await make(), await make(run_tasks=False)
    await runner.close()
    await starter.start("work", {"number": 1})
    await asyncio.sleep(0.1)
    assert not runner.tasks.feeding.runs_all  # type: ignore[attr-defined]
    assert work.ran == []


@pytest.mark.parametrize("is_repeatable", [False, True])
async def test_dead_while_it_ran(make: Make, work: Work, is_repeatable: bool) -> None:
    """What may have run is not run again, unless the tool says that this does no harm."""
    keys = {"idempotent": True} if is_repeatable else {}
    engine = await make(keys)
    handle = await engine.start("work", {"number": 1})
    waits = [await engine.start("work", {"number": each}) for each in range(2, 9)]
    await until(handle, "running")
    await work.until_ran(1)
    await die(engine)
    work.gate.set()
    heir = await make(keys)
    found = await heir.tasks.get(handle.id)
    result = await found.wait(BOUND)
    assert result.error_type == (None if is_repeatable else "worker_lost")
    assert work.ran.count(1) == (2 if is_repeatable else 1)
    for each in waits[1:]:
        assert (await (await heir.tasks.get(each.id)).wait(BOUND)).is_success
    if not is_repeatable:
        assert "check what it did, and start it again" in str(result.error)
        records = await heir.query_call_records(call_id=result.call_id)
        assert [record.error_type for record in records] == ["worker_lost"]


async def test_cancelled_where_it_was_taken_for_dead(make: Make, work: Work) -> None:
    """An engine that another one took for dead passes a cancellation on."""
    keys = {"permission": {"execution": "ask_always"}}
    first = await make(keys, approver=QueueApprover())
    handle = await first.start("work", {"number": 1})
    await until(handle, "input_required")
    for loop in first.tasks.feeding._loops:  # type: ignore[attr-defined]
        loop.cancel()  # it looks no more, and so does not learn of it
    second = await make(keys, approver=QueueApprover())
    second.tasks.open()
    feeding = second.tasks.feeding  # type: ignore[attr-defined]
    for kept in await feeding.storage.inherit(first.tasks.feeding.worker, feeding.worker):  # type: ignore[attr-defined]
        await feeding._take_over(kept)
    found = await second.tasks.get(handle.id)
    await until(found, "input_required")
    assert await asyncio.wait_for(handle.cancel(), BOUND)
    assert (await found.wait(BOUND)).error_type == "cancelled"
    assert (await handle.wait(BOUND)).error_type == "cancelled"
    assert work.ran == []


async def test_what_a_killed_engine_asked(make: Make, work: Work) -> None:
    """Its open question is listed no more, and another engine asks anew."""
    keys = {"permission": {"execution": "ask_always"}}
    first, second = await make(keys), await make(keys)
    live_on(first, second)
    for each in (first, second):
        each.approvals.take_questions()
    handle = await first.start("work", {"number": 1})
    await until(handle, "input_required")
    async with asyncio.timeout(BOUND):
        while not await second.approvals.pending():  # noqa: ASYNC110 - another engine's
            await asyncio.sleep(0.02)
    (asked,) = await second.approvals.pending()
    assert asked.task_id == handle.id
    for loop in first.tasks.feeding._loops:  # type: ignore[attr-defined]
        loop.cancel()
    feeding, worker = second.tasks.feeding, first.tasks.feeding.worker  # type: ignore[attr-defined]
    take_over, open_then = feeding._take_over, []

    async def look_first(kept: Any) -> None:
        open_then.append(list(await second.approvals.pending()))
        await take_over(kept)

    feeding._take_over = look_first
    second.tasks.open()
    await feeding._look_around()
    feeding._seen[worker] = feeding._seen[worker][0], float("-inf")
    await feeding._look_around()
    again = asked
    async with asyncio.timeout(BOUND):
        while again.token == asked.token:
            await asyncio.sleep(0.02)
            found = await second.approvals.pending()
            again = found[0] if len(found) == 1 else asked
    # Closed before it is asked anew: else the new question was closed with the old one.
    assert open_then == [[]]
    assert again.task_id == handle.id
    work.gate.set()
    await second.approvals.answer(again.token, True)
    assert (await (await second.tasks.get(handle.id)).wait(BOUND)).is_success
    assert work.ran == [1]


async def test_taken_again_by_the_engine_that_has_it(make: Make, work: Work) -> None:
    """A task that comes back to the engine that was taken for dead runs once."""
    keys = {"permission": {"execution": "ask_always"}}
    approver = QueueApprover()
    engine = await make(keys, approver=approver)
    handle = await engine.start("work", {"number": 1})
    await until(handle, "input_required")
    feeding = engine.tasks.feeding  # type: ignore[attr-defined]
    (kept,) = await feeding.storage.inherit(feeding.worker, "another")
    await feeding._take_over(kept)
    async with asyncio.timeout(BOUND):
        # It is queued again; the question of the run that was given up may be open meanwhile.
        while (await feeding.storage.get(handle.id)).state.status != "input_required":
            await feeding._look_around()
            await asyncio.sleep(0.05)
    # One more look asks no second time.
    await feeding._look_around()
    await asyncio.sleep(0.05)
    assert len(approver.pending_approvals) == 1
    work.gate.set()
    approver.allow(approver.pending_approvals[0].token)
    assert (await handle.wait(BOUND)).is_success
    assert work.ran == [1]


async def test_what_is_written_late(make: Make, work: Work) -> None:
    """That a task waits, written late, does not take the place of that it runs."""
    approver = QueueApprover()
    engine = await make({"permission": {"execution": "ask_always"}}, approver=approver)
    storage = engine.tasks.feeding.storage  # type: ignore[attr-defined]
    write, is_late, began = storage.change, asyncio.Event(), asyncio.Event()
    late: list[asyncio.Task[Any]] = []

    async def write_late(task: Any, state: Any) -> bool:
        if state.status == "input_required" and not late:
            late.append(asyncio.current_task())  # type: ignore[arg-type]
            is_late.set()
            # It arrives after what is written next, if that does not wait for it.
            await asyncio.wait([asyncio.ensure_future(began.wait())], timeout=0.3)
            return bool(await write(task, state))
        done = await write(task, state)
        began.set()
        return bool(done)

    storage.change = write_late
    handle = await engine.start("work", {"number": 1})
    async with asyncio.timeout(BOUND):
        await is_late.wait()
        approver.allow(approver.pending_approvals[0].token)
        await work.until_ran(1)
        await asyncio.sleep(0.2)
    found = await storage.get(handle.id)
    assert (found.state.status, handle.status) == ("running", "running")
    work.gate.set()
    assert (await handle.wait(BOUND)).is_success


async def test_two_engines(make: Make, work: Work) -> None:
    """Two engines share the tasks of a database, and none runs twice."""
    first, second = await make(), await make()
    live_on(first, second)
    second.tasks.open()
    work.gate.set()
    handles = [await first.start("work", {"number": each}) for each in range(40)]
    for handle in handles:
        assert (await handle.wait(BOUND)).is_success
    assert sorted(work.ran) == list(range(40))


async def test_one_that_asks_in_another_engine(make: Make, work: Work) -> None:
    """That is said where it is looked at from elsewhere, and no place among those that wait."""
    first, second = await make(), await make()
    handle = [await first.start("work", {"number": each}) for each in range(3)][-1]
    async with asyncio.timeout(BOUND):
        # For a moment no engine has it, and both say so.
        while "to ask for a slot" in str((await handle.refresh()).message):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
    assert "number 1" in str(handle.state.message)
    found = await second.tasks.get(handle.id)
    assert found.state.message == "another process has it, and asks for a slot there"
    work.gate.set()
    assert (await found.wait(BOUND)).is_success


@pytest.mark.parametrize(("asked", "has_room"), [("claim", False), ("put", False), ("put", True)])
async def test_an_answer_that_takes_longer_than_some_looks(
    make: Make, work: Work, monkeypatch: pytest.MonkeyPatch, asked: str, has_room: bool
) -> None:
    """A task that an engine is about to run is not taken for one whose answer was lost."""
    runner, starter = await make(), await make(run_tasks=asked == "put")
    live_on(runner, starter)
    owner = starter if asked == "put" else runner
    feeding = owner.tasks.feeding  # type: ignore[attr-defined]
    ask, came, goes_on = getattr(feeding.storage, asked), asyncio.Event(), asyncio.Event()

    async def ask_slowly(*given: Any, **more: Any) -> Any:
        found = await ask(*given, **more)
        if found:
            came.set()
            await goes_on.wait()
        return found

    if has_room:
        feeding.open()
        async with asyncio.timeout(BOUND):
            while not feeding.has_room("work", is_bound=False):  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)
    monkeypatch.setattr(feeding.storage, asked, ask_slowly)
    starting = asyncio.create_task(starter.start("work", {"number": 1}))
    runner.tasks.open()
    async with asyncio.timeout(BOUND):
        await came.wait()
        for _ in range(3):
            await feeding._look_around()
        goes_on.set()
        handle = await starting
        work.gate.set()
        assert (await handle.wait(BOUND)).is_success
    assert work.ran == [1]


@pytest.mark.parametrize("is_expired", [False, True], ids=["forgotten", "expired"])
async def test_forgotten_elsewhere(make: Make, work: Work, is_expired: bool) -> None:
    """What one engine has forgotten is gone for the one that ran it, too, which still has it."""
    work.gate.set()
    first, second = await make(), await make()
    handle = await first.start("work", {"number": 1})
    assert (await handle.wait(BOUND)).is_success
    assert (await first.tasks.get(handle.id)).status == "succeeded"
    if is_expired:
        later = handle.state.expires_at
        assert await second.tasks.feeding.storage.remove_expired(later) == 1  # type: ignore[attr-defined]
    else:
        assert await second.tasks.forget(handle.id)
    with pytest.raises(TaskNotFoundError):
        await first.tasks.get(handle.id)
    with pytest.raises(TaskNotFoundError):
        await first.tasks.cancel(handle.id)
    assert handle.result is not None


async def test_awaited_in_another_engine(make: Make, work: Work) -> None:
    """A tool that is for no task runs, wherever, for a caller that waits and may ask again."""
    keys = {"background": "never"}
    engines = [await make(keys, run_tasks=False), await make(keys)]
    engines[1].tasks.open()
    work.gate.set()
    handle = await engines[0].tasks.start("work", {"number": 1}, is_awaited=True)
    assert (await handle.wait(BOUND)).output == {"number": 1}


async def test_cancelled_from_elsewhere(make: Make) -> None:
    """A task is cancelled by any engine of its database, and its progress is seen there."""
    first, second = await make(), await make()
    live_on(first, second)
    handle = await first.start("work", {"number": 1})
    await until(handle, "running")
    found = await second.tasks.get(handle.id)
    async with asyncio.timeout(BOUND):
        while (await found.refresh()).progress is None:  # noqa: ASYNC110 - another engine's
            await asyncio.sleep(0.02)
    assert await found.cancel("no more")
    result = await found.wait(BOUND)
    assert (result.error_type, found.state.message) == (
        "cancelled",
        "the task was cancelled: no more",
    )


def read_all(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.glob("kept.db*")]


async def test_secret_arguments(make: Make, work: Work, tmp_path: Path) -> None:
    """Secrets are not written; such a task runs where it was started, or ends."""
    number = {"name": "number", "type": "integer", "required": True, "description": "which"}
    secret = {
        "name": "pin",
        "type": "string",
        "secret": True,
        "required": True,
        "description": "which",
    }
    keys = {"parameters": [number, secret]}

    async def say(number: int, pin: str) -> Any:
        return {"said": pin}

    work.run = say  # type: ignore[method-assign, assignment]
    engine = await make(keys)
    handle = await engine.start("work", {"number": 1, "pin": "4711-secret"})
    assert (await handle.wait(BOUND)).output == {"said": "4711-secret"}
    await engine.close()
    assert not any(b"4711-secret" in each for each in await asyncio.to_thread(read_all, tmp_path))
    later = await make(keys)
    found = await later.tasks.get(handle.id)
    assert found.result is not None
    assert found.result.output == {"said": "[hidden]"}


async def test_arguments_that_only_memory_has(make: Make, work: Work) -> None:
    """A queued task whose arguments are not written ends with its engine, and says so."""
    heard: list[Any] = []
    engine = await make()
    context = ToolExecutionContext(on_progress=heard.append)
    handles = [await engine.start("work", {"number": each}, context) for each in range(9)]
    await until(handles[1], "running")
    await engine.close()
    later = await make()
    result = await (await later.tasks.get(handles[8].id)).wait(BOUND)
    assert result.error_type in ("worker_lost", "engine_closed")
    assert 8 not in work.ran


@dataclass
class Detached:
    """A row that cannot be read any more, as those of ORMs can be."""

    name: str = "a"

    def __getattribute__(self, name: str) -> Any:
        if name == "name":
            raise RuntimeError("the connection is closed")
        return super().__getattribute__(name)


async def read_half() -> dict[str, Any]:
    return {"caf\udce9": "caf\udce9", "caf\\udce9": 2, "size": 2**80}


async def read_row() -> dict[str, Any]:
    return {"row": Detached()}


async def fail_over_half() -> None:
    raise FileNotFoundError("there is no caf\udce9")


@pytest.mark.parametrize(
    ("run", "error", "output"),
    [
        (
            read_half,
            None,
            {"caf\\udce9'": "caf\\udce9", "caf\\udce9": 2, "size": 2**80},
        ),
        (read_row, None, None),
        (fail_over_half, "FileNotFoundError: there is no caf\\udce9", {}),
    ],
)
async def test_what_no_database_takes(
    make: Make, work: Work, run: Any, error: str | None, output: Any
) -> None:
    """A task ends once, whatever its tool returns: names of files that are not UTF-8, for one."""
    ran = []

    async def note_run() -> Any:
        ran.append(1)
        return await run()

    work.run = note_run  # type: ignore[method-assign, assignment]
    keys: dict[str, Any] = {"parameters": [], "effect": "read"}
    handle = await (await make(keys)).start("work")
    await handle.wait(BOUND)
    found = await (await make(keys)).tasks.get(handle.id)
    assert found.result is not None
    assert (found.result.error, len(ran)) == (error, 1)
    assert output in (None, found.result.output)


async def test_a_reason_that_no_database_takes(make: Make, work: Work) -> None:
    engine = await make()
    handles = [await engine.start("work", {"number": each}) for each in range(9)]
    await until(handles[0], "running")
    for each in (handles[0], handles[8]):
        assert await each.cancel("half \udce9 of it")
        later = await make()
        live_on(engine, later)
        found = await later.tasks.get(each.id)
        # Where an engine that came later has taken it, that one ends it at its next look.
        await found.wait(BOUND)
        assert (found.status, found.state.message) == (
            "cancelled",
            "the task was cancelled: half \\udce9 of it",
        )


def lead_to(folder: Path, place: Path) -> None:
    """Makes a folder another one, or none, in one step: an engine looks at any moment."""
    link = folder.with_suffix(".next")
    link.symlink_to(place)
    link.replace(folder)


async def test_a_database_that_is_gone(
    tmp_path: Path, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that runs tasks says it once, however often it asks, until it was answered."""
    folder, there, nowhere = tmp_path / "records", tmp_path / "there", tmp_path / "no-folder"
    there.mkdir()
    nowhere.touch()
    lead_to(folder, there)
    config = ToolEngineConfig(
        tools_directory=str(tmp_path / "tools"),
        auto_reload=False,
        records=f"sqlite:///{folder / 'kept.db'}",
    )
    engine = ToolEngine(config)
    work.add_to(engine)
    work.gate.set()
    own: Any = engine.tasks
    own.feeding.lease = 0.1
    asked, claim = asyncio.Semaphore(0), own.feeding.storage.claim_expired

    def ask(*given: Any) -> Any:
        asked.release()
        return claim(*given)

    monkeypatch.setattr(own.feeding.storage, "claim_expired", ask)

    async def until_asked(times: int) -> None:
        async with asyncio.timeout(BOUND):
            for _ in range(times):
                await asked.acquire()

    async with engine:
        assert (await (await engine.start("work", {"number": 1})).wait(BOUND)).is_success
        with capture_logs() as lines:
            for time in (1, 2):
                await asyncio.to_thread(lead_to, folder, nowhere)
                await until_asked(asked._value + 4)
                assert [each["event"] for each in lines] == ["tasks_not_read"] * time
                await asyncio.to_thread(lead_to, folder, there)
                await until_asked(asked._value + 4)
        assert "cannot be kept or read" in lines[0]["error"]
        assert (await (await engine.start("work", {"number": 2})).wait(BOUND)).is_success


async def test_what_an_idle_engine_asks(
    make: Make, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no task is open it looks for one, and writes no more often than it must."""
    engine, other = await make(), await make(run_tasks=False)
    feeding = engine.tasks.feeding  # type: ignore[attr-defined]
    feeding.lease = 60.0
    storage, asked = feeding.storage, asyncio.Semaphore(0)
    looks, has_open, beat = 0, storage.has_open, storage.beat

    async def ask() -> bool:
        asked.release()
        return bool(await has_open())

    async def count_beat(worker: str) -> Any:
        nonlocal looks
        looks += 1
        return await beat(worker)

    monkeypatch.setattr(feeding_module, "_PULSE", 0.01)
    monkeypatch.setattr(storage, "has_open", ask)
    monkeypatch.setattr(storage, "beat", count_beat)
    engine.tasks.serve()
    async with asyncio.timeout(BOUND):
        for _ in range(20):
            await asked.acquire()
    assert looks == 1
    work.gate.set()
    handle = await other.start("work", {"number": 1})
    assert (await handle.wait(BOUND)).is_success
    assert looks > 1


async def test_killed_at_any_moment(tmp_path: Path) -> None:
    """Kills lose no task, and run none twice that does not allow it."""
    rounds = 100 if IS_WHOLE else 15
    (tmp_path / "tools").mkdir()
    process = await start(
        *("-m", "tests.background.killed_tasks", str(rounds), str(tmp_path)), cwd=ROOT
    )
    found = json.loads((await process.communicate())[0])
    assert found["started"] >= rounds / 2
    assert (found["ends"]["open"], found["twice"]) == (0, 0)
    assert found["never_ran"] <= found["ends"].get("worker_lost", 0)
    assert set(found["ends"]) <= {"succeeded", "worker_lost", "open"}
