"""How far has a workflow come, and who hears that?"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.calls.audit import Audit
from tests.calls.samples import bare
from tests.executors.workflow.samples import make_workflow, step
from tests.executors.workflow.test_workflow_executor import audit, engine
from tool_engine import ToolEngine
from tool_engine.model.progress import ToolProgress

__all__ = ["audit", "engine"]


async def heard(engine: ToolEngine, *steps: dict[str, Any], **keys: Any) -> list[ToolProgress]:
    """What a listener hears of a workflow with these steps."""
    engine.register_tool(make_workflow(*steps, **keys))
    found: list[ToolProgress] = []
    await engine.execute("flow", {}, on_progress=found.append)
    return found


async def test_steps(engine: ToolEngine, audit: Audit) -> None:
    """Which one is at work, and how many are over, to the last."""
    found = await heard(engine, step("a", "work"), step("b", "work"), step("c", "work"))
    assert found == [
        ToolProgress(0, 3, "a"),
        ToolProgress(1, 3, "b"),
        ToolProgress(2, 3, "c"),
        ToolProgress(3, 3, None),
    ]


async def test_items(engine: ToolEngine, audit: Audit) -> None:
    """Each item of a step is its part of it."""
    each = step("b", "work", for_each=[1, 2, 3, 4])
    found = await heard(engine, step("a", "work"), each, step("c", "work"))
    assert [progress.done for progress in found] == [0, 1, 1.25, 1.5, 1.75, 2, 2, 3]


@pytest.mark.parametrize("most", [1, 2, 7])
async def test_items_at_once(engine: ToolEngine, audit: Audit, most: int) -> None:
    """It never goes back, whatever ends first, and ends at the whole."""
    each = [
        step(name, "work", for_each=list(range(size)), max_parallel=most)
        for name, size in (("b", 7), ("c", 3), ("d", 10))
    ]
    found = await heard(engine, {"id": "g", "parallel": each}, step("z", "work"))
    done = [progress.done for progress in found]
    assert done == sorted(done)
    assert (done[0], found[-1]) == (0, ToolProgress(4, 4))


async def test_what_is_left_out_and_what_fails(engine: ToolEngine, audit: Audit) -> None:
    """A skipped step is over, with its branches; so is one that may fail."""

    async def fail() -> None:
        await asyncio.sleep(1)
        raise OSError("broken")

    engine.register_tool(bare("fail"), fail)
    group = {"id": "g", "if": "1 > 2", "parallel": [step("b", "work"), step("c", "work")]}
    found = await heard(
        engine,
        step("a", "fail", on_error="continue"),
        group,
        step("d", "work", **{"if": "1 > 2"}),
        step("e", "work"),
    )
    assert [each.done for each in found] == [0, 4, 5]


async def test_how_far_a_failed_one_came(engine: ToolEngine, audit: Audit) -> None:
    """Its last report comes before its end."""

    async def fail() -> None:
        await asyncio.sleep(1)
        raise OSError("broken")

    engine.register_tool(bare("fail"), fail)
    found = await heard(engine, step("a", "work"), step("b", "fail"), step("c", "work"))
    assert found[-1] == ToolProgress(1, 3, "b")


async def test_one_inside_another(engine: ToolEngine, audit: Audit) -> None:
    """Each tells of itself: the inner one is a step of the outer one."""
    engine.register_tool(make_workflow(step("x", "work"), step("y", "work"), name="inner"))
    found = await heard(engine, step("a", "inner"), step("b", "work"))
    assert [(each.done, each.message) for each in found] == [(0, "a"), (1, "b"), (2, None)]
    told = [each for each in audit.events if each.event_type.value == "execution_progress"]
    assert [each.data["done"] for each in told if each.tool_name == "inner"] == [0, 1, 2]
