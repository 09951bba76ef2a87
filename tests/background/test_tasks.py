"""What a program sees of tasks: in memory, and in a database."""

from __future__ import annotations

import asyncio
import gc
import re
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.effort import IS_WHOLE
from tool_engine import (
    ConcurrencyConfig,
    ConfigurationError,
    QueueApprover,
    TaskConflictError,
    TaskError,
    TaskHandle,
    TaskNotFoundError,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineEventType,
    ToolExecutionContext,
    TooManyTasksError,
)
from tool_engine.calls.call import Call
from tool_engine.interfaces.tasks import Tasks
from tool_engine.model.task import KeptTask

OTHER = {"name": "other", "description": "is another one", "parameters": []}
EXECUTION_STARTED = ToolEngineEventType.EXECUTION_STARTED
BOUND = 20.0
Make = Callable[..., Awaitable[ToolEngine]]


def ran_nothing() -> dict[str, int]:
    return {}


class Work:
    """A tool that ends when it is let."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.ran: list[int] = []

    async def run(self, number: int, context: ToolExecutionContext) -> dict[str, int]:
        self.ran.append(number)
        await context.report_progress(1, 2, "half")
        await self.gate.wait()
        return {"number": number}

    async def until_ran(self, count: int) -> None:
        """Wait until that many have begun: "running" is said a moment before."""
        async with asyncio.timeout(BOUND):
            while len(self.ran) < count:  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0.01)

    def add_to(self, engine: ToolEngine, **keys: Any) -> None:
        number = {"name": "number", "type": "integer", "required": True, "description": "which"}
        definition = {"name": "work", "description": "works", "parameters": [number], **keys}
        engine.register_tool(definition, self.run)


@pytest.fixture
async def work() -> Work:
    return Work()


@pytest.fixture(params=["memory", "sqlite"])
async def make(request: pytest.FixtureRequest, tmp_path: Path, work: Work) -> AsyncIterator[Make]:
    made: list[ToolEngine] = []

    async def make_one(keys: dict[str, Any] | None = None, **options: Any) -> ToolEngine:
        limits = options.pop("limits", {"max_concurrent": 2})
        most = options.pop("max_tasks_per_owner", 10_000)
        records = f"sqlite:///{tmp_path / 'kept.db'}" if request.param == "sqlite" else None
        config = ToolEngineConfig(
            tools_directory=str(tmp_path / "tools"),
            auto_reload=False,
            records=records,
            close_timeout=0.2,
            max_tasks_per_owner=most,
        )
        engine = ToolEngine(config, concurrency=ConcurrencyConfig(**limits), **options)
        made.append(engine)
        work.add_to(engine, **(keys or {}))
        await engine.load()
        return engine

    yield make_one
    for engine in made:
        await engine.close()


async def until(handle: TaskHandle, *statuses: str) -> None:
    async with asyncio.timeout(BOUND):
        while handle.status not in statuses:  # noqa: ASYNC110 - several things may change it
            await asyncio.sleep(0.005)


async def test_a_tool_in_place_of_its_name(make: Make) -> None:
    """No task is made of it: the mistake is in the program."""
    async with await make() as engine:
        wrong: Any
        for wrong in (engine.list_all()[0], None, ["t"]):
            with pytest.raises(ConfigurationError, match="a tool is called by its name, a text"):
                await engine.start(wrong, {})
        assert await engine.tasks.list() == []


async def test_start_and_wait(make: Make, work: Work) -> None:
    """A task is kept under an id that cannot be guessed, tells how far it is, and how it ended."""
    engine = await make()
    handle = await engine.start("work", {"number": 7}, ToolExecutionContext("ann"))
    await until(handle, "running")
    assert len(handle.id) == 32
    assert handle.progress is not None
    assert (handle.progress.done, handle.progress.message) == (1, "half")
    assert handle.result is None
    with pytest.raises(TimeoutError, match=r"it goes on: wait longer, or cancel it"):
        await handle.wait(0.01)
    work.gate.set()
    result = await handle.wait(BOUND)
    assert (result.output, handle.status) == ({"number": 7}, "succeeded")
    assert result.metadata["task_id"] == handle.id
    assert (handle.state.owner, handle.state.tool_name) == ("ann", "work")
    (record,) = await engine.query_call_records(call_id=handle.state.call_id)
    assert record.is_success


async def test_records_and_events_name_their_task(make: Make, work: Work) -> None:
    """What a task has done is found by its id: its call, those its tool made, and their events."""
    engine = await make()

    @engine.tool(description="Makes a call")
    async def outer(number: int, context: ToolExecutionContext) -> dict[str, Any]:
        return (await context.call("work", {"number": number})).output

    work.gate.set()
    async with engine.events() as events:
        handle = await engine.start("outer", {"number": 7}, ToolExecutionContext("ann"))
        await handle.wait(BOUND)
        assert (await engine.execute("work", {"number": 8})).is_success
        started: list[Any] = []
        while len(started) < 3:
            event = await asyncio.wait_for(anext(events), BOUND)
            started += [event] if event.event_type is EXECUTION_STARTED else []
    records = await engine.query_call_records(task_id=handle.id)
    assert [record.tool_name for record in records] == ["outer", "work"]
    assert {record.task_id for record in records} == {handle.id}
    assert [(event.tool_name, event.data["task_id"]) for event in started] == [
        ("outer", handle.id),
        ("work", handle.id),
        ("work", None),
    ]
    refused = await engine.start("outer", {"number": "x"})
    (record,) = await engine.query_call_records(task_id=refused.id)
    assert record.error_type == "validation_error"


async def test_what_waits_takes_no_slot(make: Make, work: Work) -> None:
    """A hundred tasks leave the queue to callers, whatever its limits say; each says its place."""
    engine = await make(limits={"max_concurrent": 2, "queue_size": 8, "queue_timeout": 0.05})
    handles = [await engine.start("work", {"number": each}) for each in range(100)]
    await work.until_ran(2)
    assert engine.controller.get_metrics().queue_length < 8
    said = str((await handles[99].refresh()).message)
    assert re.fullmatch(r"number 9\d of the tasks that wait .*; about \d+\.\d\d s to go", said)
    assert (await handles[2].refresh()).message
    work.gate.set()
    results = [await handle.wait(BOUND) for handle in handles]
    assert all(result.is_success for result in results)
    assert sorted(work.ran) == list(range(100))


async def test_what_shares_a_run(make: Make, work: Work) -> None:
    """A task whose call shares the run of another one says so, and which call is its own."""
    sharing = {"key": "params", "collision": "single_flight"}
    engine = await make({"effect": "read", "concurrency": sharing})
    first, second = [await engine.start("work", {"number": 1}) for _ in range(2)]
    await work.until_ran(1)
    async with asyncio.timeout(BOUND):
        while second.state.call_id is None:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.01)
    said = str((await second.refresh()).message)
    assert said.startswith(f"{second.state.call_id} shares the run of another call")
    assert str((await first.refresh()).call_id) not in said
    work.gate.set()
    assert [(await each.wait(BOUND)).is_success for each in (first, second)] == [True, True]
    assert work.ran == [1]


async def test_urgent_first(make: Make, work: Work) -> None:
    """Of the tasks that wait the most urgent one runs first."""
    engine = await make(limits={"max_concurrent": 1})
    handles = [await engine.start("work", {"number": each}) for each in range(10)]
    urgent = await engine.start("work", {"number": 99}, ToolExecutionContext(priority=1))
    await until(handles[0], "running")
    work.gate.set()
    for handle in (*handles, urgent):
        await handle.wait(BOUND)
    assert work.ran.index(99) < 7


@pytest.mark.parametrize("place", [0, 3, 40])
async def test_cancel(make: Make, work: Work, place: int) -> None:
    """A task that runs, asks for a slot or waits in line ends as cancelled, with a record."""
    engine = await make()
    handles = [await engine.start("work", {"number": each}) for each in range(41)]
    await until(handles[1], "running")
    await work.until_ran(2)
    handle = handles[place]
    assert await handle.cancel("no more")
    assert (handle.status, handle.state.message) == (
        "cancelled",
        "the task was cancelled: no more",
    )
    assert not await handle.cancel()
    (record,) = await engine.query_call_records(call_id=handle.state.call_id)
    assert record.error_type == "cancelled"
    work.gate.set()
    for other in handles:
        await other.wait(BOUND)
    assert work.ran.count(place) == (1 if place == 0 else 0)


@pytest.mark.parametrize(
    ("tool_name", "params", "error_type"),
    [
        ("work", {"number": "x"}, "validation_error"),
        ("wrok", {}, "tool_not_found"),
    ],
)
async def test_what_would_fail_at_once(
    make: Make, tool_name: Any, params: dict[str, Any], error_type: str
) -> None:
    """What `execute` refuses at once is a task that has ended when its id is given out."""
    engine = await make()
    handle = await engine.start(tool_name, params)
    assert handle.result is not None
    assert (handle.status, handle.result.error_type) == ("failed", error_type)


@pytest.mark.parametrize(
    ("change", "error_type"),
    [
        (lambda engine: engine.unregister_tool("work"), "tool_not_found"),
        (lambda engine: Work().add_to(engine, timeout=5), "execution_rejected"),
        (lambda engine: engine.register_tool(OTHER, ran_nothing), None),
    ],
    ids=["gone", "changed", "another"],
)
async def test_tools_that_change_before_it_runs(
    make: Make, work: Work, change: Callable[[ToolEngine], object], error_type: str | None
) -> None:
    """A task that has its slot runs what it was started with, or nothing, and gives it back."""
    work.gate.set()
    engine = await make()
    await (await engine.start("work", {"number": 1})).wait(BOUND)
    storage: Any = engine.tasks._storage  # type: ignore[attr-defined]

    class Slow:
        """Storage that takes its time to keep a task, in which the tool changes."""

        def __getattr__(self, name: str) -> Any:
            return getattr(storage, name)

        async def put(self, task: KeptTask) -> KeptTask:
            kept: KeptTask = await storage.put(task)
            if error_type == "execution_rejected":
                engine.unregister_tool("work")
            change(engine)
            return kept

    engine.tasks._storage = Slow()  # type: ignore[attr-defined]
    ann = ToolExecutionContext("ann")
    handle = await engine.start("work", {"number": 2}, ann, idempotency_key="kept before it runs")
    result = await handle.wait(BOUND)
    assert (result.error_type, result.call_id) == (error_type, handle.state.call_id)
    assert work.ran == ([1, 2] if error_type is None else [1])
    if error_type is not None:
        assert "start it again" in str(result.error)
    metrics = engine.controller.get_metrics()
    assert (metrics.active, metrics.queue_length) == (0, 0)


async def test_background_never(make: Make) -> None:
    """A definition may say that its caller has to wait."""
    engine = await make({"background": "never"})
    handle = await engine.start("work", {"number": 1})
    assert handle.status == "rejected"
    words = (
        "call it: with engine.execute, `tool-engine call`, or over HTTP without Prefer: respond-"
    )
    assert words in str(handle.state.message)


@pytest.mark.parametrize("owner", [5, b"ann", ["ann"]])
async def test_an_owner_that_is_none(make: Make, work: Work, owner: Any) -> None:
    """It is refused as such, wherever tasks are kept."""
    engine = await make()
    handle = await engine.start("work", {"number": 1})
    asked = (engine.tasks.list, partial(engine.tasks.get, handle.id))
    for ask in (*asked, partial(engine.tasks.cancel, handle.id)):
        with pytest.raises(ConfigurationError, match="owner must be a text"):
            await ask(owner=owner)


async def test_background_required(make: Make, work: Work) -> None:
    """A definition may say that no caller waits, and then it runs only as a task."""
    work.gate.set()
    engine = await make({"background": "required"})
    result = await engine.execute("work", {"number": 1})
    assert result.error_type == "execution_rejected"
    words = "start one: with engine.start, `tool-engine task start`, or over HTTP with Prefer: resp"
    assert words in str(result.error)
    handle = await engine.start("work", {"number": 1})
    assert (await handle.wait(BOUND)).is_success


async def test_one_key_one_task(make: Make, work: Work) -> None:
    """Two starts at once with one key are one task; other arguments are refused."""
    engine = await make()
    ann = ToolExecutionContext("ann")
    starts = (engine.start("work", {"number": 1}, ann, idempotency_key="monday") for _ in range(5))
    handles = await asyncio.gather(*starts)
    assert len({handle.id for handle in handles}) == 1
    with pytest.raises(TaskConflictError, match="use one key for one call"):
        await engine.start("work", {"number": 2}, ann, idempotency_key="monday")
    bob = await engine.start(
        "work", {"number": 2}, ToolExecutionContext("bob"), idempotency_key="monday"
    )
    work.gate.set()
    for handle in (*handles, bob):
        await handle.wait(BOUND)
    assert sorted(work.ran) == [1, 2]


async def test_more_than_an_owner_may_have(make: Make, work: Work) -> None:
    """What has ended counts; others, those of no owner, and a known key have what is theirs."""
    work.gate.set()
    engine = await make(max_tasks_per_owner=20)
    ann = ToolExecutionContext("ann")
    kept = [await engine.start("work", {"number": 1}, ann, idempotency_key="one", ttl=50.0)]
    kept += await asyncio.gather(
        *(engine.start("work", {"number": number}, ann) for number in range(19))
    )
    for handle in kept:
        await handle.wait(BOUND)
    cure = "forget some that have ended, start tasks with a shorter ttl, or allow more with"
    for _ in range(2):
        with pytest.raises(TooManyTasksError, match=cure) as raised:
            await engine.start("work", {"number": 2}, ann)
        assert raised.value.error_type == "too_many_tasks"
        assert 30 < (raised.value.retry_after or 0) <= 50
    again = await engine.start("work", {"number": 1}, ann, idempotency_key="one", ttl=50.0)
    assert again.id == kept[0].id
    with pytest.raises(TaskConflictError):
        await engine.start("work", {"number": 2}, ann, idempotency_key="one", ttl=50.0)
    for other in (ToolExecutionContext("bob"), None):
        await (await engine.start("work", {"number": 3}, other)).wait(BOUND)
    assert len(await engine.tasks.list("ann")) == 20
    assert await engine.tasks.forget(kept[1].id)
    assert (await (await engine.start("work", {"number": 4}, ann)).wait(BOUND)).is_success
    with pytest.raises(TooManyTasksError):
        await engine.start("work", {"number": 5}, ann)


async def test_many_starts_at_once_and_an_owner_that_may_have_few(make: Make, work: Work) -> None:
    """However many come at once, no more are kept; the refused ones ran nothing."""
    work.gate.set()
    engine = await make(max_tasks_per_owner=7)
    ann = ToolExecutionContext("ann")
    starts = (engine.start("work", {"number": number}, ann) for number in range(50))
    found = await asyncio.gather(*starts, return_exceptions=True)
    handles = [each for each in found if isinstance(each, TaskHandle)]
    assert len(handles) == 7
    assert {type(each) for each in found if each not in handles} == {TooManyTasksError}
    for each in handles:
        await each.wait(BOUND)
    assert len(work.ran) == len(await engine.tasks.list("ann")) == len(handles)


_KEYED: Final[dict[str, Any]] = {
    "caller_id": "ann",
    "timeout": 5.0,
    "variables": {"a": 1, "b": [2]},
}


@pytest.mark.parametrize(
    "change",
    [
        {"timeout": 6.0},
        {"timeout": None},
        {"priority": 1},
        {"conversation_id": "other"},
        {"workflow_id": "other"},
        {"session_id": "other"},
        {"max_retries": 0},
        {"variables": {"a": 2}},
        {"ttl": 7.0},
        {"tool": "again"},
    ],
)
async def test_a_key_of_another_request(make: Make, work: Work, change: dict[str, Any]) -> None:
    """What is asked for in another way is another request, whose key has to be another."""
    work.gate.set()
    engine = await make()
    engine.register_tool({"name": "again", "description": "Does it"}, lambda: 1)

    async def start(tool: str = "work", ttl: float = 60.0, **fields: Any) -> TaskHandle:
        context = ToolExecutionContext(**fields)
        return await engine.start(tool, {"number": 1}, context, ttl=ttl, idempotency_key="monday")

    first = await start(**_KEYED)
    with pytest.raises(TaskConflictError, match="use one key for one call"):
        await start(**{**_KEYED, **change})
    assert (await start(**_KEYED)).id == first.id


@pytest.mark.parametrize(
    "change", [{"retry_count": 1}, {"caller_type": "http"}, {"variables": {"b": [2], "a": 1}}]
)
async def test_a_key_of_the_same_request(make: Make, work: Work, change: dict[str, Any]) -> None:
    """Which try it is, and the order of what is named, make no other request of it."""
    work.gate.set()
    engine = await make()
    both = [
        await engine.start(
            "work", {"number": 1}, ToolExecutionContext(**each), idempotency_key="monday"
        )
        for each in (_KEYED, {**_KEYED, **change})
    ]
    assert both[0].id == both[1].id


@pytest.mark.parametrize("odd", ["\ud800", 1 << 70, {1: 2, "a": 3}, object])
async def test_a_key_beside_odd_values(make: Make, work: Work, odd: Any) -> None:
    """A request has its key whatever stands in it."""
    work.gate.set()
    engine = await make()
    context = ToolExecutionContext("ann", variables={"odd": odd})
    both = [
        await engine.start("work", {"number": 1}, context, idempotency_key="a") for _ in range(2)
    ]
    assert both[0].id == both[1].id


async def test_a_storm_of_questions(make: Make, work: Work) -> None:
    """Many wait for one task, and many ask how queued ones are: each hears it."""
    engine = await make({"timeout": 600}, limits={"max_concurrent": 1})
    # Each that waited is two commits of its own.
    count = 200 if IS_WHOLE and not engine.store.tasks.is_shared else 50
    handles = [await engine.start("work", {"number": each}) for each in range(count)]
    await work.until_ran(1)
    waiting = [asyncio.ensure_future(handles[0].wait()) for _ in range(5 * count)]
    asked = 50 * count if count == 200 else 5 * count
    for each in range(asked):
        found = await engine.tasks.get(handles[each % count].id)
        assert found.status in ("queued", "running")
    work.gate.set()
    async with asyncio.timeout(BOUND):  # not of the questions
        results = await asyncio.gather(*waiting)
    assert {result.output["number"] for result in results} == {0}
    assert (await handles[-1].wait(BOUND)).is_success


async def test_of_another_owner(make: Make) -> None:
    """What is another's is not there, in the words of what never was."""
    engine = await make()
    handle = await engine.start("work", {"number": 1}, ToolExecutionContext("ann"))
    assert (await engine.tasks.get(handle.id, "ann")).id == handle.id
    wordings = set()
    for task_id in (handle.id, "0" * 32):
        for ask in (engine.tasks.get, engine.tasks.cancel):
            with pytest.raises(TaskNotFoundError) as caught:
                await ask(task_id, "bob")
            wordings.add(str(caught.value).replace(task_id, "ID"))
    assert len(wordings) == 1
    assert [each.id for each in await engine.tasks.list("ann")] == [handle.id]
    assert list(await engine.tasks.list("bob")) == []


