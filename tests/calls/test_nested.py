"""Can a tool call tools, at any limit, without waiting for itself?"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

import pytest

from tests.calls.audit import Audit, check_idle, make_engine, turns
from tests.calls.samples import Stubborn, bare, forever
from tool_engine import ConfigurationError, ToolEngine, ToolExecutionContext, UnboundContextError

BOUND = 10_000.0
DEEP = {
    "name": "deep",
    "version": "1.0.0",
    "description": "Calls itself",
    "category": "custom",
    "parameters": [
        {"name": "depth", "type": "integer", "required": True, "description": "How deep"}
    ],
    "entry": {"type": "custom", "handler": "deep"},
}


async def leaf() -> str:
    await asyncio.sleep(1)
    return "leaf"


@pytest.mark.parametrize("strategy", ["fifo", "priority", "reject"])
@pytest.mark.parametrize("way", ["context.call", "engine.execute"])
@pytest.mark.parametrize("is_waiting", [True, False], ids=["waits", "at once"])
async def test_depth_of_twenty(strategy: str, way: str, is_waiting: bool) -> None:
    """C23: twenty calls inside one another pass at max_concurrent=1, under each strategy."""
    engine = make_engine(1, strategy=strategy, bucket_limits={"custom": 1}, queue_timeout=None)
    audit = Audit(engine)

    async def deep(depth: int, context: ToolExecutionContext) -> int:
        if is_waiting:
            await asyncio.sleep(0.01)
        if depth == 0:
            return 0
        if way == "context.call":
            result = await context.call("deep", {"depth": depth - 1})
        else:
            result = await engine.execute("deep", {"depth": depth - 1})
        assert result.is_success, result.error
        metrics = engine.controller.get_metrics()
        assert metrics.current_concurrent == 1
        return int(result.output["result"]) + 1

    engine.register_tool(DEEP, deep)
    async with asyncio.timeout(BOUND):
        result = await engine.execute("deep", {"depth": 20})
    assert result.output == {"result": 20}
    records = await audit.records()
    assert len(records) == 21
    # Inner calls end first: each one's parent is the next record.
    parents = [record.parent_call_id for record in records]
    assert parents == [*(record.call_id for record in records[1:]), None]
    await audit.check([result])
    await engine.close()


@pytest.mark.parametrize("strategy", ["fifo", "priority", "reject"])
async def test_several_at_once(strategy: str) -> None:
    """C23: calls that a tool makes at the same time share what it lends them; it resumes after."""
    engine = make_engine(2, strategy=strategy, queue_timeout=None)
    audit = Audit(engine)

    async def gathering(context: ToolExecutionContext) -> list[Any]:
        results = await asyncio.gather(*(context.call("leaf") for _ in range(5)))
        return [result.error_type for result in results]

    engine.register_tool(bare("leaf"), leaf)
    engine.register_tool(bare("gathering"), gathering)
    async with asyncio.timeout(BOUND), asyncio.TaskGroup() as group:
        calls = [group.create_task(engine.execute("gathering")) for _ in range(2)]
    assert [call.result().output for call in calls] == [{"result": [None] * 5}] * 2
    assert engine.controller.get_metrics().max_concurrent_observed == 2
    await audit.check([call.result() for call in calls])
    await engine.close()


async def test_what_is_inherited(engine: ToolEngine, audit: Audit) -> None:
    """C23, C7: a nested call has its maker's caller, conversation, priority and deadline."""
    seen: list[ToolExecutionContext] = []

    async def look(context: ToolExecutionContext) -> None:
        seen.append(context)

    async def outer(context: ToolExecutionContext) -> None:
        await asyncio.sleep(2)
        context.variables["shared"] = 1
        await context.call("look")
        await context.call("look", timeout=1)
        await context.call("look", timeout=500)
        await engine.execute("look")
        await engine.execute("look", {}, ToolExecutionContext(caller_id="other", timeout=3))

    engine.register_tool(bare("look"), look)
    engine.register_tool(bare("outer"), outer)
    context = ToolExecutionContext.for_conversation(
        "agent", "conv", workflow_id="wf", priority=2, timeout=100, max_retries=1
    )
    result = await engine.execute("outer", {}, context)
    assert result.is_success, result.error
    now = asyncio.get_running_loop().time()
    for inner in seen[:4]:
        assert (inner.caller_id, inner.caller_type) == ("agent", "conversation_agent")
        assert (inner.conversation_id, inner.workflow_id) == ("conv", "wf")
        assert (inner.priority, inner.max_retries) == (2, 1)
        assert inner.variables is context.variables
    assert [inner.parent_call_id for inner in seen] == [result.call_id] * 5
    seconds_left = [round(float(inner.deadline or 0) - now) for inner in seen]
    assert seconds_left == [30, 1, 98, 30, 3]
    assert (seen[4].caller_id, seen[4].priority) == ("other", 2)
    records = await audit.records()
    assert [record.parent_call_id for record in records] == [result.call_id] * 5 + [None]
    assert all(
        record.conversation_id == "conv" for record in records if record.caller_id == "agent"
    )


