"""A source in memory, and which sources an engine takes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ListToolsResult, Tool

from tests.executors.mcp.conftest import LIMIT
from tool_engine import ConfigurationError, ToolEngine, ToolEngineConfig
from tool_engine.executors.mcp.mcp_source import MCPSource
from tool_engine.mcp_server import MCPServer


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


async def test_a_quick_tool_in_memory_takes_no_turn_of_the_loop(engine: ToolEngine) -> None:
    async def list_tools(*_: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="quick", input_schema={"type": "object"})])

    async def call_tool(*_: Any) -> CallToolResult:
        return CallToolResult(content=[])

    server = Server("near", on_list_tools=list_tools, on_call_tool=call_tool)
    await engine.add_source(MCPSource("near", in_memory=server))
    turns: list[int] = []
    asyncio.get_running_loop().call_soon(turns.append, 1)
    assert (await engine.execute("quick", {})).is_success
    assert not turns


FAILURES = {
    "an error of the protocol": (MCPError(-32602, "no such thing"), "no such thing (-32602)"),
    "any other": (RuntimeError("the vault is open"), "Internal server error (-32603)"),
}


@pytest.mark.parametrize("case", FAILURES)
async def test_a_server_in_memory_that_fails(engine: ToolEngine, case: str) -> None:
    """It ends as over a wire, where what a handler raises is not told."""
    error, words = FAILURES[case]

    async def list_tools(*_: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="bad", input_schema={"type": "object"})])

    async def call_tool(*_: Any) -> CallToolResult:
        raise error

    server = Server("near", on_list_tools=list_tools, on_call_tool=call_tool)
    await engine.add_source(MCPSource("near", in_memory=server))
    result = await engine.execute("bad", {})
    assert (result.error_type, result.error) == (
        "execution_error",
        f"the server 'near' answered with an error: {words}",
    )


async def test_a_server_in_memory_tells_of_its_progress(engine: ToolEngine) -> None:
    """One that is no number is passed over, and the call goes on."""
    heard: asyncio.Queue[float] = asyncio.Queue()

    async def list_tools(*_: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="slow", input_schema={"type": "object"})])

    async def call_tool(context: Any, _: Any) -> CallToolResult:
        await context.session.report_progress(1, 3)
        assert await heard.get() == 1
        await context.session.report_progress("two", 3)
        await context.session.report_progress(3, 3)
        assert await heard.get() == 3
        return CallToolResult(content=[])

    server = Server("near", on_list_tools=list_tools, on_call_tool=call_tool)
    await engine.add_source(MCPSource("near", in_memory=server))
    result = await engine.execute("slow", {}, on_progress=lambda each: heard.put_nowait(each.done))
    assert result.is_success, result.error


async def test_settings_of_no_tool(engine: ToolEngine, other: ToolEngine) -> None:
    """A permission under a misspelt name would hold for nothing: each such name is an error."""
    settings: dict[str, Any] = {
        "tools": {"Add": {"permission": "ask_always"}},
        "expose": ["ad*", "nothing*"],
    }
    await engine.add_source(MCPSource("near", in_memory=MCPServer(other), **settings))
    tools, expose = sorted(
        message.partition("the server 'near'")[2] for _, message in engine.load_errors
    )
    no_tool = " has no tool"
    assert tools == f"{no_tool} 'Add', which stands in 'tools' of its settings; did you mean 'add'?"
    assert f"{no_tool} 'nothing*', which stands in 'expose'" in expose
    assert (await engine.execute("add", {"a": 1, "b": 2})).is_success


async def test_a_tool_with_settings_leaves_as_others_do(engine: ToolEngine) -> None:
    """That its settings name it keeps no tool that its server has not any more."""
    names = ["one", "two"]

    async def list_tools(*_: Any) -> ListToolsResult:
        schema = {"type": "object"}
        return ListToolsResult(tools=[Tool(name=name, input_schema=schema) for name in names])

    source = MCPSource(
        "near", in_memory=Server("near", on_list_tools=list_tools), tools={"two": {"timeout": 3}}
    )
    await engine.add_source(source)
    assert engine.get_or_raise("two").timeout == 3
    names.remove("two")
    source.connection.refresh()
    async with asyncio.timeout(LIMIT):
        while "two" in engine.index:  # noqa: ASYNC110 - it goes by itself
            await asyncio.sleep(0.01)
    assert "has no tool 'two'" in str(engine.load_errors)


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