async def test_ttl(make: Make, work: Work) -> None:
    """A task whose time is over ends, whether it runs, asks for a slot or waits in line."""
    engine = await make()
    handles = [await engine.start("work", {"number": each}, ttl=0.3) for each in range(30)]
    results = [await handle.wait(BOUND) for handle in handles]
    assert {result.error_type for result in results} == {"timeout"}
    assert {handle.status for handle in handles} == {"timeout"}
    for handle, result in zip(handles, results, strict=True):
        assert "its ttl of 0.3 s" in str(result.error)
        assert handle.state.message == result.error
        (record,) = await engine.query_call_records(task_id=handle.id)
        assert (record.error_type, record.error) == ("timeout", result.error)


async def test_ttl_while_it_is_asked_about(make: Make) -> None:
    """A task that waits for consent ends in the same words."""
    approver = QueueApprover()
    engine = await make({"permission": {"execution": "ask_always"}}, approver=approver)
    handle = await engine.start("work", {"number": 1}, ttl=0.3)
    await until(handle, "input_required")
    result = await handle.wait(BOUND)
    assert (result.error_type, handle.status) == ("timeout", "timeout")
    assert "its ttl of 0.3 s" in str(result.error)
    assert approver.pending_approvals == []


async def test_consent(make: Make, work: Work) -> None:
    """A task that waits for consent says so, holds no slot, and goes on with the answer."""
    approver = QueueApprover()
    engine = await make({"permission": {"execution": "ask_always"}}, approver=approver)
    handle = await engine.start("work", {"number": 1})
    await until(handle, "input_required")
    assert engine.controller.get_metrics().active == 0
    work.gate.set()
    (request,) = approver.pending_approvals
    approver.allow(request.token)
    assert (await handle.wait(BOUND)).is_success


