"""Sub-agents run at the same time where that can do no harm, and hold no slot while they work."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.agent.spoken import SpokenModel
from tests.agent.world import Turn, call, check
from tests.calls.audit import EMPTY_FOLDER, check_idle
from tool_engine.agent.loop import AgentLoop
from tool_engine.config import ConcurrencyConfig, ToolEngineConfig
from tool_engine.engine import ToolEngine
from tool_engine.model.call import ToolCall
from tool_engine.model.chat import ChatRequest
from tool_engine.session.session import ToolSession


def delegated(number: int, task: str) -> ToolCall:
    return call(number, "call_sub_agent", task=task)


class Delegating(SpokenModel):
    """Answers each sub-agent by its task, whichever asks first."""

    async def reply(self, request: ChatRequest) -> Any:
        task = request.messages[0]["content"]
        if task.startswith("part"):
            is_asked = len(request.messages) > 1
            turn = Turn(text=f"{task}!") if is_asked else Turn(calls=[MEET])
            # One of its own: several sub-agents ask at the same time.
            async for chunk in SpokenModel("openai", [turn]).reply(request):
                yield chunk
            return
        async for chunk in super().reply(request):
            yield chunk


MEET = call(1, "meet")


class Meeting:
    """A tool that ends when as many of its calls run at the same time as there should."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.is_full = asyncio.Event()

    async def __call__(self) -> str:
        self.number -= 1
        if not self.number:
            self.is_full.set()
        await self.is_full.wait()
        return "met"


def meeting(max_concurrent: int, number: int, effect: str = "read") -> ToolEngine:
    engine = ToolEngine(
        ToolEngineConfig(tools_directory=EMPTY_FOLDER, auto_reload=False),
        concurrency=ConcurrencyConfig(max_concurrent=max_concurrent),
    )
    definition = {
        "name": "meet",
        "description": "Meets.",
        "category": "custom",
        "effect": effect,
        "timeout": 5.0,
        "entry": {"type": "custom", "handler": "meet"},
    }
    engine.register_tool(definition, Meeting(number))
    return engine


async def test_in_parallel() -> None:
    """Sub-agents that can only read run at the same time; each is answered with its own."""
    async with asyncio.timeout(20.0), meeting(3, 3) as engine:
        turns = [Turn(calls=[delegated(n, f"part {n}") for n in range(3)]), Turn(text="All.")]
        loop = AgentLoop(ToolSession(engine, "chat"), Delegating("openai", turns), sub_agents=1)
        assert (await loop.run("Go.")).text == "All."
        check(loop)
        told = [each["content"] for each in loop.messages if each["role"] == "tool"]
        assert told == ["part 0!", "part 1!", "part 2!"]
        assert [child.entries[2].text for child in loop.children.values()] == ["met"] * 3


async def test_one_after_the_other() -> None:
    """Where a sub-agent may write, the next one begins when it has ended."""
    async with asyncio.timeout(20.0), meeting(3, 2, "write") as engine:
        turns = [Turn(calls=[delegated(n, f"part {n}") for n in range(2)]), Turn(text="All.")]
        loop = AgentLoop(ToolSession(engine, "chat"), Delegating("openai", turns), sub_agents=1)
        assert (await loop.run("Go.")).text == "All."
        check(loop)
        first, second = loop.children.values()
        assert "did not finish within 5 s" in first.entries[2].text
        assert second.entries[2].text == "met"


async def test_no_deadlock_for_slots() -> None:
    """The slot of a call is parked while its sub-agent works, however few there are."""
    async with asyncio.timeout(20.0), meeting(1, 1) as engine:
        turns = [Turn(calls=[delegated(1, "part 1")]), Turn(text="All.")]
        loop = AgentLoop(ToolSession(engine, "chat"), Delegating("openai", turns), sub_agents=1)
        assert (await loop.run("Go.")).text == "All."
        check_idle(engine)
