"""How soon is a server of MCP called again that was killed in a call?

Counted is from when it is back, over stdio from the kill: the engine itself starts its program. An
HTTP server is down for a moment, called meanwhile, or down for so long that tries to reach it fail.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from tests.benchmarks import report
from tests.listening import wait_until_it_listens
from tool_engine import MCPSource, ToolEngine, ToolEngineConfig, ToolExecutionContext

__all__ = ["returning"]

PROGRAM = str(Path(__file__).parents[1] / "executors" / "mcp" / "hostile_program.py")
KILLS = 100
BUDGET = 1.0
"""Seconds for the next call once it is back."""
DOWN = 1.5
PATIENT = ToolExecutionContext(timeout=60)
SERVER = """
import asyncio, sys
import uvicorn
from mcp.server import Server
from mcp_types import CallToolResult, ListToolsResult, Tool

async def list_tools(*_):
    named = [Tool(name=each, input_schema={"type": "object"}) for each in ("nap", "quick")]
    return ListToolsResult(tools=named)

async def call_tool(_, params):
    if params.name == "nap":
        print("napping", flush=True)
        await asyncio.sleep(600)
    return CallToolResult(content=[])

app = Server("web", on_list_tools=list_tools, on_call_tool=call_tool).streamable_http_app()
uvicorn.run(app, port=int(sys.argv[1]), log_config=None)
"""


async def returning(directory: str) -> bool:
    """Prints the table; whether the budget is kept by each way."""
    async with ToolEngine(ToolEngineConfig(directory)) as engine:
        times = {"stdio": await _kill_programs(engine), "http": await _kill_servers(engine)}
    figures = {
        f"{way}, {what}": find(each)
        for way, each in times.items()
        for what, find in (("median", median), ("longest", max))
    }
    report.seconds(f"The next call after each of {KILLS} kills", figures)
    kept = [report.budget(way, max(each), BUDGET, " s") for way, each in times.items()]
    return all(kept)


async def _kill_programs(engine: ToolEngine) -> list[float]:
    await engine.add_source(MCPSource("program", command=[sys.executable, PROGRAM, "calls"]))
    times = []
    for _ in range(KILLS):
        _check_lost(await engine.execute("die", {}, PATIENT))
        times.append(await _call(engine, "plain"))
    return times


async def _kill_servers(engine: ToolEngine) -> list[float]:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    server = await _start_server(port)
    await engine.add_source(MCPSource("web", url=f"http://127.0.0.1:{port}/mcp"))
    times = []
    for number in range(KILLS):
        call = asyncio.create_task(engine.execute("nap", {}, PATIENT))
        await server.stdout.readline()
        server.kill()
        _check_lost(await call)
        await server.wait()
        if number % 3 == 1:
            assert not (await engine.execute("quick", {}, PATIENT)).is_success
        elif number % 3 == 2:
            await asyncio.sleep(DOWN)
        server = await _start_server(port)
        times.append(await _call(engine, "quick"))
    server.kill()
    await server.wait()
    return times


async def _start_server(port: int) -> Any:
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVER, str(port), stdout=subprocess.PIPE
    )
    await wait_until_it_listens(server, port)
    return server


async def _call(engine: ToolEngine, name: str) -> float:
    started = time.monotonic()
    result = await engine.execute(name, {}, PATIENT)
    assert result.is_success, result.error
    return time.monotonic() - started


def _check_lost(result: Any) -> None:
    assert result.error_type == "worker_lost", result