async def test_deadline_of_the_parent_ends_the_nested_call(
    engine: ToolEngine, audit: Audit
) -> None:
    """C7: the parent's deadline is never exceeded; at it both calls end."""

    async def outer(context: ToolExecutionContext) -> None:
        await asyncio.sleep(3)
        await context.call("wait", timeout=100)

    engine.register_tool(bare("wait"), forever)
    engine.register_tool(bare("outer", timeout=5), outer)
    loop = asyncio.get_running_loop()
    began = loop.time()
    result = await engine.execute("outer")
    assert result.error_type == "timeout"
    assert loop.time() - began == pytest.approx(5)
    assert result.execution_time == pytest.approx(5)
    inner, outer_record = await audit.records()
    assert inner.error_type in ("cancelled", "timeout")
    assert outer_record.error_type == "timeout"


async def test_deadline_that_a_context_brings(engine: ToolEngine, audit: Audit) -> None:
    """C7: a deadline that comes with the context ends the call before its own timeout does."""
    engine.register_tool(bare("wait", timeout=50), forever)
    loop = asyncio.get_running_loop()
    began = loop.time()
    result = await engine.execute("wait", {}, ToolExecutionContext(deadline=began + 3))
    assert result.error_type == "timeout"
    assert loop.time() - began == pytest.approx(3)
    assert "by the deadline of" in str(result.error)


async def test_timeout_of_a_nested_call_alone(engine: ToolEngine, audit: Audit) -> None:
    """C7: a nested call with a shorter timeout of its own ends alone; its maker goes on."""

    async def outer(context: ToolExecutionContext) -> str | None:
        return (await context.call("wait", timeout=2)).error_type

    engine.register_tool(bare("wait"), forever)
    engine.register_tool(bare("outer"), outer)
    result = await engine.execute("outer")
    assert result.output == {"result": "timeout"}


async def test_parents_deadline_is_named(engine: ToolEngine, audit: Audit) -> None:
    """C7: a nested call that its maker's deadline ended says so."""

    async def outer(context: ToolExecutionContext) -> None:
        try:
            await context.call("stubborn", timeout=100)
        except asyncio.CancelledError:
            await asyncio.sleep(1)

    engine.register_tool(bare("stubborn"), Stubborn(seconds=3))
    engine.register_tool(bare("outer", timeout=5), outer)
    assert (await engine.execute("outer")).error_type == "timeout"
    await asyncio.sleep(20)
    records = {record.tool_name: record for record in await audit.records()}
    assert records["stubborn"].error_type in ("cancelled", "timeout")


async def test_execution_time_counts_nested_calls(engine: ToolEngine, audit: Audit) -> None:
    """K50: the execution time counts what a call ran before, during and after nested calls."""

    async def outer(context: ToolExecutionContext) -> None:
        await asyncio.sleep(2)
        await context.call("leaf")
        await asyncio.sleep(4)

    engine.register_tool(bare("leaf"), leaf)
    engine.register_tool(bare("outer"), outer)
    result = await engine.execute("outer")
    assert result.execution_time == pytest.approx(7)


