"""How long may a call run, and what happens when it does not end by then?"""

from __future__ import annotations

import asyncio
import contextvars
import copy
import pickle
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from aiohttp import ClientSession, web

from tests.calls.audit import Audit, make_engine, turns
from tests.calls.samples import Stubborn, bare, forever
from tool_engine import Outcome, ToolEngine, ToolExecutionContext, ToolSession
from tool_engine.protocols import CycleOptions, process_tool_calls

BOUND = 1000.0


async def timed(engine: ToolEngine, name: str, context: ToolExecutionContext | None = None) -> Any:
    """The result, and the seconds after which the caller had it."""
    began = asyncio.get_running_loop().time()
    async with asyncio.timeout(BOUND):
        result = await engine.execute(name, {}, context)
    return result, asyncio.get_running_loop().time() - began


@pytest.mark.parametrize(
    ("context", "tool_timeout", "seconds"),
    [
        (ToolExecutionContext(timeout=7.0), 9.0, 7.0),
        (ToolExecutionContext(timeout=30.0), 9.0, 30.0),
        (ToolExecutionContext(timeout=7), None, 7.0),
        (ToolExecutionContext(), 9.0, 9.0),
        (ToolExecutionContext(timeout=None), 9.0, 9.0),
        (ToolExecutionContext(caller_id="x"), 40.0, 40.0),
        (None, 9.0, 9.0),
        (None, None, 12.0),
        (ToolExecutionContext(), None, 12.0),
    ],
    ids=lambda value: getattr(value, "timeout", value),
)
async def test_which_timeout_decides(
    context: ToolExecutionContext | None, tool_timeout: float | None, seconds: float
) -> None:
    """X12: what the caller asked for, else the tool's own timeout, else default_timeout."""
    engine = make_engine(default_timeout=12.0)
    audit = Audit(engine)
    keys = {} if tool_timeout is None else {"timeout": tool_timeout}
    engine.register_tool(bare("wait", **keys), forever)
    result, took = await timed(engine, "wait", context)
    assert took == pytest.approx(seconds)
    assert result.error_type == "timeout"
    assert result.outcome is Outcome.TIMEOUT
    assert result.execution_time == pytest.approx(seconds)
    assert f"did not finish within {seconds:g} s" in result.error
    assert audit.kinds() == ["execution_started", "execution_failed"]
    assert engine.controller.get_metrics().total_timeout == 1
    await audit.check([result])
    await engine.close()


async def test_timeout_cancels_the_tool(engine: ToolEngine, audit: Audit) -> None:
    """C10: at the deadline the tool is cancelled, its clean-up runs, and its slot is free."""
    cleaned: list[bool] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)

    engine.register_tool(bare("wait", timeout=5), wait)
    result, _ = await timed(engine, "wait")
    assert result.error_type == "timeout"
    assert cleaned == [True]


async def test_tool_that_swallows_the_cancellation() -> None:
    """C10: the caller has its timeout on time; the slot stays a zombie until the tool ends."""
    engine = make_engine(1)
    audit = Audit(engine)
    stubborn = Stubborn(seconds=50)
    engine.register_tool(bare("stubborn", timeout=5), stubborn)
    engine.register_tool(bare("quick"), turns)
    result, took = await timed(engine, "stubborn")
    assert (result.error_type, took) == ("timeout", pytest.approx(5))
    metrics = engine.controller.get_metrics()
    assert (metrics.zombies, metrics.active, metrics.current_concurrent) == (1, 0, 1)
    refused, took = await timed(engine, "quick", ToolExecutionContext(timeout=100))
    assert (refused.error_type, took) == ("queue_timeout", pytest.approx(30))
    after, took = await timed(engine, "quick")
    assert after.is_success
    assert after.metadata["queue_wait"] == pytest.approx(20)
    assert stubborn.ended.is_set()
    await audit.check([result, refused, after])
    await engine.close()


async def awaiting_a_task(stubborn: Stubborn) -> None:
    await asyncio.create_task(stubborn())


async def awaiting_a_gather(stubborn: Stubborn) -> None:
    await asyncio.gather(stubborn(), asyncio.sleep(0))