async def test_cancelled_while_asked(make: Make, work: Work) -> None:
    """A task that waits for consent can be cancelled."""
    engine = await make({"permission": {"execution": "ask_always"}}, approver=QueueApprover())
    handle = await engine.start("work", {"number": 1})
    await until(handle, "input_required")
    assert await handle.cancel()
    assert (handle.status, work.ran) == ("cancelled", [])


async def test_a_tool_starts_no_task(make: Make) -> None:
    """What a tool starts belongs to its call: it cannot leave a task behind."""
    engine = await make()

    @engine.tool(description="Starts a task")
    async def starter() -> str:
        with pytest.raises(TaskError, match="make the call with context"):
            await engine.start("work", {"number": 1})
        return "refused"

    assert (await engine.execute("starter")).output == {"result": "refused"}


@pytest.mark.parametrize(
    "options", [{"ttl": 0}, {"ttl": float("inf")}, {"ttl": 1e12}, {"idempotency_key": ""}]
)
async def test_wrong_options(make: Make, options: dict[str, Any]) -> None:
    """What no task can keep is refused before anything is kept."""
    engine = await make()
    with pytest.raises(ConfigurationError):
        await engine.start("work", {"number": 1}, **options)
    assert list(await engine.tasks.list()) == []


async def test_handles_of_other_loops(make: Make, work: Work) -> None:
    """A thread with a loop of its own waits for a task as the engine's does."""
    engine = await make()
    work.gate.set()

    async def elsewhere() -> bool:
        handle = await engine.start("work", {"number": 3})
        return (await handle.wait(BOUND)).is_success

    assert await asyncio.to_thread(lambda: asyncio.run(elsewhere()))