@pytest.mark.parametrize("how", ["cancelled", "timeout", "engine_closed"])
async def test_parent_that_ends_while_its_call_runs(how: str) -> None:
    """C23, C9: however the parent ends, the nested call ends too and both slots are given back."""
    engine = make_engine(1, close_timeout=3)
    audit = Audit(engine)

    async def outer(context: ToolExecutionContext) -> None:
        await context.call("wait")

    engine.register_tool(bare("wait"), forever)
    engine.register_tool(bare("outer", timeout=10), outer)
    call = asyncio.create_task(engine.execute("outer"))
    await turns()
    assert engine.controller.get_metrics().parked == 1
    if how == "cancelled":
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    elif how == "timeout":
        assert (await call).error_type == "timeout"
    else:
        await engine.close()
        assert (await call).error_type == "engine_closed"
    inner, outer_record = await audit.records()
    assert outer_record.error_type == how
    assert inner.error_type in ("cancelled", how)
    await audit.check()
    await engine.close()


async def test_parent_resumes_before_those_who_wait() -> None:
    """C23: a tool whose nested call has ended runs on ahead of everybody who still waits."""
    engine = make_engine(1)
    order: list[str] = []

    async def outer(context: ToolExecutionContext) -> None:
        await context.call("leaf")
        order.append("outer goes on")

    async def other() -> None:
        order.append("other")
        await asyncio.sleep(1)

    engine.register_tool(bare("leaf"), leaf)
    engine.register_tool(bare("outer"), outer)
    engine.register_tool(bare("other"), other)
    async with asyncio.timeout(BOUND), asyncio.TaskGroup() as group:
        group.create_task(engine.execute("outer"))
        await turns()
        for _ in range(3):
            group.create_task(engine.execute("other"))
    # The slot of the nested call goes to the first that waits, before its maker asks for it.
    assert order == ["other", "outer goes on", "other", "other"]
    check_idle(engine)
    await engine.close()


async def test_context_after_its_call(engine: ToolEngine, audit: Audit) -> None:
    """C23: a context that is used after its call has ended raises `UnboundContextError`."""
    kept: list[ToolExecutionContext] = []

    async def keep(context: ToolExecutionContext) -> None:
        kept.append(context)

    engine.register_tool(bare("keep"), keep)
    result = await engine.execute("keep")
    with pytest.raises(UnboundContextError, match=f"the call {result.call_id} .* has ended"):
        await kept[0].call("keep")
    assert len(await audit.records()) == 1


async def test_context_of_no_call() -> None:
    """C23: a context that no call is bound to cannot call."""
    with pytest.raises(UnboundContextError, match="is not bound to a running call"):
        await ToolExecutionContext().call("keep")


async def test_impossible_nested_timeout(engine: ToolEngine, audit: Audit) -> None:
    """C23: a nested call with an impossible timeout fails its maker and leaves nothing behind."""

    async def outer(context: ToolExecutionContext) -> None:
        await context.call("outer", timeout=-1)

    engine.register_tool(bare("outer"), outer)
    result = await engine.execute("outer")
    assert result.error_type == "execution_error"
    assert ConfigurationError.__name__ in str(result.error)


async def test_failures_of_nested_calls_are_values(engine: ToolEngine, audit: Audit) -> None:
    """K29, C23: a nested call that fails, in any step, is a result for its maker."""

    async def outer(context: ToolExecutionContext) -> list[str | None]:
        missing = await context.call("nothing")
        invalid = await context.call("deep", {})
        return [missing.error_type, invalid.error_type]

    engine.register_tool(DEEP, outer_deep)
    engine.register_tool(bare("outer"), outer)
    result = await engine.execute("outer")
    assert result.output == {"result": ["tool_not_found", "validation_error"]}


async def outer_deep(depth: int) -> int:
    return depth


