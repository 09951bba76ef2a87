"""Does each result hold what the list says of its tool's output? The SDK's client judges."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from mcp.server.lowlevel.server import Server
from mcp_types import CallToolResult, ListToolsResult

from tests.mcp_server.conftest import Connect, text_of
from tool_engine import ToolEngine
from tool_engine.executors.mcp.mcp_source import MCPSource
from tool_engine.mcp_server import MCPServer

NUMBER = {"type": "number"}
DECLARED: tuple[dict[str, Any], ...] = (
    {"type": "object", "properties": {"n": NUMBER}, "required": ["n"]},
    {"type": "object", "properties": {"result": NUMBER}, "required": ["result"]},
    {"type": "object", "properties": {"content": {"type": "array"}, "structuredContent": NUMBER}},
    {"type": "object", "additionalProperties": NUMBER},
    {"type": "object"},
    {"type": ["object", "null"], "properties": {"n": NUMBER}},
    {"type": ["number", "null"]},
    {"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": NUMBER}},
    {"type": "array", "items": {"$ref": "#"}},
    {"type": "string", "maxLength": 7},
    {"anyOf": [NUMBER, {"type": "null"}]},
    {},
)
TEXT = {"type": "text", "text": "said"}
RETURNED: tuple[Any, ...] = (
    None,
    3,
    10**30,
    float("nan"),
    "short",
    "a\ud800",
    [],
    [1, 2],
    [[], [[]]],
    {"n": 1},
    {"n": "cold"},
    {"result": None},
    {"result": 3},
    {"result": {"n": 1}},
    {"content": [TEXT]},
    {"content": [TEXT], "structuredContent": None},
    {"content": [TEXT], "structuredContent": 3},
    {"content": [TEXT], "structuredContent": [1, 2]},
    {"content": [TEXT], "structuredContent": {"n": 1}},
    {"content": [TEXT], "structuredContent": {"n": "cold"}},
    {"n": "long " * 20_000},
    [1.5] * 17_000,
)
MODES = ("enforce", "warn", "off")


def make_definition(name: str, output: dict[str, Any], mode: str) -> dict[str, Any]:
    """A tool of one declaration."""
    return {
        "name": name,
        "description": "Returns a value.",
        "parameters": [],
        "output": output,
        "output_mode": mode,
        "entry": {"type": "custom"},
    }


@pytest.mark.parametrize("mode", MODES)
async def test_a_client_takes_every_result(engine: ToolEngine, connect: Connect, mode: str) -> None:
    """Whatever is declared and returned: what is no failure is as the list says."""
    names = []
    for number, (output, value) in enumerate(product(DECLARED, RETURNED)):
        names.append(f"tool_{number}")
        engine.register_tool(
            make_definition(names[-1], output, mode), lambda returned=value: returned
        )
    refused = []
    async with connect(MCPServer(engine)) as client:
        listed = {tool.name for tool in (await client.list_tools()).tools}
        for name, (output, value) in zip(names, product(DECLARED, RETURNED), strict=True):
            try:
                result = await client.call_tool(name, {})
            except RuntimeError as error:  # of the SDK's client, about what came
                refused.append(f"{output} {value!r:.60}: {str(error)[:80]}")
                continue
            has_run = (await engine.execute(name)).is_success
            if result.is_error and has_run:
                assert mode != "enforce"
                assert "the tool has run, and returned what follows, which is not" in text_of(
                    result
                )
                assert result.meta["tool-engine/error_type"] == "execution_error"

    assert listed >= set(names)
    assert refused == []


async def test_a_misfit_of_a_server_behind_is_said(engine: ToolEngine, connect: Connect) -> None:
    """All that it returned is there, with what is wrong; no client meets an error of its own."""
    tool = {"name": "weather", "inputSchema": {"type": "object"}, "outputSchema": DECLARED[0]}
    returned = {"content": [TEXT], "structuredContent": {"n": "cold"}}

    async def list_tools(ctx: Any, params: Any) -> ListToolsResult:
        return ListToolsResult.model_validate({"tools": [tool]})

    async def call_tool(ctx: Any, params: Any) -> CallToolResult:
        return CallToolResult.model_validate(returned)

    behind = Server("behind", on_list_tools=list_tools, on_call_tool=call_tool)
    await engine.add_source(MCPSource("behind", in_memory=behind))
    async with connect(MCPServer(engine)) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        result = await client.call_tool("weather", {})

    assert tools["weather"].output_schema["required"] == ["n"]
    assert result.is_error
    assert "'output.n' must be a number" in text_of(result)
    assert "said" in text_of(result)
    assert "cold" in text_of(result)
    assert result.structured_content is None


async def test_an_enforced_half_is_held_as_it_is_sent(engine: ToolEngine) -> None:
    """Half of a surrogate pair is no failure without words where an output is declared."""
    definition = make_definition("names", {"type": "array", "items": {"type": "string"}}, "enforce")
    engine.register_tool(definition, lambda: ["a\udc80"])

    result = await engine.execute("names")

    assert result.is_success, result.error