@pytest.mark.parametrize("tool", [awaiting_a_task, awaiting_a_gather])
@pytest.mark.parametrize("is_cancelled", [False, True], ids=["deadline", "cancelled"])
async def test_tool_that_waits_for_a_stubborn_task(tool: Any, is_cancelled: bool) -> None:
    """C10: a child task that is slow to end delays the end for nobody but its own tool."""
    engine = make_engine(1)
    audit = Audit(engine)
    stubborn = Stubborn(seconds=50, times=2)
    engine.register_tool(bare("waiting", timeout=5), lambda_for(tool, stubborn))
    began = asyncio.get_running_loop().time()
    call = asyncio.create_task(engine.execute("waiting"))
    await turns()
    if is_cancelled:
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    else:
        assert (await call).error_type == "timeout"
    assert asyncio.get_running_loop().time() - began <= 5.001
    assert engine.controller.get_metrics().current_concurrent == 1
    await asyncio.sleep(200)
    assert stubborn.ended.is_set()
    await audit.check()
    await engine.close()


def lambda_for(tool: Any, stubborn: Stubborn) -> Any:
    async def run() -> None:
        await tool(stubborn)

    return run


async def test_late_value_is_dropped() -> None:
    """K27: a value that comes with or after the deadline changes neither result nor record."""
    engine = make_engine()
    audit = Audit(engine)

    async def at_once() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "late"
        return "never"

    engine.register_tool(bare("at_once", timeout=1), at_once)
    engine.register_tool(bare("later", timeout=1), Stubborn(seconds=5))
    results = [(await timed(engine, name))[0] for name in ("at_once", "later")]
    await asyncio.sleep(10)
    assert [each.error_type for each in results] == ["timeout", "timeout"]
    assert all(each.output == {} for each in results)
    assert [record.result for record in await audit.records()] == [{}, {}]
    await audit.check(results)
    await engine.close()


async def test_late_error_is_dropped(engine: ToolEngine, audit: Audit) -> None:
    """C10: a tool that fails long after its deadline disturbs nobody."""

    async def fail_later() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(5)
            raise ValueError("late") from None

    engine.register_tool(bare("later", timeout=1), fail_later)
    result, _ = await timed(engine, "later")
    assert result.error_type == "timeout"
    assert engine.controller.get_metrics().zombies == 1
    await asyncio.sleep(10)


async def test_zombies_are_bounded() -> None:
    """C10: with `max_zombies` overdue calls alive, new ones end as rejected."""
    engine = make_engine(5, max_zombies=1)
    audit = Audit(engine)
    engine.register_tool(bare("stubborn", timeout=1), Stubborn(seconds=50))
    engine.register_tool(bare("quick"), turns)
    await timed(engine, "stubborn")
    refused, took = await timed(engine, "quick")
    assert (refused.error_type, took) == ("rejected", 0)
    await asyncio.sleep(60)
    assert (await engine.execute("quick")).is_success
    await audit.check()
    await engine.close()


async def test_tools_own_timeout_error(engine: ToolEngine, audit: Audit) -> None:
    """K27: a TimeoutError that the tool raises is a timeout of the call."""

    async def gave_up() -> None:
        async with asyncio.timeout(2):
            await asyncio.Event().wait()

    engine.register_tool(bare("gave_up"), gave_up)
    result, took = await timed(engine, "gave_up")
    assert (result.error_type, took) == ("timeout", pytest.approx(2))
    assert result.error == "the tool gave up waiting (TimeoutError)"
    assert engine.controller.get_metrics().total_timeout == 1


async def bad() -> None:
    await asyncio.sleep(1)
    raise ValueError


async def with_timeout() -> str:
    try:
        async with asyncio.timeout(3):
            await asyncio.Event().wait()
    except TimeoutError:
        return "timed out"
    return "not"


async def with_wait_for() -> str:
    try:
        await asyncio.wait_for(asyncio.Event().wait(), 3)
    except TimeoutError:
        return "timed out"
    return "not"