async def test_closed_engine_in_memory(tmp_path: Path, work: Work) -> None:
    """Without a database queued tasks end with their engine, and say so."""
    engine = ToolEngine(
        ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False, close_timeout=0.1),
        concurrency=ConcurrencyConfig(max_concurrent=1),
    )
    work.add_to(engine)
    handles = [await engine.start("work", {"number": each}) for each in range(30)]
    await until(handles[0], "running")
    await engine.close()
    assert {handle.status for handle in handles} == {"rejected"}
    assert all(handle.result and handle.result.error_type == "engine_closed" for handle in handles)


async def test_one_that_finds_a_slot_runs_at_once(make: Make, work: Work) -> None:
    """Also where no database has to be told: the same is said of both, and no id comes twice."""
    engine = await make(limits={"max_concurrent": 2})
    work.gate.set()
    await (await engine.start("work", {"number": 0})).wait(BOUND)
    work.gate.clear()
    handles = [await engine.start("work", {"number": number}) for number in range(3)]
    assert [handle.status for handle in handles] == ["running", "running", "queued"]
    assert engine.controller.get_metrics().active == 2
    work.gate.set()
    assert [(await handle.wait(BOUND)).is_success for handle in handles] == [True] * 3
    assert engine.controller.get_metrics().active == 0
    assert len({handle.id for handle in handles}) == 3
    assert all(re.fullmatch("[0-9a-f]{32}", handle.id) for handle in handles)


