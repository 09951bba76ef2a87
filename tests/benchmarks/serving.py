"""What does a call of a client cost a server, beside the SDK's bare one?

Both run in processes of their own and say how much of the processor they have used. As a program:
one of the servers, `python -m tests.benchmarks.serving engine stdio 1`.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from statistics import median
from typing import Any

from tests.benchmarks import report

__all__ = ["make_bare", "serving"]

BARE = "mcp, low-level Server"
ENGINE = "tool-engine, MCPServer"
ROUNDS = 15
CALLS = 200
"""For each turn of a round."""
TOOLS = 10_000
STDIO_BUDGET = 1.10
HTTP_BUDGET = 1.15
LIST_BUDGET = 0.5
PAGE_BUDGET = 30.0
"""Milliseconds for the first page, which is made then."""
WARM_UP = 100
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
DESCRIPTION = "Does the thing number {} for people who want it done."


class Client:
    """One server, and what is asked of it."""

    def __init__(self, kind: str, way: str, tools: int) -> None:
        words = [sys.executable, "-m", "tests.benchmarks.serving", kind, way, str(tools)]
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._number = 0
        self._connection: http.client.HTTPConnection | None = None
        if way == "http":
            url = self._read_line().strip()
            self._connection = http.client.HTTPConnection(url.split("/")[2])

    def close(self) -> None:
        """Ends the server."""
        if self._connection is not None:
            self._connection.close()
        self._process.kill()
        self._process.communicate()

    def call(self) -> None:
        """Adds two numbers."""
        result = self._ask("tools/call", name="add", arguments={"a": 1, "b": 2})
        assert result["content"][0]["text"] == "3"

    def spent(self) -> float:
        """The seconds of processor time that the server has used so far."""
        result = self._ask("tools/call", name="spent", arguments={})
        return float(result["content"][0]["text"])

    def list_tools(self, most: int = TOOLS) -> None:
        """Reads the pages of the list, until there are no more or that many tools."""
        cursor: dict[str, Any] = {}
        count = 0
        while True:
            page = self._ask("tools/list", **cursor)
            count += len(page["tools"])
            if page.get("nextCursor") is None or count >= most:
                return
            cursor = {"cursor": page["nextCursor"]}

    def _ask(self, method: str, **params: Any) -> Any:
        self._number += 1
        body = {"jsonrpc": "2.0", "id": self._number, "method": method}
        text = json.dumps({**body, "params": {**params, "_meta": META}})
        if self._connection is None:
            assert self._process.stdin is not None
            self._process.stdin.write(text + "\n")
            self._process.stdin.flush()
            return json.loads(self._read_line())["result"]
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": method,
            "Mcp-Name": params["name"],
        }
        self._connection.request("POST", "/mcp", text, headers)
        return json.loads(self._connection.getresponse().read())["result"]

    def _read_line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


@contextmanager
def clients(way: str, tools: int) -> Iterator[dict[str, Client]]:
    found = {BARE: Client("bare", way, tools), ENGINE: Client("engine", way, tools)}
    try:
        yield found
    finally:
        for client in found.values():
            client.close()


def seconds_of(client: Client, work: Callable[[], object]) -> float:
    """The processor time of the server for some work."""
    before = client.spent()
    work()
    return client.spent() - before


def call_times(way: str) -> dict[str, float]:
    """The median of all rounds, for 1,000 calls."""
    times: dict[str, list[float]] = {BARE: [], ENGINE: []}
    with clients(way, 1) as found:

        def call_often(client: Client, most: int) -> None:
            for _ in range(most):
                client.call()

        for client in found.values():
            call_often(client, WARM_UP)
        for number in range(ROUNDS):
            for name in (BARE, ENGINE) if number % 2 else (ENGINE, BARE):
                client = found[name]
                spent = seconds_of(client, partial(call_often, client, CALLS))
                times[name].append(1_000 * spent / CALLS)
    return {name: median(each) for name, each in times.items()}


def list_times() -> tuple[dict[str, float], float]:
    """The median of some lists, and the first page of the engine's."""
    times: dict[str, list[float]] = {BARE: [], ENGINE: []}
    with clients("stdio", TOOLS) as found:
        engine = found[ENGINE]
        first = seconds_of(engine, lambda: engine.list_tools(1))
        for _ in range(5):
            for name, client in found.items():
                times[name].append(seconds_of(client, client.list_tools))
    return {name: median(each) for name, each in times.items()}, first


