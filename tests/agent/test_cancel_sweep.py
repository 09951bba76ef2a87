"""Cancelled at any moment that there is, a turn leaves a conversation that goes on, and no more."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.agent.spoken import SpokenModel
from tests.agent.world import WIRES, Turn, call, check
from tests.calls.audit import Audit, make_engine
from tests.calls.cancel_driver import SWEEPS, Stage
from tests.effort import IS_WHOLE
from tool_engine.agent.loop import AgentLoop
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest
from tool_engine.model.permission import ExecutionPolicy, Permission
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.session import ToolSession

Call = Coroutine[Any, Any, Any]
ASK = Permission(execution=ExecutionPolicy.ASK_ALWAYS)


class Consenting:
    """Somebody who takes a second to say yes."""

    async def approve(self, request: ApprovalRequest) -> ApprovalDecision:
        await asyncio.sleep(1.0)
        return ApprovalDecision(is_approved=True)


class Guest:
    """Asserts that a conversation is whole, and that its next turn works."""

    def __init__(self, loop: AgentLoop) -> None:
        self.loop = loop
        self.audit = Audit(loop.session.source)  # type: ignore[arg-type] # it is an engine

    async def check(self, *, was_shut: bool) -> None:
        check(self.loop)
        await self.audit.check()
        assert self.loop.session.pending_approvals == []
        assert isinstance(self.loop.model, SpokenModel)
        before = len(self.loop.messages)
        self.loop.model.turns = [Turn(calls=[call(9, "quick")]), Turn(text="Yes.")]
        assert (await self.loop.run("And?")).text == "Yes."
        assert len(self.loop.messages) > before
        check(self.loop)
        await self.loop.session.source.close()  # type: ignore[attr-defined] # it is an engine


def conversation(stage: Stage, wire: str, **options: Any) -> AgentLoop:
    """A model that calls two tools at once, then one that somebody is asked for, then answers."""
    engine = make_engine(2)

    @engine.tool(effect="read")
    async def slow() -> str:
        """Takes a second."""
        await asyncio.sleep(1.0)
        return "slow"

    @engine.tool(effect="read")
    async def quick() -> str:
        """Takes no time."""
        return "quick"

    @engine.tool(effect="write")
    async def write() -> str:
        """Writes."""
        await asyncio.sleep(0)
        return "written"

    turns = [
        Turn(text="I look.", calls=[call(1, "quick"), call(2, "slow"), call(3, "write")]),
        Turn(text="I have looked."),
    ]
    config = ToolCallConfig(tool_permissions={"write": ASK})
    session = ToolSession(engine, "chat", config, Consenting())
    loop = AgentLoop(session, SpokenModel(wire, turns), **options)
    stage.guests.append(Guest(loop))
    # A `CancelledError` in a call, or in who is asked, of a task that nobody cancels is their own.
    stage.is_throw_absorbed = True
    return loop


def in_wire(wire: str, *, is_streamed: bool = True) -> Any:
    async def scene(stage: Stage) -> Call:
        loop = conversation(stage, wire, is_streamed=is_streamed)

        async def turn() -> None:
            assert (await loop.run("Go.")).text == "I have looked."

        return turn()

    return scene


async def in_a_stream(stage: Stage) -> Call:
    loop = conversation(stage, "openai")

    async def turn() -> None:
        stream = loop.stream("Go.")
        try:
            events = [event async for event in stream]
        finally:
            # As `contextlib.aclosing` does; else the loop closes it later.
            await stream.aclose()
        assert events[-1].answer is not None

    return turn()


async def in_a_hurry(stage: Stage) -> Call:
    loop = conversation(stage, "openai")
    loop.session.meter.config = ToolCallConfig(max_seconds=1000.0)
    clock = asyncio.get_running_loop().time
    for each in loop.session.meter.line:
        each._clock = clock

    async def turn() -> None:
        answer = await loop.run("Go.")
        assert answer.text == "I have looked."

    return turn()


@pytest.mark.thinned(2)
@pytest.mark.parametrize("way", ["thrown", "cancelled", "all"])
@pytest.mark.parametrize("wire", WIRES)
def test_cancelled_at_every_moment(wire: str, way: str) -> None:
    """Wherever a turn is struck: no slot, task, connection or request for approval is left, each
    call has one record and one final event, the provider takes the conversation, and the next turn
    works."""
    assert list(SWEEPS[way](in_wire(wire)))


@pytest.mark.thinned(2)
@pytest.mark.parametrize("way", ["thrown", "cancelled", "inside"])
@pytest.mark.parametrize("scene", [in_wire("anthropic", is_streamed=False), in_a_hurry])
def test_other_ways_of_a_turn(scene: Any, way: str) -> None:
    """The same holds for whole replies, for turns with little time, and for tasks of a turn."""
    assert list(SWEEPS[way](scene))


@pytest.mark.parametrize("way", ["cancelled", "twice"] if IS_WHOLE else ["twice"])
def test_a_stream_at_every_moment(way: str) -> None:
    """The same holds for whoever reads a stream, also when they are cancelled twice."""
    assert list(SWEEPS[way](in_a_stream))
