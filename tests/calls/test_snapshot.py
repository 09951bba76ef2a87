"""Does a look at the controller show the calls of the engine, under the ids of their results?"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.calls.audit import Audit, make_engine
from tests.calls.samples import Stubborn, bare
from tool_engine import (
    ConcurrencySnapshot,
    ToolEngine,
    ToolEngineEvent,
    ToolEngineEventType,
    ToolExecutionContext,
    ToolExecutionResult,
)

SECRET = "hunter2-and-a-half"


class Gate:
    """A tool that runs until it is opened."""

    def __init__(self) -> None:
        self.door = asyncio.Event()

    async def __call__(self) -> str:
        await self.door.wait()
        return "done"


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def id_of(result: ToolExecutionResult) -> str:
    return str(result.metadata["call_id"])


def check(seen: ConcurrencySnapshot) -> None:
    """C26: every slot that is counted is shown."""
    m = seen.metrics
    states = [row.state for row in seen.held]
    assert states.count("active") == m.active
    assert (states.count("parked"), states.count("zombie")) == (m.parked, m.zombies)
    assert states.count("bypass") == m.bypass_active


async def test_a_tool_sees_itself_in_its_first_step(engine: ToolEngine, audit: Audit) -> None:
    """C25: also when nothing has been waited for yet, and for the calls of the same tool later."""
    seen: list[ConcurrencySnapshot] = []

    async def look() -> str:
        seen.append(engine.controller.snapshot())
        await asyncio.sleep(0)
        seen.append(engine.controller.snapshot())
        return "done"

    engine.register_tool(bare("look"), look)
    result = await engine.execute("look")
    for each in seen:
        check(each)
        assert [(row.call_id, row.tool_name, row.state) for row in each.held] == [
            (id_of(result), "look", "active")
        ]
    assert engine.controller.snapshot().held == []


async def test_a_tool_without_a_wait_leaves_nothing_behind(engine: ToolEngine) -> None:
    """C25: a call that was shown in its only step is shown no more when it has ended."""

    async def look() -> int:
        return len(engine.controller.snapshot().held)

    engine.register_tool(bare("peek"), look)
    for _ in range(3):
        assert (await engine.execute("peek")).output["result"] == 1
    assert engine.controller.get_metrics().active == 0


async def test_a_subscriber_sees_the_call_that_starts(engine: ToolEngine) -> None:
    """C25: `execution_started` means that it has its slot, so the slot is there to be seen."""
    seen: list[tuple[str | None, ConcurrencySnapshot]] = []

    def hear(event: ToolEngineEvent) -> None:
        seen.append((event.call_id, engine.controller.snapshot()))

    engine.subscribe(hear, ToolEngineEventType.EXECUTION_STARTED)
    engine.register_tool(bare("quick"), Gate())
    task = asyncio.create_task(engine.execute("quick", context=ToolExecutionContext(timeout=1.0)))
    result = await task
    [(call_id, snapshot)] = seen
    check(snapshot)
    assert [row.call_id for row in snapshot.held] == [call_id] == [id_of(result)]


async def test_a_tool_may_look_into_another_engine() -> None:
    """C25: its own slot is none of that engine's, and stays with its own."""
    async with make_engine() as one, make_engine() as other:

        async def look() -> int:
            return len(other.controller.snapshot().held)

        one.register_tool(bare("look"), look)
        result = await one.execute("look")
        assert result.output == {"result": 0}
        assert (one.controller.snapshot().held, one.controller.get_metrics().active) == ([], 0)


async def test_calls_that_wait_have_the_ids_of_their_results() -> None:
    """C25: in snapshots, explanations and results."""
    async with make_engine(max_concurrent=1) as engine:
        gate = Gate()
        engine.register_tool(bare("gate"), gate)
        tasks = [asyncio.create_task(engine.execute("gate")) for _ in range(3)]
        await settle()
        seen = engine.controller.snapshot()
        check(seen)
        told = engine.controller.explain(str(seen.waiting[1].call_id))
        gate.door.set()
        results = [id_of(await task) for task in tasks]
        assert [row.call_id for row in seen.held] == results[:1]
        assert [row.call_id for row in seen.waiting] == results[1:]
        assert (told.position, told.ahead, told.holders) == (2, results[1:2], results[:1])
        assert {row.tool_name for row in seen.waiting} == {"gate"}


async def test_nested_calls_and_their_callers_are_shown(engine: ToolEngine, audit: Audit) -> None:
    """C23, C25: the caller is parked, its call is active, each under its own id."""
    seen: list[ConcurrencySnapshot] = []

    async def inner() -> str:
        seen.append(engine.controller.snapshot())
        return "done"

    async def outer(context: ToolExecutionContext) -> str:
        result = await context.call("inner", {})
        seen.append(engine.controller.snapshot())
        return id_of(result)

    engine.register_tool(bare("inner"), inner)
    engine.register_tool(bare("outer"), outer)
    result = await engine.execute("outer")
    within, after = seen
    check(within)
    check(after)
    states = {row.call_id: row.state for row in within.held}
    assert states == {id_of(result): "parked", result.output["result"]: "active"}
    assert {row.call_id: row.state for row in after.held} == {id_of(result): "active"}


async def test_zombies_and_bypassing_calls_are_shown(engine: ToolEngine, audit: Audit) -> None:
    """C10, C12: work that outlived its call is overdue; a workflow node holds no slot."""
    stubborn, gate = Stubborn(), Gate()
    engine.register_tool(bare("stubborn"), stubborn)
    engine.register_tool(bare("gate"), gate)
    result = await engine.execute("stubborn", context=ToolExecutionContext(timeout=1.0))
    assert result.error_type == "timeout"
    node = ToolExecutionContext.for_workflow("flow", "node")
    task = asyncio.create_task(engine.execute("gate", context=node))
    await settle()
    seen = engine.controller.snapshot()
    check(seen)
    assert [(row.call_id, row.state, row.is_overdue) for row in seen.held] == [
        (id_of(result), "zombie", True),
        (seen.held[1].call_id, "bypass", False),
    ]
    assert seen.metrics.overdue == 1
    gate.door.set()
    assert id_of(await task) == seen.held[1].call_id
    await stubborn.ended.wait()
    await settle()
    assert engine.controller.snapshot().held == []


async def test_no_argument_is_shown() -> None:
    """C25: keys made of arguments show a digest, which nobody can look up."""
    async with make_engine(max_concurrent=2) as engine:
        gate = asyncio.Event()

        async def pay(token: str) -> str:
            await gate.wait()
            return token

        definition: dict[str, Any] = {
            **bare("pay"),
            "parameters": [
                {"name": "token", "type": "string", "required": True, "description": "x"}
            ],
            "concurrency": {"key": "params.token", "key_limit": 1},
        }
        engine.register_tool(definition, pay)
        tasks = [asyncio.create_task(engine.execute("pay", {"token": SECRET})) for _ in range(3)]
        await settle()
        seen = engine.controller.snapshot()
        check(seen)
        assert (len(seen.held), len(seen.waiting)) == (1, 2)
        [row] = seen.tool_keys["pay"].values()
        assert row == {"current": 1, "limit": 1, "queue": 2}
        told = engine.controller.explain(str(seen.waiting[1].call_id))
        assert told.reason.endswith("the key of tool 'pay' is full (1 of 1)")
        for text in (json.dumps(seen.to_dict()), repr(seen), json.dumps(told.to_dict())):
            assert SECRET not in text
        gate.set()
        await asyncio.gather(*tasks)
