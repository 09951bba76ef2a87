"""What an engine says of its failure reaches the caller of another engine, who asks it by MCP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp.server import Server
from mcp_types import ListToolsResult, Tool

from tests.executors.mcp.conftest import LIMIT, count_running
from tool_engine import ToolEngine, ToolEngineConfig, ToolExecutionContext
from tool_engine.executors.mcp.mcp_source import MCPSource
from tool_engine.mcp_server import MCPServer

READ = {"type": "object", "properties": {"number": {"type": "integer"}}}


@pytest.fixture
async def other(tmp_path: Path) -> AsyncIterator[ToolEngine]:
    """The engine behind the server."""
    folder = tmp_path / "others"
    folder.mkdir()
    config = ToolEngineConfig(tools_directory=str(folder), auto_reload=False)
    async with ToolEngine(config) as other:

        @other.tool(description="Adds one.")
        async def add(number: int) -> int:
            return number + 1

        yield other


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
async def test_an_engine_that_was_closed(
    engine: ToolEngine, other: ToolEngine, revision: str
) -> None:
    """It is a lost server, as its end would be: for the caller, and for the breaker of the tool."""
    breaker = {"concurrency": {"breaker": {"failures": 2, "reset_after": 60}}}
    source = MCPSource(
        "other", in_memory=MCPServer(other), revision=revision, tools={"add": breaker}
    )
    await engine.add_source(source)
    await other.close()
    for _ in range(2):
        result = await engine.execute("add", {"number": 1})
        assert result.error_type == "worker_lost"
        assert "the server 'other' was lost" in str(result.error)
        assert "the engine is closed" in str(result.error)
    assert (await engine.execute("add", {"number": 1})).error_type == "circuit_open"
    assert count_running(engine) == 0


def failing(kind: object, **more: object) -> Server[Any]:
    """Return a server whose tool fails, as an engine would write it."""

    async def list_tools(*_: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="fail", input_schema=READ)])

    async def call_tool(*_: Any) -> Any:
        content = [{"type": "text", "text": f"Error ({kind}): no luck"}]
        meta = {"tool-engine/error_type": kind, **more}
        return {"content": content, "isError": True, "resultType": "complete", "_meta": meta}

    return Server("x", on_list_tools=list_tools, on_call_tool=call_tool)


IMAGE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
NOTE = {"type": "resource", "resource": {"uri": "file:///log", "text": "disk full"}}
BLOB = {"type": "resource", "resource": {"uri": "file:///core", "blob": "AAAA"}}
NOTHING = "the server says only that the call failed"


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([], NOTHING),
        ([IMAGE, NOTE], "disk full"),
        ([{"type": "text", "text": "no luck"}, NOTE], "no luck\ndisk full"),
        ([IMAGE, IMAGE, BLOB], f"{NOTHING}, and why in no words (image, resource)"),
    ],
)
async def test_why_it_failed_in_parts_of_other_kinds(
    engine: ToolEngine, content: list[dict[str, Any]], words: str, revision: str
) -> None:
    """The text of a resource is read, and what cannot be read is named."""

    async def list_tools(*_: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="fail", input_schema=READ)])

    async def call_tool(*_: Any) -> Any:
        return {"content": content, "isError": True, "resultType": "complete"}

    server = Server("x", on_list_tools=list_tools, on_call_tool=call_tool)
    await engine.add_source(MCPSource("x", in_memory=server, revision=revision))
    assert (await engine.execute("fail", {})).error == words


async def test_what_the_server_refuses(engine: ToolEngine) -> None:
    """The type of the other engine stands beside ours, and no attempt is made in vain."""
    retry = {"idempotent": True, "retry": {"attempts": 5, "backoff": 60}, "timeout": 600}
    source = MCPSource("x", in_memory=failing("execution_rejected"), tools={"fail": retry})
    await engine.add_source(source)
    result = await engine.execute("fail", {}, ToolExecutionContext(max_retries=5))
    assert result.error_type == "execution_error"
    assert result.error == "the server 'x' ended the call as execution_rejected: no luck"
    assert result.metadata["error_details"] == {"server_error_type": "execution_rejected"}
    assert result.metadata["attempts"] == 1


@pytest.mark.parametrize(
    ("kind", "expected", "words"),
    [
        ("validation_error", "validation_error", "invalid arguments: no luck"),
        ("timeout", "timeout", "the server 'x' ended the call as timeout: no luck"),
        ("worker_lost", "worker_lost", "the server 'x' ended the call as worker_lost: no luck"),
        ("lease_lost", "worker_lost", "the server 'x' ended the call as lease_lost: no luck"),
        ("execution_error", "execution_error", "no luck"),
        ("queue_full", "execution_error", "the server 'x' ended the call as queue_full: no luck"),
        (3, "execution_error", "Error (3): no luck"),
        ("x" * 1_000, "execution_error", f"Error ({'x' * 1_000}): no luck"),
    ],
)
async def test_each_type(engine: ToolEngine, kind: object, expected: str, words: str) -> None:
    """What says how the call ended is ours too; no server can say what only this engine knows."""
    await engine.add_source(MCPSource("x", in_memory=failing(kind)))
    result = await engine.execute("fail", {}, ToolExecutionContext(timeout=LIMIT))
    assert (result.error_type, result.error) == (expected, words)


@pytest.mark.parametrize("wait", [2.5, float("inf"), True, "soon", None])
async def test_when_to_try_again(engine: ToolEngine, wait: object) -> None:
    """A number of seconds goes on to the caller, and nothing else that stands there."""
    more = {"tool-engine/retry_after": wait}
    await engine.add_source(MCPSource("x", in_memory=failing("rate_limited", **more)))
    result = await engine.execute("fail", {}, ToolExecutionContext(timeout=LIMIT))
    assert result.error_type == "execution_error"
    details = result.metadata["error_details"]
    assert details.get("retry_after") == (wait if wait == 2.5 else None)
