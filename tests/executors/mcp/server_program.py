"""A server of the SDK with odd tools, as a program: over standard input and output, or HTTP.

`python server_program.py` speaks over standard input and output; with a port, or 0 for a free one,
it serves over HTTP and prints its address first; with `sse` behind it, as before 2025.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server import Server
from mcp.server.sse import SseServerTransport
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Mount, Route

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOLS = ("echo", "fail", "slow", "steps", "die", "grow", "whoami", "both", "given_up")
extra: list[str] = []
given_up: list[str] = []
bus = InMemorySubscriptionBus()


def _text(text: str, **fields: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], **fields)


async def _sleep_long(text: str) -> None:
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        given_up.append(text)
        raise


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


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:  # noqa: C901 - one case a tool
    text = str((params.arguments or {}).get("text", ""))
    match params.name:
        case "fail" if text == "as_data":
            why = {"why": "disk full"}
            return types.CallToolResult(content=[], structured_content=why, is_error=True)
        case "fail":
            return _text(f"no {text}", is_error=True)
        case "slow":
            await _sleep_long(text)
        case "given_up":
            return _text(" ".join(given_up))
        case "steps":
            for step in range(int(text or 3)):
                await ctx.session.report_progress(step + 1, 3, f"step {step + 1}")
                await asyncio.sleep(0.2)
        case "die":
            if trace := os.environ.get("TRACE"):
                with Path(trace).open("a") as file:  # noqa: ASYNC230 - its last act
                    file.write("died\n")
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


async def speak_lines() -> None:
    async with stdio_server() as (reads, writes):
        server = make_server()
        await server.run(reads, writes, server.create_initialization_options())


def make_old_app() -> Starlette:
    takes = SseServerTransport("/messages/")

    async def speak(request: Any) -> Response:
        server, sent = make_server(), request._send
        async with takes.connect_sse(request.scope, request.receive, sent) as (reads, writes):
            await server.run(reads, writes, server.create_initialization_options())
        return Response()

    messages = Mount("/messages/", app=takes.handle_post_message)
    return Starlette(routes=[Route("/mcp", speak), messages])


async def serve_http(port: int, is_old: bool) -> None:
    app = make_old_app() if is_old else make_server().streamable_http_app(host="127.0.0.1")
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error")
    serving = uvicorn.Server(config)
    task = asyncio.create_task(serving.serve())
    while not serving.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    (listener,) = serving.servers[0].sockets
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    await task


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(serve_http(int(sys.argv[1]), sys.argv[2:] == ["sse"]))
    else:
        asyncio.run(speak_lines())
