"""A server of MCP that says what it was sent beside the arguments."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server


def make_server() -> Server[Any]:
    """One tool, `meta`: the `_meta` of its call, and of each list that was asked for before."""
    listed: list[dict[str, Any]] = []

    async def list_tools(ctx: Any, params: Any) -> Any:
        listed.append(dict(ctx.meta or {}))
        tool = types.Tool(name="meta", input_schema={"type": "object", "properties": {}})
        return types.ListToolsResult(tools=[tool])

    async def call_tool(ctx: Any, params: Any) -> Any:
        said = json.dumps([dict(ctx.meta or {}), *listed])
        return types.CallToolResult(content=[types.TextContent(type="text", text=said)])

    return Server("meta", on_list_tools=list_tools, on_call_tool=call_tool)


async def main() -> None:
    server = make_server()
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