async def with_task_group() -> str:
    outcome = "not"
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(bad())
            await asyncio.Event().wait()
    except* ValueError:
        outcome = "timed out"
    return outcome


async def with_shield() -> str:
    inner = asyncio.ensure_future(asyncio.sleep(20, "inner"))
    try:
        async with asyncio.timeout(3):
            await asyncio.shield(inner)
    except TimeoutError:
        return "timed out" if await inner == "inner" else "not"
    return "not"


async def with_current_task() -> str:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().call_later(3, task.cancel, "mine")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError as error:
        counts = (task.cancelling(), task.uncancel())
        return "timed out" if (error.args, counts) == (("mine",), (1, 0)) else "wrong"
    return "not"


async def with_current_task_before_a_wait() -> str:
    task = asyncio.current_task()
    assert task is not None
    for wait in (lambda: asyncio.sleep(0), lambda: asyncio.sleep(1), asyncio.Event().wait):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await wait()
    return "timed out"


async def with_lock_and_queue() -> str:
    lock, queue = asyncio.Lock(), asyncio.Queue[int]()
    async with lock, asyncio.TaskGroup() as group:
        group.create_task(queue.put(1))
        assert await queue.get() == 1
    return "timed out"


async def with_nested_timeouts() -> str:
    try:
        async with asyncio.timeout(3):
            async with asyncio.timeout(5):
                await asyncio.sleep(100)
    except TimeoutError:
        return "timed out"
    return "not"


async def with_gather() -> str:
    try:
        async with asyncio.timeout(3):
            await asyncio.gather(asyncio.sleep(100), asyncio.sleep(100))
    except TimeoutError:
        return "timed out"
    return "not"


async def with_gather_and_a_cancelled_child() -> str:
    child = asyncio.ensure_future(asyncio.sleep(100))
    asyncio.get_running_loop().call_later(3, child.cancel)
    try:
        await asyncio.gather(child, asyncio.sleep(5))
    except asyncio.CancelledError:
        await asyncio.sleep(10)
        return "timed out"
    return "not"


@pytest.mark.parametrize(
    "tool",
    [
        with_timeout,
        with_wait_for,
        with_task_group,
        with_shield,
        with_current_task,
        with_current_task_before_a_wait,
        with_lock_and_queue,
        with_nested_timeouts,
        with_gather,
        with_gather_and_a_cancelled_child,
    ],
    ids=lambda tool: tool.__name__,
)
async def test_asyncio_inside_a_tool(engine: ToolEngine, audit: Audit, tool: Any) -> None:
    """K27: what a tool does to "its" task concerns the tool alone, never the caller's task."""
    caller = asyncio.current_task()
    assert caller is not None
    engine.register_tool(bare("tool"), tool)
    result, _ = await timed(engine, "tool")
    assert result.output == {"result": "timed out"}, result.error
    assert caller.cancelling() == 0
    assert asyncio.current_task() is caller


async def test_what_anyio_looks_at(engine: ToolEngine, audit: Audit) -> None:
    """K27: a cancel scope finds what it needs on the tool's task: what it waits for, its state."""
    seen: list[Any] = []

    async def tool() -> None:
        task: Any = asyncio.current_task()
        loop = asyncio.get_running_loop()
        loop.call_soon(lambda: seen.append((task._fut_waiter, task._must_cancel)))
        await asyncio.sleep(1)

    engine.register_tool(bare("tool"), tool)
    assert (await engine.execute("tool")).is_success
    ((waits_for, must_cancel),) = seen
    assert asyncio.isfuture(waits_for)
    assert must_cancel is False


@pytest.mark.parametrize("is_waiting", [True, False])
async def test_gather_at_the_deadline(engine: ToolEngine, audit: Audit, is_waiting: bool) -> None:
    """K27, K29: a tool that waits in `gather` times out like any other, and cancels no caller."""

    async def many() -> None:
        await asyncio.gather(asyncio.sleep(100), asyncio.sleep(100 if is_waiting else 0))

    engine.register_tool(bare("many", timeout=5), many)
    result, took = await timed(engine, "many")
    assert (result.error_type, took) == ("timeout", pytest.approx(5))


