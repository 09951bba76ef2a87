"""How a run ends when its time is up or its caller goes away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.calls.audit import Audit, make_engine
from tests.calls.samples import Stubborn, bare, forever
from tests.executors.workflow.samples import make_workflow, step
from tool_engine import ToolEngine, ToolExecutionContext, ToolExecutionResult

BOUND = 10_000.0


@pytest.fixture
async def engine() -> AsyncIterator[ToolEngine]:
    async with make_engine(3, queue_timeout=None, bucket_limits={"narrow": 1}) as engine:

        async def work() -> str:
            await asyncio.sleep(1)
            return "done"

        engine.register_tool(bare("work"), work)
        engine.register_tool(bare("hang", timeout=1000), forever)
        yield engine


@pytest.fixture
async def audit(engine: ToolEngine) -> AsyncIterator[Audit]:
    made = Audit(engine)
    yield made
    await made.check()


async def run(engine: ToolEngine, seconds: float = 10, name: str = "flow") -> ToolExecutionResult:
    context = ToolExecutionContext(timeout=seconds)
    async with asyncio.timeout(BOUND):
        return await engine.execute(name, {}, context)


def shaped(shape: str, on_error: Any = "fail") -> dict[str, Any]:
    """A step that hangs."""
    hang = step("b", "hang", on_error=on_error)
    return {
        "step": hang,
        "for_each": {**hang, "for_each": [1, 2, 3], "max_parallel": 2},
        "parallel": {"id": "g", "parallel": [hang, step("c", "hang")]},
    }[shape]


@pytest.mark.parametrize("on_error", ["fail", "continue", {"use": 1}])
@pytest.mark.parametrize("shape", ["step", "for_each", "parallel"])
async def test_the_deadline_ends_all(
    engine: ToolEngine, audit: Audit, on_error: Any, shape: str
) -> None:
    """D21, C7: by the deadline the workflow and its calls have ended, and it says what was done."""
    engine.register_tool(
        make_workflow(step("a", "work"), shaped(shape, on_error), step("z", "work"))
    )
    loop = asyncio.get_running_loop()
    began = loop.time()
    result = await run(engine)
    assert 9.8 < loop.time() - began <= 10
    assert result.error_type == "timeout"
    assert "done before: a" in (result.error or "")
    assert "raise its timeout or ask for less" in (result.error or "")
    steps = result.metadata["error_details"]["steps"]
    assert (steps[0]["status"], steps[-1]["status"]) == ("succeeded", "not_run")
    records = [each for each in await audit.records() if each.tool_name == "hang"]
    assert {each.error_type for each in records} <= {"timeout", "cancelled"}
    assert all(each.parent_call_id == result.call_id for each in records)


async def test_the_deadline_between_two_steps(engine: ToolEngine, audit: Audit) -> None:
    """D21, C7: no call begins when the time is up, though the last one came in time."""
    engine.register_tool(make_workflow(*(step(f"s{n}", "work") for n in range(20))))
    result = await run(engine, 5)
    assert result.error_type == "timeout"
    assert "done before: s0, s1, s2, s3" in (result.error or "")
    engine.unregister_tool("flow")

    async def late() -> None:
        await asyncio.sleep(1000)

    engine.register_tool(bare("late", timeout=4.95), late)
    steps = step("a", "late", on_error="continue"), step("b", "work")
    engine.register_tool(make_workflow(*steps))
    result = await run(engine, 5)
    assert result.error_type == "timeout"


async def test_a_step_that_holds_up_the_loop(engine: ToolEngine, audit: Audit) -> None:
    """D21, C7: a tool that blocks past the deadline and returns all the same is the last one."""

    async def block() -> None:
        loop = asyncio.get_running_loop()
        loop.now += 20  # type: ignore[attr-defined] # the time that passes without a turn

    engine.register_tool(bare("block"), block)
    engine.register_tool(make_workflow(step("a", "block"), step("b", "work", on_error="continue")))
    result = await run(engine)
    assert result.error_type == "timeout"
    assert "the time of the workflow is up" in (result.error or "")


async def test_the_deadline_while_a_step_waits_for_a_slot(engine: ToolEngine) -> None:
    """D21, C7: a step that never gets a slot ends with the workflow too."""
    engine.register_tool(bare("tight", concurrency={"bucket": "narrow"}), forever)
    other = asyncio.create_task(run(engine, 100, "tight"))
    await asyncio.sleep(1)
    engine.register_tool(make_workflow(step("a", "tight", on_error="continue"), step("b", "work")))
    loop = asyncio.get_running_loop()
    began = loop.time()
    result = await run(engine, 5)
    assert result.error_type == "timeout"
    assert loop.time() - began <= 5
    other.cancel()
    await asyncio.wait([other])


async def test_workflows_inside_one_another(engine: ToolEngine, audit: Audit) -> None:
    """D21, C7: the deadline of the outermost ends all of them, and each says what it had done."""
    engine.register_tool(make_workflow(step("a", "work"), step("b", "hang"), name="inner"))
    outer = step("c", "inner", on_error="continue")
    engine.register_tool(make_workflow(step("a", "work"), outer, step("d", "work")))
    result = await run(engine)
    assert result.error_type == "timeout"
    assert result.error is not None
    assert "step 'c' failed: timeout: step 'b' failed: timeout" in result.error
    assert result.error.endswith("done before: a; done before: a")


async def test_the_timeout_of_a_step(engine: ToolEngine, audit: Audit) -> None:
    """D21: `timeout` limits each call of a step; the workflow may go on after it."""
    steps = step("a", "hang", timeout=2, on_error="continue"), step("b", "work")
    engine.register_tool(make_workflow(*steps, output="${steps.a.error_type}"))
    assert (await run(engine)).output == {"result": "timeout"}


async def test_a_step_that_does_not_stop(engine: ToolEngine) -> None:
    """C10: a tool that ignores its end keeps no workflow waiting."""
    stubborn = Stubborn(60)
    engine.register_tool(bare("stubborn"), stubborn)
    branches = [step("a", "stubborn"), step("b", "hang", timeout=1)]
    engine.register_tool(make_workflow({"id": "g", "parallel": branches}))
    loop = asyncio.get_running_loop()
    began = loop.time()
    result = await run(engine)
    assert not result.is_success
    assert loop.time() - began <= 10
    await asyncio.sleep(100)
    assert engine.controller.get_metrics().zombies == 0
    assert engine.controller.get_metrics().active == 0


async def test_cancelled_at_every_turn() -> None:
    """D21, C8: wherever the caller leaves, every call ends once and no slot is lost."""
    for turns in range(60):
        async with make_engine(2, queue_timeout=None) as engine:
            audit = Audit(engine)

            async def work() -> str:
                await asyncio.sleep(0)
                return "done"

            engine.register_tool(bare("work"), work)
            branches = [step(f"b{n}", "work", on_error="continue") for n in range(3)]
            each = step("e", "work", for_each=[1, 2, 3], max_parallel=2, on_error={"use": 1})
            engine.register_tool(
                make_workflow(step(tool="work"), {"id": "g", "parallel": branches}, each)
            )
            task = asyncio.create_task(run(engine))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            ended = await asyncio.wait([task], timeout=BOUND)
            assert ended[0] == {task}
            assert task.cancelled() or task.result().is_success
            await audit.check()
            if not task.cancelled():
                return
    raise AssertionError("the workflow takes more turns than that")