async def stop_itself(context: ToolExecutionContext, tasks: Tasks, *, first: bool) -> None:
    if not first:
        await asyncio.sleep(0)
    assert context.task_id is not None
    await tasks.cancel(context.task_id, reason="no more")


@pytest.mark.parametrize("is_first", [True, False])
async def test_a_tool_that_cancels_its_own_task(make: Make, *, is_first: bool) -> None:
    """Also in its first step, which is taken before the task has its handle."""
    engine = await make()
    for _ in range(2):

        async def stop(context: ToolExecutionContext) -> None:
            await stop_itself(context, engine.tasks, first=is_first)

        engine.register_tool({"name": "stop", "description": "Stops", "parameters": []}, stop)
        handle = await engine.start("stop", None, ToolExecutionContext("ann"))
        result = await handle.wait(BOUND)
        assert (result.error_type, handle.status) == ("cancelled", "cancelled")
        assert "no more" in str(handle.state.message)
        engine.unregister_tool("stop")
    assert engine.controller.get_metrics().active == 0


async def fail_at_once() -> None:
    raise ValueError("no")


async def fail_later() -> None:
    await asyncio.sleep(0)
    raise ValueError("no")


async def ask_for_two_turns() -> str:
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return "done"


async def end_at_once() -> str:
    return "done"


