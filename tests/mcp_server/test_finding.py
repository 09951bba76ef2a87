"""How does a client use tools that the list does not show?"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.mcp_server.conftest import Connect, text_of
from tool_engine import ConfigurationError, ToolEngine
from tool_engine.mcp_server import MCPServer, ToolSelection


async def names_of(client: Any) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]


async def test_a_short_list_finds_and_calls_the_others(
    engine: ToolEngine, connect: Connect
) -> None:
    """A client sees two tools, finds any other one by what it does, and calls it."""
    async with connect(MCPServer(engine, mode="search", principal="ann")) as client:
        names = await names_of(client)
        found = await client.call_tool("search_tools", {"query": "add two numbers"})
        first = found.structured_content["tools"][0]
        result = await client.call_tool(
            "call_tool", {"name": first["name"], "arguments": {"a": 1, "b": 2}}
        )
        direct = await client.call_tool("add", {"a": 1, "b": 2})

    assert names == ["search_tools", "call_tool"]
    assert first["name"] == "add"
    assert first["parameters"]["required"] == ["a", "b"]
    assert json.loads(text_of(found)) == found.structured_content
    assert (text_of(result), text_of(direct)) == ("3", "3")
    records = await engine.query_call_records()
    assert [(each.tool_name, each.caller_id) for each in records] == [("add", "ann")] * 2


async def test_what_is_not_shown_is_neither_found_nor_called(
    engine: ToolEngine, connect: Connect
) -> None:
    server = MCPServer(engine, mode="search", expose=ToolSelection(names=("add",)))
    async with connect(server) as client:
        found = await client.call_tool("search_tools", {"query": "fail count add"})
        with pytest.raises(MCPError, match="Unknown tool: 'fail'"):
            await client.call_tool("call_tool", {"name": "fail"})
        with pytest.raises(MCPError, match="no page ended with the cursor"):
            await client.list_tools(cursor="YWRk")

    assert [each["name"] for each in found.structured_content["tools"]] == ["add"]


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("search_tools", {}, "missing required parameter 'query'"),
        ("search_tools", {"query": "a", "limit": 21}, "limit"),
        ("call_tool", {"arguments": {}}, "missing required parameter 'name'"),
        ("call_tool", {"name": "add", "argument": {}}, "did you mean 'arguments'"),
        ("call_tool", {"name": "add", "arguments": [1]}, "arguments"),
        ("call_tool", {"name": "add", "arguments": {"a": 1}}, "missing required parameter 'b'"),
    ],
)
async def test_wrong_arguments_are_said(
    engine: ToolEngine, connect: Connect, name: str, arguments: dict[str, Any], words: str
) -> None:
    async with connect(MCPServer(engine, mode="search")) as client:
        result = await client.call_tool(name, arguments)

    assert result.is_error
    assert words in text_of(result)
    assert result.meta["tool-engine/error_type"] == "validation_error"


SEARCH = """
name: search_tools
description: Finds tools.
parameters:
  - {name: query, type: string, required: true, description: What it does}
entry: {type: builtin, handler: search_tools}
"""


async def test_a_search_tool_of_the_engine_finds_only_what_is_shown(
    engine: ToolEngine, connect: Connect
) -> None:
    """Also where the list is whole, a search says nothing of a tool that clients may not call."""
    folder = Path(engine.config.tools_directory)
    await asyncio.to_thread((folder / "search_tools.yaml").write_text, SEARCH)
    await engine.reload()
    server = MCPServer(engine, expose=ToolSelection(names=("add", "search*")))
    async with connect(server) as client:
        found = await client.call_tool("search_tools", {"query": "fail count add"})

    assert [each["name"] for each in json.loads(text_of(found))["tools"]] == ["add"]


@pytest.mark.parametrize("name", ["search_tools", "call_tool"])
async def test_a_tool_that_has_a_name_of_the_two(
    engine: ToolEngine, connect: Connect, name: str
) -> None:
    """It is found, and called as any other that the list does not show."""
    definition = {"name": name, "description": "Greets a guest.", "parameters": []}
    engine.register_tool(definition, lambda: "hi")
    async with connect(MCPServer(engine, mode="search")) as client:
        assert await names_of(client) == ["search_tools", "call_tool"]
        found = await client.call_tool("search_tools", {"query": "greet a guest"})
        called = await client.call_tool("call_tool", {"name": name})

    assert [each["name"] for each in found.structured_content["tools"]] == [name]
    assert text_of(called) == "hi"


async def test_another_name_of_a_tool_is_called(engine: ToolEngine, connect: Connect) -> None:
    """An alias means its tool, and is as hidden as that."""
    definition = {
        "name": "greet",
        "aliases": ["hello"],
        "description": "Greets.",
        "parameters": [],
        "entry": {"type": "custom"},
    }
    engine.register_tool(definition, lambda: "hi")
    async with connect(MCPServer(engine)) as client:
        assert text_of(await client.call_tool("hello", {})) == "hi"
        assert "hello" not in await names_of(client)
    async with connect(MCPServer(engine, expose=ToolSelection(names=("add",)))) as client:
        with pytest.raises(MCPError, match="Unknown tool: 'hello'"):
            await client.call_tool("hello", {})


async def test_there_are_two_modes(engine: ToolEngine) -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'search'"):
        MCPServer(engine, mode="serch")
