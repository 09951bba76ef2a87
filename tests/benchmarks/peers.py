"""What does the same call cost in the libraries that a user would pick instead?

Each peer is one function and one line of the table below. Peers come from the dependency group
`bench`; one that is not installed becomes a row that says so.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from importlib import import_module
from importlib.metadata import version
from typing import Any

from tests.benchmarks.rows import Batch, Row, add

__all__ = ["PEERS", "make_manager", "peer_rows"]

ARGUMENTS = {"a": 1, "b": 2}


async def make_manager(tool: Callable[..., Any]) -> tuple[Any, Any]:
    """pydantic-ai's ToolManager with one tool, as an agent's run has it, and its class of calls."""
    root = import_module("pydantic_ai")
    toolset = root.FunctionToolset()
    toolset.add_function(tool, takes_ctx=False)
    model = import_module("pydantic_ai.models.test").TestModel()
    usage = import_module("pydantic_ai.usage").RunUsage()
    context = root.RunContext(deps=None, model=model, usage=usage)
    manager = import_module("pydantic_ai.tool_manager").ToolManager(toolset)
    part = import_module("pydantic_ai.messages").ToolCallPart
    return await manager.for_run_step(context), part


async def pydantic_ai(_stack: AsyncExitStack) -> Batch:
    """ToolManager, as an agent's run uses it."""
    manager, part = await make_manager(add)

    async def batch(n: int) -> None:
        for _ in range(n):
            await manager.handle_call(part("add", {"a": 1, "b": 2}, tool_call_id="1"))

    _check(await manager.handle_call(part("add", ARGUMENTS, tool_call_id="1")), 3)
    return batch


async def langchain(_stack: AsyncExitStack) -> Batch:
    """A structured tool's `ainvoke`."""
    tool = import_module("langchain_core.tools").tool(add)

    async def batch(n: int) -> None:
        for _ in range(n):
            await tool.ainvoke({"a": 1, "b": 2})

    _check(await tool.ainvoke(ARGUMENTS), 3)
    return batch


async def fastmcp(_stack: AsyncExitStack) -> Batch:
    """The server's own `call_tool`, without a transport."""
    server = import_module("fastmcp").FastMCP("bench")
    server.tool(add)

    async def batch(n: int) -> None:
        for _ in range(n):
            await server.call_tool("add", {"a": 1, "b": 2})

    _check((await server.call_tool("add", ARGUMENTS)).structured_content, {"result": 3})
    return batch


async def mcp_server(_stack: AsyncExitStack) -> Batch:
    """The server's own `call_tool`, without a transport."""
    server = import_module("mcp.server").MCPServer("bench")
    server.tool()(add)

    async def batch(n: int) -> None:
        for _ in range(n):
            await server.call_tool("add", {"a": 1, "b": 2})

    _check((await server.call_tool("add", ARGUMENTS)).structured_content, {"result": 3})
    return batch


async def mcp_client(stack: AsyncExitStack) -> Batch:
    """A client in the same process: what a caller of an MCP server sees at best."""
    server = import_module("mcp.server").MCPServer("bench")
    server.tool()(add)
    client = await stack.enter_async_context(import_module("mcp").Client(server))

    async def batch(n: int) -> None:
        for _ in range(n):
            await client.call_tool("add", {"a": 1, "b": 2})

    _check((await client.call_tool("add", ARGUMENTS)).structured_content, {"result": 3})
    return batch


async def openai_agents(_stack: AsyncExitStack) -> Batch:
    """A function tool with a timeout, invoked as the runner does."""
    tool = import_module("agents").function_tool(add, timeout=30.0)
    invoke = import_module("agents.tool").invoke_function_tool
    context_class = import_module("agents.tool_context").ToolContext
    text = json.dumps(ARGUMENTS)

    async def one() -> object:
        context = context_class(
            context=None, tool_name="add", tool_call_id="1", tool_arguments=text
        )
        result: object = await invoke(function_tool=tool, context=context, arguments=text)
        return result

    async def batch(n: int) -> None:
        for _ in range(n):
            await one()

    _check(await one(), 3)
    return batch


async def toolregistry(_stack: AsyncExitStack) -> Batch:
    """The registry's `ainvoke`."""
    registry = import_module("toolregistry").ToolRegistry()
    registry.register(add)

    async def batch(n: int) -> None:
        for _ in range(n):
            await registry.ainvoke("add", {"a": 1, "b": 2})

    _check((await registry.ainvoke("add", ARGUMENTS)).result, "3")
    return batch


def _check(result: object, expected: object) -> None:
    if result != expected:
        raise AssertionError(f"a peer answered {result!r}, not {expected!r}")


Peer = tuple[str, str, Callable[[AsyncExitStack], Awaitable[Batch]], str]

PEERS: tuple[Peer, ...] = (
    ("pydantic-ai-slim", "ToolManager.handle_call", pydantic_ai, "look-up, validation"),
    ("mcp", "server.call_tool", mcp_server, "look-up, validation, result"),
    ("toolregistry", "ainvoke", toolregistry, "look-up, validation, result"),
    ("openai-agents", "function_tool(timeout)", openai_agents, "JSON, validation, deadline"),
    ("fastmcp", "server.call_tool", fastmcp, "look-up, validation, middleware, result"),
    ("langchain-core", "tool.ainvoke", langchain, "validation, callbacks, a thread's context"),
    ("mcp", "Client(server).call_tool", mcp_client, "the MCP protocol, in memory"),
)
"""Distribution, what is called, how it is set up, what the figure includes."""


async def peer_rows(stack: AsyncExitStack) -> tuple[list[Row], list[str]]:
    """The rows of the installed peers, and the names of the others."""
    rows: list[Row] = []
    missing: list[str] = []
    for distribution, what, set_up, includes in PEERS:
        try:
            name = f"{distribution} {version(distribution)} {what}"
            rows.append(Row(name, includes, await set_up(stack)))
        except ImportError:
            missing.append(f"{distribution} {what}")
    return rows, missing
