"""An engine with a few tools, and conversations over it that are checked between their turns."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.agent.models.speaking import Turn
from tests.agent.spoken import WIRES, SpokenModel, faults_of
from tests.calls.audit import EMPTY_FOLDER, check_idle
from tool_engine.agent.answer import AgentAnswer
from tool_engine.agent.events import AgentEvent, AgentEventType
from tool_engine.agent.loop import AgentLoop
from tool_engine.agent.models.carried import wire_of
from tool_engine.config import ToolEngineConfig
from tool_engine.engine import ToolEngine
from tool_engine.model.call import ToolCall
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.session import ToolSession

__all__ = ["BOUND", "WIRES", "Turn", "World", "call", "check", "kinds", "run_turn", "said_of"]

BOUND = 20.0


def call(number: int, name: str = "add", **arguments: Any) -> ToolCall:
    """A call as a model makes it."""
    return ToolCall(call_id=f"id_{number}", tool_name=name, arguments=arguments)


class World:
    """An engine with the tools `add`, `fail`, `hang` and `write`; the last one is a write."""

    def __init__(self) -> None:
        self.engine = ToolEngine(ToolEngineConfig(tools_directory=EMPTY_FOLDER, auto_reload=False))
        self.ran: list[str] = []
        self.events: list[AgentEvent] = []
        self.hanging = asyncio.Event()

        @self.engine.tool(effect="read")
        async def add(a: int, b: int) -> int:
            """Adds."""
            self.ran.append("add")
            return a + b

        @self.engine.tool(effect="read")
        async def fail() -> None:
            """Fails."""
            self.ran.append("fail")
            raise ValueError("no such luck")

        @self.engine.tool(effect="read")
        async def hang() -> None:
            """Never ends."""
            self.ran.append("hang")
            self.hanging.set()
            await asyncio.Event().wait()

        @self.engine.tool(effect="write")
        async def write(text: str) -> str:
            """Writes."""
            self.ran.append(f"write {text}")
            return "written"

    def loop(self, wire: str, *turns: Any, breaks: int = -1, **options: Any) -> AgentLoop:
        """A conversation in which the model says these turns."""
        config = ToolCallConfig(**options.pop("config", {}))
        session = ToolSession(self.engine, f"chat-{wire}", config, options.pop("approver", None))
        protocol = options.pop("protocol", None)
        model = SpokenModel(wire, turns, breaks=breaks, protocol=protocol)
        options.setdefault("on_event", self.events.append)
        return AgentLoop(session, model, **options)

    async def records(self) -> list[Any]:
        """What the engine recorded, the oldest first."""
        return list(await self.engine.store.query_call_records(oldest_first=True))


def check(loop: AgentLoop) -> None:
    """What holds for every conversation between its turns."""
    model = loop.model
    assert isinstance(model, SpokenModel)
    assert model.problems == []
    # What comes next is a user's message, in its place.
    wire = wire_of(model.protocol)
    assert faults_of(wire, [*loop.messages, model.user_message("next")]) == []
    assert model.open_replies == 0
    assert not loop.is_running
    assert loop.session.pending_approvals == []
    check_idle(loop.session.source)  # type: ignore[arg-type] # it is an engine here


async def run_turn(loop: AgentLoop, text: str = "Go.") -> AgentAnswer:
    """One turn, after which all that has to hold is checked."""
    answer = await loop.run(text)
    check(loop)
    return answer


def kinds(events: list[AgentEvent]) -> list[str]:
    """The types of events, each once where the same stand side by side."""
    named = [each.type.value for each in events]
    return [one for one, before in zip(named, [None, *named], strict=False) if one != before]


def said_of(events: list[AgentEvent], kind: AgentEventType) -> list[AgentEvent]:
    """The events of one type."""
    return [each for each in events if each.type is kind]