async def test_workflow_nodes_nest_without_limits() -> None:
    """C12: what a bypassing call makes bypasses too, and touches no slot."""
    engine = make_engine(1, strategy="reject")

    async def outer(context: ToolExecutionContext) -> str | None:
        return (await context.call("leaf")).error_type

    engine.register_tool(bare("leaf"), leaf)
    engine.register_tool(bare("outer"), outer)
    slot = engine.controller.try_acquire()
    assert slot is not None
    result = await engine.execute("outer", {}, ToolExecutionContext.for_workflow("wf", "n"))
    assert result.output == {"result": None}
    assert engine.controller.get_metrics().total_acquired == 1
    engine.controller.release(slot)
    check_idle(engine)
    await engine.close()


async def test_other_engines_lend_no_slot() -> None:
    """C23: a call of another engine's tool needs a slot there, and knows what has made it."""
    first, second = make_engine(1), make_engine(1)

    async def outer() -> str | None:
        metrics = first.controller.get_metrics()
        assert (metrics.active, metrics.parked) == (1, 0)
        return (await second.execute("leaf")).error_type

    first.register_tool(bare("outer"), outer)
    second.register_tool(bare("leaf"), leaf)
    result = await first.execute("outer")
    assert result.output == {"result": None}
    (record,) = await second.query_call_records()
    assert record.parent_call_id == result.call_id
    for engine in (first, second):
        check_idle(engine)
        await engine.close()


async def test_call_of_an_overdue_tool() -> None:
    """C10, C23: a tool that calls on after its deadline does not block itself for ever."""
    engine = make_engine(1, queue_timeout=None)
    audit = Audit(engine)

    async def overdue(context: ToolExecutionContext) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(1)
        await context.call("leaf")

    engine.register_tool(bare("leaf"), leaf)
    engine.register_tool(bare("overdue", timeout=2), overdue)
    result = await engine.execute("overdue")
    assert result.error_type == "timeout"
    await asyncio.sleep(1000)
    await audit.check()
    await engine.close()


@pytest.mark.parametrize("queued", [0, 2])
@pytest.mark.parametrize("way", ["task", "thread"])
async def test_work_after_a_deadline_counts(way: str, queued: int) -> None:
    """C17: what goes on past its deadline takes its lent slot again when its inner call has ended.

    A thread does not go on before it has it; a task does, and counts as soon as there is room.
    """
    engine = make_engine(1, queue_timeout=None)
    at_work, most, is_over = 0, 0, threading.Event()
    engine.register_tool(bare("inner"), forever)

    def work(steps: int = 1) -> None:
        nonlocal at_work, most
        at_work += steps
        most = max(most, at_work)

    if way == "task":

        async def outer(context: ToolExecutionContext) -> None:
            with contextlib.suppress(asyncio.CancelledError):
                await context.call("inner")
            work()
            while not is_over.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.01)
            work(-1)

    else:
        loop = asyncio.get_running_loop()

        def outer() -> None:  # type: ignore[misc]
            asyncio.run_coroutine_threadsafe(engine.execute("inner"), loop).result()
            work()
            is_over.wait(20)
            work(-1)

    async def other() -> None:
        work()
        await asyncio.sleep(0)
        work(-1)

    engine.register_tool(bare("outer", timeout=0.2), outer)
    engine.register_tool(bare("other"), other)
    running = asyncio.create_task(engine.execute("outer"))
    await asyncio.sleep(0)
    others = [asyncio.create_task(engine.execute("other")) for _ in range(queued)]
    assert (await running).error_type == "timeout"
    try:
        async with asyncio.timeout(60):
            while engine.controller.get_metrics().zombies == 0:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.001)
        late = asyncio.create_task(engine.execute("other"))
        await turns(20)
        assert not late.done()
    finally:
        is_over.set()
    results = await asyncio.gather(late, *others)
    assert all(each.is_success for each in results)
    assert most == (2 if way == "task" and queued else 1)
    await engine.close()
    check_idle(engine)
