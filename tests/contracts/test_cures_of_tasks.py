"""What an error of a task says to do is done, and it works.

The rows are as those of `test_cures_of_errors`, which counts what is tried.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.background.test_tasks import BOUND, Work, until
from tests.cli.conftest import Command, command, tools  # noqa: F401 - fixtures
from tool_engine import (
    ConfigurationError,
    EngineClosedError,
    TaskConflictError,
    TaskError,
    TaskNotFoundError,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
    TooManyTasksError,
)

LONGER = "background/runner.py: start it with a longer one"
AGAIN = "background/run.py: start it again"
FORGOTTEN = (
    "background/new_task.py: a task is forgotten once its ttl is over: start it again, or list the "
    "tasks"
)
GOES_ON = "background/tasks.py: it goes on: wait longer, or cancel it"
RUN_HERE = "background/feeding.py: let this engine run tasks, with run_tasks=True"
OF_PROGRAM = (
    "background/new_task.py: make the call with context.call or session.execute, or start the task "
    "in your program"
)
ONE_KEY = "background/new_task.py: use one key for one call"
SAME = "background/new_task.py: if it is, ask for the task …, else use a key of its own"
REQUIRED = (
    "calls/planner.py: start one: with engine.start, `tool-engine task start`, or over HTTP with "
    "Prefer: respond-async"
)
KEY = "background/new_task.py: give another one, such as a UUID"
OWNER = "background/new_task.py: give the name of who started the task"
PUT_BACK = "background/run.py: put it back, and start it again"
CALL_AGAIN = "calls/call.py: call it again once it is back"
OF_ALL = "cli/background/task_command.py: write `tool-engine task cancel --all`"
LISTED = "cli/background/task_command.py: `tool-engine task` lists those that are"
NAMED = (
    "cli/background/task_command.py: name one with --records URL or the variable "
    "TOOL_ENGINE_RECORDS"
)
ROOM = (
    "background/quotas.py: forget some that have ended, start tasks with a shorter ttl, or allow "
    "more with max_tasks_per_owner"
)
OPEN = "background/feeding.py: ask for it in an open engine on the same database"
TRIED = {
    OPEN,
    OF_ALL,
    ROOM,
    LONGER,
    AGAIN,
    FORGOTTEN,
    GOES_ON,
    RUN_HERE,
    OF_PROGRAM,
    ONE_KEY,
    SAME,
    REQUIRED,
    KEY,
    OWNER,
    PUT_BACK,
    CALL_AGAIN,
    LISTED,
    NAMED,
}


@pytest.fixture
async def work() -> Work:
    return Work()


@pytest.fixture
async def engine(work: Work) -> AsyncIterator[ToolEngine]:
    config = ToolEngineConfig(tools_directory="none", auto_reload=False, close_timeout=0.1)
    made = ToolEngine(config)
    work.add_to(made)
    yield made
    await made.close()


async def test_a_longer_ttl(engine: ToolEngine, work: Work) -> None:
    short = await engine.start("work", {"number": 1}, ttl=0.05)
    await short.wait(BOUND)
    assert LONGER.partition(": ")[2] in str(short.state.message)
    longer = await engine.start("work", {"number": 1}, ttl=60)
    work.gate.set()
    assert (await longer.wait(BOUND)).is_success


async def test_asked_in_an_open_engine(tmp_path: Path, work: Work) -> None:
    def make() -> ToolEngine:
        database = f"sqlite:///{tmp_path / 'kept.db'}"
        made = ToolEngine(ToolEngineConfig(str(tmp_path), records=database, auto_reload=False))
        work.add_to(made)
        return made

    async with make() as engine:
        engine.controller.pause()
        handle = await engine.start("work", {"number": 1})
    with pytest.raises(EngineClosedError) as caught:
        await handle.wait()
    assert str(caught.value).endswith(OPEN.partition(": ")[2])
    work.gate.set()
    async with make() as opened:
        assert (await (await opened.tasks.get(handle.id)).wait(BOUND)).is_success


async def test_started_again(engine: ToolEngine, work: Work) -> None:
    # More than wait for a slot at once: the last ones are not looked up yet.
    handles = [await engine.start("work", {"number": each}) for each in range(40)]
    await until(handles[0], "running")
    engine.unregister_tool("work")
    work.add_to(engine, timeout=5)
    work.gate.set()
    result = await handles[-1].wait(BOUND)
    assert str(result.error).endswith(AGAIN.partition(": ")[2])
    assert (await (await engine.start("work", {"number": 1})).wait(BOUND)).is_success


async def test_listed_and_waited_for(engine: ToolEngine, work: Work) -> None:
    with pytest.raises(TaskNotFoundError, match="start it again, or list the tasks"):
        await engine.tasks.get("gone")
    handle = await engine.start("work", {"number": 1})
    assert [state.id for state in await engine.tasks.list()] == [handle.id]
    with pytest.raises(TimeoutError, match="it goes on: wait longer, or cancel it"):
        await handle.wait(0.01)
    work.gate.set()
    assert (await handle.wait(BOUND)).is_success


async def has_started(engine: ToolEngine, context: ToolExecutionContext) -> bool:
    try:
        await engine.start("work", {"number": 3}, context)
    except TooManyTasksError:
        return False
    return True


async def test_room_for_one_more(tmp_path: Path, work: Work) -> None:
    work.gate.set()
    ann = ToolExecutionContext("ann")
    place: dict[str, Any] = {"tools_directory": "none", "auto_reload": False}
    config = ToolEngineConfig(**place, max_tasks_per_owner=1)
    async with ToolEngine(config) as engine:
        work.add_to(engine)
        first = await engine.start("work", {"number": 1}, ann)
        await first.wait(BOUND)
        with pytest.raises(TooManyTasksError) as raised:
            await engine.start("work", {"number": 2}, ann)
        assert str(raised.value).endswith(ROOM.partition(": ")[2])
        await engine.tasks.forget(first.id)
        short = await engine.start("work", {"number": 2}, ann, ttl=0.2)
        await short.wait(BOUND)
        async with asyncio.timeout(BOUND):
            while not await has_started(engine, ann):  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0.05)
    async with ToolEngine(ToolEngineConfig(**place, max_tasks_per_owner=2)) as engine:
        work.add_to(engine)
        for _ in range(2):
            await (await engine.start("work", {"number": 4}, ann)).wait(BOUND)


async def test_one_key_for_one_call(engine: ToolEngine, work: Work) -> None:
    await engine.start("work", {"number": 1}, idempotency_key="a")
    with pytest.raises(TaskConflictError, match=ONE_KEY.partition(": ")[2]):
        await engine.start("work", {"number": 2}, idempotency_key="a")
    work.gate.set()
    other = await engine.start("work", {"number": 2}, idempotency_key="b")
    assert (await other.wait(BOUND)).is_success


async def test_a_key_that_another_process_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pin = {"name": "pin", "type": "string", "description": "It", "required": True, "secret": True}
    tool = {"name": "take", "description": "Takes it", "parameters": [pin]}
    place: dict[str, Any] = {"tools_directory": "none", "records": f"sqlite:///{tmp_path}/k.db"}
    async with ToolEngine(ToolEngineConfig(**place)) as engine:
        engine.register_tool(tool, lambda pin: "taken")
        handle = await engine.start("take", {"pin": "1"}, idempotency_key="a")
        assert (await handle.wait(BOUND)).is_success
    monkeypatch.setattr("tool_engine.background.request_digest._SECRET", b"of another process")
    async with ToolEngine(ToolEngineConfig(**place)) as engine:
        engine.register_tool(tool, lambda pin: "taken")
        with pytest.raises(TaskConflictError, match="ask for the task") as raised:
            await engine.start("take", {"pin": "1"}, idempotency_key="a")
        named = str(raised.value).partition("ask for the task ")[2].partition(",")[0]
        assert (await (await engine.tasks.get(named)).wait(BOUND)).is_success
        other = await engine.start("take", {"pin": "1"}, idempotency_key="b")
        assert (await other.wait(BOUND)).is_success


async def test_made_by_the_tool(engine: ToolEngine, work: Work) -> None:
    work.gate.set()

    @engine.tool(description="Starts")
    async def starter(context: ToolExecutionContext) -> Any:
        with pytest.raises(TaskError, match=r"make the call with context\.call"):
            await engine.start("work", {"number": 1})
        return (await context.call("work", {"number": 1})).output

    assert (await engine.execute("starter")).output == {"number": 1}


async def test_started_where_required(engine: ToolEngine, work: Work) -> None:
    work.gate.set()
    engine.unregister_tool("work")
    work.add_to(engine, background="required")
    result = await engine.execute("work", {"number": 1})
    assert str(result.error).endswith(REQUIRED.partition(": ")[2])
    assert (await (await engine.start("work", {"number": 1})).wait(BOUND)).is_success


async def test_keys_and_owners(engine: ToolEngine, work: Work) -> None:
    work.gate.set()
    with pytest.raises(ConfigurationError, match=KEY.partition(": ")[2]):
        await engine.start("work", {"number": 1}, idempotency_key="a\tb")
    ann = ToolExecutionContext("ann")
    handle = await engine.start("work", {"number": 1}, ann, idempotency_key=str(uuid4()))
    with pytest.raises(ConfigurationError, match=OWNER.partition(": ")[2]):
        await engine.tasks.get(handle.id, 5)  # type: ignore[arg-type]
    assert (await engine.tasks.get(handle.id, "ann")).id == handle.id


async def test_put_back(engine: ToolEngine, work: Work) -> None:
    await engine.start("work", {"number": 1})
    waits = await engine.start("work", {"number": 2})
    engine.unregister_tool("work")
    work.gate.set()
    assert str((await waits.wait(BOUND)).error).endswith(PUT_BACK.partition(": ")[2])
    work.add_to(engine)
    assert (await (await engine.start("work", {"number": 2})).wait(BOUND)).is_success


async def test_called_again(engine: ToolEngine, work: Work) -> None:
    engine.controller.pause()
    waits = asyncio.create_task(engine.execute("work", {"number": 1}))
    while not engine.controller.get_metrics().queue_length:  # noqa: ASYNC110 - soon
        await asyncio.sleep(0)
    engine.unregister_tool("work")
    assert str((await waits).error).endswith(CALL_AGAIN.partition(": ")[2])
    work.add_to(engine)
    work.gate.set()
    engine.controller.resume()
    assert (await engine.execute("work", {"number": 1})).is_success


async def test_run_here(tmp_path: Path, work: Work) -> None:
    work.gate.set()
    place: dict[str, Any] = {"tools_directory": "none", "auto_reload": False}
    for runs in (False, True):
        config = ToolEngineConfig(**place, records=f"sqlite:///{tmp_path}/kept.db", run_tasks=runs)
        async with ToolEngine(config) as engine:
            work.add_to(engine)
            # What hears it is in this process alone.
            context = ToolExecutionContext(on_progress=lambda _: None)
            if runs:
                handle = await engine.start("work", {"number": 1}, context)
                assert (await handle.wait(BOUND)).is_success
                continue
            with pytest.raises(TaskError, match=RUN_HERE.partition(": ")[2]):
                await engine.start("work", {"number": 1}, context)


def test_on_the_command_line(command: Command, tmp_path: Path) -> None:  # noqa: F811 - a fixture
    nowhere = command("task", "--records", "none")
    assert NAMED.partition(": ")[2] in nowhere.err
    url = f"sqlite:///{tmp_path}/calls.db"
    started = command("task", "start", "echo", "message=a", "--records", url)
    unknown = command("task", "show", "12", "--records", url)
    assert LISTED.partition(": ")[2] in unknown.err
    several = command("task", "show", "--all", "--records", url)
    assert OF_ALL.partition(": ")[2] in several.err
    assert command("task", "cancel", "--all", "--status", "running", "--records", url).code == 0
    assert started.out.strip()[:8] in command("task", "--records", url).out
