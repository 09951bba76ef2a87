"""Who makes a call of a conversation, and how much time has it?"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.session.catalogs import Catalog, definition
from tool_engine import Tool, ToolEngine, ToolExecutionContext, ToolSession
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.scope import SessionScope
from tool_engine.session.variables.references import Expanded
from tool_engine.sources.foreign import as_source

NO_TOOLS = as_source(Catalog())
TOOL = ToolConfigLoader().from_mapping(definition("note"))


def bound(
    session: ToolSession, context: ToolExecutionContext | None, tool: Tool | None
) -> ToolExecutionContext:
    """A context of the conversation, which has what it adds to the call."""
    scope = SessionScope(session.calls.of_scopes, Expanded({}, ()))
    made = session._parts.caller.bind(context, tool, scope)
    assert made.scope is scope
    return replace(made, scope=None)


@pytest.mark.parametrize(
    ("of_session", "of_tool", "expected"),
    [(30.0, None, 30.0), (30.0, 60.0, 60.0), (20.0, None, 20.0), (20.0, 60.0, 20.0), (20.0, 5, 5)],
)
def test_how_much_time(of_session: float, of_tool: float | None, expected: float) -> None:
    """A9: the settings bound what a tool says, which decides where they say nothing."""
    session = ToolSession(NO_TOOLS, "s", ToolCallConfig(timeout=of_session))
    tool = replace(TOOL, timeout=of_tool)
    for context in (None, ToolExecutionContext(), ToolExecutionContext(timeout=None)):
        assert bound(session, context, tool).timeout == expected
    assert bound(session, ToolExecutionContext(timeout=7.0), tool).timeout == 7.0
    assert bound(session, None, None).timeout == of_session


def test_a_helper_has_no_more_time() -> None:
    """A9: of a conversation and those that it works for, the shortest time holds."""
    parent = ToolSession(NO_TOOLS, "p", ToolCallConfig(timeout=3.0))
    child = ToolSession(NO_TOOLS, "p/c", ToolCallConfig(timeout=20.0), parent=parent)
    assert bound(child, None, replace(TOOL, timeout=10.0)).timeout == 3.0


def test_who_calls() -> None:
    """X1: a call is the session's own, unless somebody else says who he is."""
    session = ToolSession(NO_TOOLS, "s", agent_id="ada", conversation_id="talk")
    own = bound(session, None, TOOL)
    assert own == bound(session, ToolExecutionContext(), TOOL)
    assert (own.caller_id, own.caller_type) == ("ada", "conversation_agent")
    assert (own.conversation_id, own.session_id) == ("talk", "s")
    said = ToolExecutionContext(caller_id="bob", caller_type="workflow_node", conversation_id="x")
    bob = bound(session, said, TOOL)
    assert (bob.caller_id, bob.caller_type, bob.conversation_id) == ("bob", "workflow_node", "x")
    assert bob.session_id == "s"


async def test_a_tool_may_write_its_context_down() -> None:
    """What belongs to the conversation stays in it: a context as JSON has nothing of its scope."""

    async def describe(context: ToolExecutionContext) -> dict[str, Any]:
        return {"context": context.to_dict(), "shown": repr(context.scope)}

    async with ToolEngine() as engine:
        engine.register_tool({"name": "describe", "description": "Describes."}, describe)
        session = ToolSession(engine, "chat", {"max_calls": 5})
        result = await session.execute("describe")
    assert result.is_success, result.error
    assert result.output["context"]["session_id"] == "chat"
    assert "scope" not in result.output["context"]
    assert result.output["shown"] == "<SessionScope of 'describe'>"
