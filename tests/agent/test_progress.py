"""What do listeners of a conversation hear while its calls run?"""

from __future__ import annotations

import asyncio
import json
import threading

import pytest

from tests.agent.test_sub_agents import delegated
from tests.agent.world import WIRES, Turn, World, call, run_turn, said_of
from tool_engine.agent.events import AgentEvent, AgentEventType
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.progress import ToolProgress

PIN = "correct horse battery"


def add_counter(world: World, pause: float = 1.0) -> None:
    """Adds a tool that counts to a number."""
    pin = {"name": "pin", "type": "string", "secret": True, "description": "P"}
    most = {"name": "most", "type": "integer", "required": True, "description": "M"}

    async def count(context: ToolExecutionContext, most: int, pin: str = "") -> str:
        """Counts."""
        for number in range(1, most + 1):
            await context.report_progress(number, most, f"{number} with {pin or 'nothing'}")
            await asyncio.sleep(pause)
        return "counted"

    tool = {"name": "count", "description": "C.", "effect": "read", "parameters": [pin, most]}
    world.engine.register_tool(tool, count)


def progress_of(events: list[AgentEvent]) -> list[tuple[str | None, float]]:
    """Which call has come how far, in their order."""
    found = said_of(events, AgentEventType.TOOL_PROGRESS)
    assert all(each.progress is not None for each in found)
    return [(each.tool_call_id, each.progress.done) for each in found if each.progress]


@pytest.mark.parametrize("wire", WIRES)
async def test_each_call_by_its_id(world: World, wire: str) -> None:
    """Two at once, each under the id by which the model knows it, before its result."""
    add_counter(world)
    calls = [call(1, "count", most=2), call(2, "count", most=3), call(3, a=1, b=2)]
    await run_turn(world.loop(wire, Turn(calls=calls), Turn(text="Done.")))
    found = progress_of(world.events)
    assert sorted(found) == [("id_1", 1), ("id_1", 2), ("id_2", 1), ("id_2", 2), ("id_2", 3)]
    over: set[str | None] = set()
    for event in world.events:
        if event.type is AgentEventType.TOOL_RESULT:
            over.add(event.tool_call_id)
        elif event.type is AgentEventType.TOOL_PROGRESS:
            assert event.tool_call_id not in over
            assert (event.tool_call_name, event.round) == ("count", 1)


async def test_a_stream_yields_it_as_json(world: World) -> None:
    """Also for other programs, without the secrets of this call and of those before."""
    add_counter(world)
    first, second = call(1, "count", most=1, pin=PIN), call(2, "count", most=1)
    loop = world.loop("openai", Turn(calls=[first, second]), Turn(text="Done."))
    told = [event.to_dict() async for event in loop.stream("Count.")]
    found = [each["progress"] for each in told if each["type"] == "tool_progress"]
    assert found == [
        {"done": 1, "total": 1, "message": "1 with [hidden]"},
        {"done": 1, "total": 1, "message": "1 with nothing"},
    ]
    repeated = AgentEvent(
        type=AgentEventType.TOOL_PROGRESS,
        progress=ToolProgress(1, message=f"after {PIN}"),
        _secrets=loop.listeners.known_secrets(),
    )
    assert PIN not in json.dumps(repeated.to_dict())


async def test_of_a_sub_agent(world: World) -> None:
    """Its calls are told with the call that it works for."""
    add_counter(world)
    turns = (
        Turn(calls=[delegated(1, "Count.")]),
        Turn(calls=[call(2, "count", most=1)]),
        Turn(text="Counted."),
        Turn(text="Done."),
    )
    await run_turn(world.loop("openai", *turns, sub_agents=1))
    (event,) = said_of(world.events, AgentEventType.TOOL_PROGRESS)
    assert (event.tool_call_id, event.progress) == ("id_2", ToolProgress(1, 1, "1 with nothing"))
    outer = next(e for e in await world.records() if e.tool_name == "call_sub_agent")
    assert event.parent_call_id == outer.call_id


async def test_a_listener_that_fails(world: World) -> None:
    """The turn goes on."""
    add_counter(world)

    def fail(event: AgentEvent) -> None:
        if event.type is AgentEventType.TOOL_PROGRESS:
            raise LookupError("broken")

    loop = world.loop("openai", Turn(calls=[call(1, "count", most=2)]), Turn(text="Done."))
    loop.listeners.add(fail)
    assert (await run_turn(loop)).text == "Done."


async def test_an_engine_on_another_loop(world: World) -> None:
    """Its events come to the turn's own loop, and in their order."""
    add_counter(world, 0)  # while a thread works, virtual time stands still
    loop = world.loop("openai", Turn(calls=[call(1, "count", most=1)]), Turn(text="Done."))
    threads: list[tuple[str, int]] = []
    loop.listeners.add(lambda event: threads.append((event.type.value, threading.get_ident())))

    def run() -> int:
        asyncio.run(loop.run("Count."))
        return threading.get_ident()

    here = await asyncio.to_thread(run)
    assert {place for _, place in threads} == {here}
    kinds = [kind for kind, _ in threads]
    assert kinds.index("tool_progress") < kinds.index("tool_result")
