"""Can what an execution backend is given cross to another process as JSON, and back?"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from tests.calls.audit import make_engine
from tool_engine import Tool, ToolConfigLoader, ToolEngine, ToolExecutionContext

BOUND = 10.0

DEFINITION = {
    "name": "remote",
    "version": "1.0.0",
    "description": "Runs somewhere",
    "category": "custom",
    "parameters": [
        {"name": "text", "type": "string", "default": "é\n", "description": "x"},
        {"name": "number", "type": "number", "default": 1.5, "description": "x"},
        {"name": "count", "type": "integer", "default": 2, "description": "x"},
        {"name": "flag", "type": "boolean", "default": False, "description": "x"},
        {"name": "items", "type": "array", "default": [1, None], "description": "x"},
        {"name": "options", "type": "object", "default": {"a": {}}, "description": "x"},
    ],
    "entry": {"type": "custom", "handler": "remote"},
}


class Crossing:
    """An executor that works only with what went through JSON."""

    def __init__(self) -> None:
        self.requests: list[str] = []

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        request = {
            "tool": tool.name,
            "definition_hash": tool.definition_hash,
            "arguments": params,
            "seconds_left": float(context.deadline or 0) - loop.time(),
            "context": context.to_wire(),
        }
        self.requests.append(json.dumps(request, allow_nan=False))
        return self.work(json.loads(self.requests[-1]))

    def work(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"arguments": request["arguments"], "caller": request["context"]["caller_id"]}


@pytest.fixture
async def engine() -> AsyncIterator[ToolEngine]:
    async with asyncio.timeout(BOUND), make_engine() as made:
        yield made


async def test_what_crosses_is_json(engine: ToolEngine) -> None:
    """C7, K30: name, hash, arguments, seconds left and the context's wire form survive JSON."""
    crossing = Crossing()
    tool = engine.register_tool(DEFINITION)
    engine.register_executor("remote", crossing)
    context = ToolExecutionContext.for_conversation(
        "agent", "conv", timeout=5, priority=2, variables={"a": [1, {"b": None}]}
    )
    result = await engine.execute("remote", {"count": 3}, context)
    assert result.is_success, result.error
    assert result.output["arguments"] == {
        "text": "é\n",
        "number": 1.5,
        "count": 3,
        "flag": False,
        "items": [1, None],
        "options": {"a": {}},
    }
    assert result.output["caller"] == "agent"
    request = json.loads(crossing.requests[0])
    assert (request["tool"], request["definition_hash"]) == ("remote", tool.definition_hash)
    assert 0 < request["seconds_left"] <= 5
    assert request["context"] == {
        "caller_id": "agent",
        "caller_type": "conversation_agent",
        "conversation_id": "conv",
        "workflow_id": None,
        "session_id": None,
        "retry_count": 0,
        "max_retries": 3,
        "priority": 2,
        "call_id": result.call_id,
        "parent_call_id": None,
        "variables": {"a": [1, {"b": None}]},
    }


async def test_wire_form_makes_a_context_again() -> None:
    """K30: the wire form is what a context of the other process is made of."""
    context = ToolExecutionContext.for_workflow("wf", "node", max_retries=1, variables={"x": 1})
    wire = json.loads(json.dumps(context.to_wire()))
    again = ToolExecutionContext(**wire)
    assert again.to_wire() == context.to_wire()
    # Nothing of this process crosses: neither its clock nor what binds a context to its call.
    assert not {"deadline", "timeout", "_nested", "_slot"} & set(wire)


async def test_definition_crosses_by_hash() -> None:
    """K51: the same definition has the same hash wherever it is loaded, another has another."""
    loader = ToolConfigLoader()
    first, again = loader.from_mapping(DEFINITION), loader.from_mapping(dict(DEFINITION))
    assert first.definition_hash == again.definition_hash
    other = loader.from_mapping({**DEFINITION, "description": "Runs elsewhere"})
    assert other.definition_hash != first.definition_hash
    assert msgspec.json.decode(msgspec.json.encode(first.definition_hash)) == first.definition_hash


async def test_result_crosses_back(engine: ToolEngine) -> None:
    """K50: a result is JSON too, however the call ended."""

    async def fail() -> None:
        raise ValueError("no")

    engine.register_tool({**DEFINITION, "name": "ok", "parameters": []}, lambda: {"a": 1})
    entry = {"type": "custom", "handler": "bad"}
    engine.register_tool({**DEFINITION, "name": "bad", "parameters": [], "entry": entry}, fail)
    for name in ("ok", "bad", "missing"):
        result = (await engine.execute(name)).to_dict()
        assert json.loads(json.dumps(result, allow_nan=False)) == result
