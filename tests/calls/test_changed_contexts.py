"""Is a context that was changed after it was made looked at again, by every way in?"""

from __future__ import annotations

import math
from typing import Any, Final

import pytest

from tool_engine import (
    ConfigurationError,
    CycleOptions,
    ParsedReply,
    ToolCall,
    ToolEngine,
    ToolExecutionContext,
    ToolSession,
    process_tool_calls,
)

CHANGES: Final[dict[str, list[Any]]] = {
    "priority": ["x", 1.5, True, 10**400, math.nan],
    "timeout": ["x", -1.0, 0, math.nan, True, [1]],
    "retry_count": ["x", None, -1, True],
    "max_retries": ["x", None, -1, 1.5],
    "variables": ["x", None, 5, [1]],
    "caller_type": [5, None, b"x"],
    "caller_id": [5, b"x", ["x"]],
    "conversation_id": [5, object()],
    "workflow_id": [5, {}],
    "session_id": [5, ()],
    "call_id": [5],
    "parent_call_id": [5],
    "deadline": ["x", math.nan, True],
    "scope": [5, "x", object()],
}


def changed(name: str, value: Any) -> ToolExecutionContext:
    context = ToolExecutionContext(caller_id="ann")
    setattr(context, name, value)
    return context


@pytest.fixture
def tools(engine: ToolEngine) -> ToolEngine:
    for name, handler in (("give", give), ("outer", call_with_changed)):
        engine.register_tool(
            {
                "name": name,
                "version": "1.0.0",
                "description": "Does one thing.",
                "category": "custom",
                "parameters": [],
            },
            handler,
        )
    return engine


async def give() -> int:
    return 1


async def call_with_changed(context: ToolExecutionContext) -> str:
    """Calls another tool with a context that cannot be."""
    context.caller_id = 5  # type: ignore[assignment]
    with pytest.raises(ConfigurationError, match="caller_id must be a text or None, got 5"):
        await context.call("give", {})
    return "refused"


@pytest.mark.parametrize("name", list(CHANGES))
async def test_execute(tools: ToolEngine, name: str) -> None:
    """A wrong value is a `ConfigurationError` that names its field, and nothing is held."""
    for value in CHANGES[name]:
        with pytest.raises(ConfigurationError, match=rf"\b{name}\b"):
            await tools.execute("give", {}, changed(name, value))
    assert tools.controller.get_metrics().active == 0
    assert (await tools.execute("give", {}, ToolExecutionContext())).is_success


@pytest.mark.parametrize("name", list(CHANGES))
async def test_other_ways(tools: ToolEngine, name: str) -> None:
    """The same holds in a session, and for the calls of a reply."""
    context = changed(name, CHANGES[name][0])
    with pytest.raises(ConfigurationError, match=rf"\b{name}\b"):
        await ToolSession(tools, "conversation").execute("give", {}, context)
    reply = ParsedReply(calls=[ToolCall(call_id="c", tool_name="give", arguments={})])
    with pytest.raises(ConfigurationError, match=rf"\b{name}\b"):
        await process_tool_calls(tools, reply, "openai", CycleOptions(context=context))


async def test_inside_a_tool(tools: ToolEngine) -> None:
    """The same holds for the context that a tool was given, which it may change."""
    assert (await tools.execute("outer")).output == {"result": "refused"}


def test_cure() -> None:
    """An id that is a number is told as the text that was meant."""
    with pytest.raises(ConfigurationError, match=r"caller_id .* got 5; write '5'$"):
        ToolExecutionContext(caller_id=5)  # type: ignore[arg-type]