FIRST_STEPS: Final[list[tuple[Any, str | None]]] = [
    (fail_at_once, "execution_error"),
    (fail_later, "execution_error"),
    (ask_for_two_turns, None),
    (end_at_once, None),
]


@pytest.mark.parametrize(("tool", "error_type"), FIRST_STEPS)
async def test_how_far_a_tool_comes_in_its_first_step(
    make: Make, tool: Any, error_type: str | None
) -> None:
    """However far that is: one end, one record, and the slot is free."""
    engine = await make()
    engine.register_tool({"name": "go", "description": "Goes", "parameters": []}, tool)
    for _ in range(3):
        handle = await engine.start("go")
        result = await handle.wait(BOUND)
        assert (result.error_type, handle.state.result) == (error_type, result)
        (record,) = await engine.query_call_records(task_id=handle.id)
        assert (record.call_id, record.is_success) == (result.call_id, error_type is None)
        assert result.metadata["task_id"] == handle.id
    assert engine.controller.get_metrics().active == 0
    assert await engine.calls.list() == []


@pytest.mark.parametrize("tool", [ask_for_two_turns, fail_later, asyncio.Event().wait])
@pytest.mark.parametrize("turns", range(4))
async def test_cancelled_in_its_first_turns(make: Make, tool: Any, turns: int) -> None:
    """A task that is cancelled before, between and after its first steps ends once."""
    engine = await make()

    async def go() -> str:
        return str(await tool())

    engine.register_tool({"name": "go", "description": "Goes", "parameters": []}, go)
    await (await engine.start("work", {"number": 1})).cancel()
    async with asyncio.timeout(BOUND):
        while engine.controller.get_metrics().active:  # noqa: ASYNC110 - a slot rings no bell
            await asyncio.sleep(0)
    handle = await engine.start("go")
    for _ in range(turns):
        await asyncio.sleep(0)
    is_cancelled = await handle.cancel("no more")
    result = await handle.wait(BOUND)
    assert (result.error_type == "cancelled") is is_cancelled
    (record,) = await engine.query_call_records(task_id=handle.id)
    assert record.error_type == result.error_type
    assert engine.controller.get_metrics().active == 0
    assert await engine.calls.list() == []


@pytest.mark.parametrize("tool", [ask_for_two_turns, end_at_once])
async def test_what_a_task_leaves_is_free_at_once(make: Make, tool: Any) -> None:
    """A task that has ended holds its state and its result, and nothing waits for the collector."""
    engine = await make()

    class Held:
        """What a tool holds while it runs."""

    seen: list[weakref.ref[Held]] = []

    async def go() -> str:
        held = Held()
        seen.append(weakref.ref(held))
        return str(await tool())

    engine.register_tool({"name": "go", "description": "Goes", "parameters": []}, go)
    await (await engine.start("go")).wait(BOUND)
    gc.collect()
    gc.disable()
    try:
        before = len([each for each in gc.get_objects() if type(each) is Call])
        for _ in range(5):
            await (await engine.start("go")).wait(BOUND)
        after = len([each for each in gc.get_objects() if type(each) is Call])
    finally:
        gc.enable()
    assert (after - before, [each() for each in seen]) == (0, [None] * 6)