def serving() -> bool:
    """Prints the tables; whether each budget is kept."""
    kept = True
    for way, limit in (("stdio", STDIO_BUDGET), ("http", HTTP_BUDGET)):
        times = call_times(way)
        report.seconds(f"Processor time of a server for 1,000 calls over {way}", times, BARE)
        kept &= report.budget(f"{ENGINE} / {BARE}", times[ENGINE] / times[BARE], limit, "x")
    times, first = list_times()
    report.seconds(f"Processor time of a server for the list of {TOOLS:,} tools", times, BARE)
    kept &= report.budget(f"{ENGINE} / {BARE}", times[ENGINE] / times[BARE], LIST_BUDGET, "x")
    kept &= report.budget("the first page, when it is made", first * 1000, PAGE_BUDGET, " ms")
    return kept


# The servers.


def _describe_parameters() -> dict[str, Any]:
    number = {"type": "integer", "description": "A number."}
    return {"type": "object", "properties": {"a": number, "b": number}, "required": ["a", "b"]}


def make_bare(tools: int) -> Any:
    """The SDK's low-level server with so many tools."""
    import mcp_types as types
    from mcp.server.lowlevel.server import Server

    names = ["add", "spent", *(f"tool_{number}" for number in range(2, tools))]
    listed = [
        types.Tool(
            name=each, description=DESCRIPTION.format(each), input_schema=_describe_parameters()
        )
        for each in names
    ]

    async def list_tools(ctx: Any, params: Any) -> Any:
        return types.ListToolsResult(tools=listed)

    async def call_tool(ctx: Any, params: Any) -> Any:
        given = params.arguments
        text = str(time.process_time() if params.name == "spent" else given["a"] + given["b"])
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    return Server("bare", version="1", on_list_tools=list_tools, on_call_tool=call_tool)


async def serve_bare(way: str, tools: int) -> None:
    import uvicorn
    from mcp.server.stdio import stdio_server

    server = make_bare(tools)
    if way == "stdio":
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())
        return
    app = server.streamable_http_app(streamable_http_path="/mcp")
    config = uvicorn.Config(app, port=0, log_config=None, access_log=False, lifespan="on")
    program = uvicorn.Server(config)
    serving = asyncio.create_task(program.serve())
    while not program.started:  # noqa: ASYNC110 - it tells no one
        await asyncio.sleep(0.01)
    port = program.servers[0].sockets[0].getsockname()[1]
    print(f"http://127.0.0.1:{port}/mcp", flush=True)
    await serving


def add_up(a: int, b: int) -> int:
    return a + b


async def serve_engine(way: str, tools: int) -> None:
    from tool_engine import ToolEngine, ToolEngineConfig
    from tool_engine.mcp_server import MCPServer

    with tempfile.TemporaryDirectory() as folder:
        async with ToolEngine(ToolEngineConfig(tools_directory=folder)) as engine:
            for number in range(2, tools):
                name = f"tool_{number}"
                definition = {"name": name, "description": DESCRIPTION.format(name)}
                engine.register_tool({**definition, "parameters": _describe_parameters()}, add_up)

            @engine.tool(description=DESCRIPTION)
            async def add(a: int, b: int) -> int:
                return a + b

            @engine.tool(description=DESCRIPTION)
            async def spent() -> float:
                return time.process_time()

            server = MCPServer(engine)
            if way == "stdio":
                await server.run_stdio()
            else:
                await server.run_http(port=0, on_ready=lambda url: print(url, flush=True))


if __name__ == "__main__":
    serve = serve_bare if sys.argv[1] == "bare" else serve_engine
    asyncio.run(serve(sys.argv[2], int(sys.argv[3])))
