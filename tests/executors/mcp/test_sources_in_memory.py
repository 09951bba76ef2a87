"""A source in memory, and which sources an engine takes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.executors.mcp.conftest import LIMIT
from tool_engine import ConfigurationError, ToolEngine, ToolEngineConfig
from tool_engine.executors.mcp.mcp_source import MCPSource
from tool_engine.mcp_server import MCPServer

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
async def other(tmp_path: Path) -> Any:
    """Another engine, with a tool."""
    folder = tmp_path / "others"
    folder.mkdir()
    async with ToolEngine(ToolEngineConfig(tools_directory=str(folder))) as other:

        @other.tool(description="Adds.")
        async def add(a: int, b: int) -> int:
            return a + b

        yield other


@pytest.mark.parametrize("revision", [None, "2025-11-25"])
async def test_the_server_of_another_engine(
    engine: ToolEngine, other: ToolEngine, revision: str | None
) -> None:
    """Its tools run there, under the limits and records of both; a new tool is heard of."""
    source = MCPSource("other", in_memory=MCPServer(other), revision=revision)
    assert (await engine.add_source(source))["added"] == ["add"]
    result = await engine.execute("add", {"a": 1, "b": 2})
    assert result.is_success, result.error
    assert result.output["content"] == [{"type": "text", "text": "3"}]
    (record,) = await other.query_call_records()
    assert record.caller_type == "mcp"

    @other.tool(description="Takes away.")
    async def take(a: int, b: int) -> int:
        return a - b

    async with asyncio.timeout(LIMIT):
        while engine.get("take") is None:  # noqa: ASYNC110 - it comes by itself
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("wrong", [object(), "server", 3, dict])
def test_what_is_no_server(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="in_memory must be a server"):
        MCPSource("wrong", in_memory=wrong)


async def test_a_source_belongs_to_one_engine(engine: ToolEngine, other: ToolEngine) -> None:
    """A second engine would take its changes from the first, and close it with itself."""
    source = MCPSource("third", in_memory=MCPServer(other))
    await engine.add_source(source)
    with pytest.raises(ConfigurationError, match="belongs to another engine"):
        await other.add_source(source)
    assert (await engine.execute("add", {"a": 1, "b": 2})).is_success
    await engine.remove_source(source)
    async with asyncio.timeout(LIMIT):
        while not source.connection.is_closed:  # noqa: ASYNC110 - nothing says so
            await asyncio.sleep(0.01)
    with pytest.raises(ConfigurationError, match="was closed; make another MCPSource"):
        await engine.add_source(source)
    assert engine.get("add") is None
    again = MCPSource(source.settings, in_memory=MCPServer(other))
    assert (await engine.add_source(again))["added"] == ["add"]
