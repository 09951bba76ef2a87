"""A server of the SDK with odd tools, as a program: over standard input and output, or HTTP.

`python server_program.py` speaks over standard input and output; `python server_program.py http`
prints its address first.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import mcp_types as types
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOLS = ("echo", "fail", "slow", "steps", "die", "grow", "whoami", "both")
extra: list[str] = []
bus = InMemorySubscriptionBus()


def _text(text: str, **fields: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], **fields)


async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
    tools = [
        types.Tool(
            name=name,
            description=f"Do {name}",
            input_schema=SCHEMA,
            annotations=types.ToolAnnotations(read_only_hint=name == "whoami"),
        )
        for name in (*TOOLS, *extra)
    ]
    return types.ListToolsResult(tools=tools)


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    text = str((params.arguments or {}).get("text", ""))
    match params.name:
        case "fail":
            return _text(f"no {text}", is_error=True)
        case "slow":
            await asyncio.sleep(30)
        case "steps":
            for step in range(int(text or 3)):
                await ctx.session.report_progress(step + 1, 3, f"step {step + 1}")
                await asyncio.sleep(0.2)
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "grow":
            extra.append(text)
            await ctx.session.send_tool_list_changed()
            await bus.publish(ToolsListChanged())
        case "whoami":
            return _text(f"{os.getpid()} {os.environ.get('WHO', '')}")
        case "both":
            return _text("1", structured_content={"number": 1})
    return _text(text)


def make_server() -> Server[Any]:
    return Server(
        "odd",
        version="1.0",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_subscriptions_listen=ListenHandler(bus),
    )


async def main() -> None:
    async with stdio_server() as (reads, writes):
        server = make_server()
        await server.run(reads, writes, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