async def test_http_client_inside_a_tool(engine: ToolEngine, audit: Audit) -> None:
    """K27: a library that looks at its current task, as aiohttp does for its timers, works."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text="pong")

    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    address = f"http://127.0.0.1:{runner.addresses[0][1]}/"

    async def fetch() -> str:
        async with ClientSession() as session, session.get(address) as response:
            return await response.text()

    engine.register_tool(bare("fetch", timeout=10_000), fetch)
    result, _ = await timed(engine, "fetch", ToolExecutionContext(timeout=BOUND - 1))
    assert result.output == {"result": "pong"}, result.error
    await runner.cleanup()


VALUE: contextvars.ContextVar[str] = contextvars.ContextVar("VALUE")


@pytest.mark.parametrize("is_waiting", [True, False])
async def test_context_variables_do_not_leak(
    engine: ToolEngine, audit: Audit, is_waiting: bool
) -> None:
    """C27: a tool sees its caller's context variables, and what it sets stays with it."""

    async def change() -> str:
        seen = VALUE.get()
        VALUE.set("the tool's")
        if is_waiting:
            await asyncio.sleep(1)
        assert VALUE.get() == "the tool's"
        return seen

    engine.register_tool(bare("change"), change)
    VALUE.set("the caller's")
    result, _ = await timed(engine, "change")
    assert result.output == {"result": "the caller's"}
    assert VALUE.get() == "the caller's"


async def test_tool_that_never_waits_is_not_interrupted(engine: ToolEngine, audit: Audit) -> None:
    """K27: a tool that ends without waiting succeeds, whatever its timeout."""
    engine.register_tool(bare("quick", timeout=0.000001), lambda_async)
    assert (await engine.execute("quick")).is_success


async def lambda_async() -> int:
    return 1


async def test_deadline_of_the_context(engine: ToolEngine, audit: Audit) -> None:
    """C7: a handler sees its deadline, its timeout and its call id in the context."""
    seen: list[ToolExecutionContext] = []

    async def look(context: ToolExecutionContext) -> None:
        seen.append(context)

    engine.register_tool(bare("look", timeout=9), look)
    mine = ToolExecutionContext(caller_id="me")
    result = await engine.execute("look", {}, mine)
    (bound,) = seen
    now = asyncio.get_running_loop().time()
    assert bound.deadline == pytest.approx(now + 9)
    assert (bound.timeout, bound.caller_id, bound.call_id) == (9, "me", result.call_id)
    assert bound.variables is mine.variables
    assert (mine.call_id, mine.deadline) == (None, None)


COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda context: pickle.loads(pickle.dumps(context)),  # noqa: S301 - our own
    "replace": msgspec.structs.replace,
    "fields": lambda context: ToolExecutionContext(**msgspec.structs.asdict(context)),
}


@pytest.mark.parametrize("way", ["engine", "session", "reply"])
@pytest.mark.parametrize("made", list(COPIES))
async def test_a_copy_of_a_context_leaves_out_what_it_left_out(
    engine: ToolEngine, audit: Audit, made: str, way: str
) -> None:
    """C7: a context that names no timeout leaves it to the tool, however it was copied.

    Looked at: all that compares by identity with a value of its own; no other one of them is in
    what users hold, copy or send.
    """
    engine.register_tool(bare("wait", timeout=2), forever)
    context = COPIES[made](ToolExecutionContext())
    assert context.timeout == 30.0
    loop = asyncio.get_running_loop()
    began = loop.time()
    if way == "reply":
        call = {"id": "1", "type": "function", "function": {"name": "wait", "arguments": "{}"}}
        reply = {"choices": [{"message": {"role": "assistant", "tool_calls": [call]}}]}
        options = CycleOptions(context=context, timeout=40)
        result = (await process_tool_calls(engine, reply, "openai", options)).execution_results[0]
        assert loop.time() - began > 35
    else:
        maker: Any = engine if way == "engine" else ToolSession(engine, "chat")
        result = await maker.execute("wait", {}, context)
        assert loop.time() - began == pytest.approx(2)
    assert result.error_type == "timeout"
