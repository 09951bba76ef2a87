"""What hears a tool, a prompt or a resource whose client gives it up?"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.stdio import stdio_client

from tests.mcp_server.conftest import Connect
from tests.mcp_server.test_transports import serving
from tool_engine import ToolEngine
from tool_engine.mcp_server import MCPServer

DEADLINE = 200.0
LOOPS = 50
"""Turns of the event loop in which the SDK cancels a request that is given up."""
PROGRAM = '''
import asyncio, sys
from pathlib import Path
from tool_engine import ToolEngine
from tool_engine.mcp_server import MCPServer


async def serve(began: Path, log: Path) -> None:
    async with ToolEngine() as engine:
        @engine.tool
        async def work() -> str:
            """Work, and tidy up."""
            began.write_text("began")
            try:
                await asyncio.Event().wait()
            finally:
                for _ in range(50):
                    await asyncio.sleep(0)
                log.write_text("tidy")

        await MCPServer(engine).run_stdio()


asyncio.run(serve(*map(Path, sys.argv[1:])))
'''


class Tidying:
    """Work that is tidied up with an `await` when it is cancelled."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.tidied = asyncio.Event()
        self.heard = 0

    async def work(self) -> str:
        """Work until it is given up."""
        self.began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.heard += 1
            for _ in range(LOOPS):
                await self._take_turn()
            self.tidied.set()
            raise
        return ""

    async def _take_turn(self) -> None:
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.heard += 1


ASKED: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "tool": lambda client: client.call_tool("work", {}),
    "prompt": lambda client: client.get_prompt("work"),
    "resource": lambda client: client.read_resource("docs://work"),
}


def offer(engine: ToolEngine, tidying: Tidying) -> MCPServer:
    """Return a server of the work, as a tool, a prompt and a resource."""
    engine.tool(tidying.work)
    server = MCPServer(engine)
    server.add_prompt("work", tidying.work)
    server.add_resource("docs://work", tidying.work)
    return server


async def give_up(client: Any, asked: str, tidying: Tidying) -> None:
    """Ask for the work, and give it up when it has begun."""
    asking = asyncio.ensure_future(ASKED[asked](client))
    await tidying.began.wait()
    asking.cancel()
    await tidying.tidied.wait()


@pytest.mark.parametrize("asked", ASKED)
async def test_it_is_cancelled_once(engine: ToolEngine, connect: Connect, asked: str) -> None:
    """What it does to tidy up is not cancelled anew at each turn of the loop."""
    tidying = Tidying()
    async with asyncio.timeout(DEADLINE), connect(offer(engine, tidying)) as client:
        await give_up(client, asked, tidying)
    assert tidying.heard == 1


@pytest.mark.parametrize("asked", ASKED)
async def test_it_is_cancelled_once_over_http(engine: ToolEngine, era: str, asked: str) -> None:
    """As in one process."""
    tidying = Tidying()
    server = offer(engine, tidying)
    async with (
        asyncio.timeout(DEADLINE),
        serving(engine, server=server) as url,
        Client(url, mode=era) as client,
    ):
        await give_up(client, asked, tidying)
    assert tidying.heard == 1


async def test_it_ends_tidily_when_its_client_leaves(tmp_path: Any, era: str) -> None:
    """A client that is a program ends: what its call has begun is tidied up."""
    (tmp_path / "program.py").write_text(PROGRAM)
    log, pipe = tmp_path / "log", tmp_path / "pipe"
    os.mkfifo(pipe)
    words = [str(tmp_path / "program.py"), str(pipe), str(log)]
    transport = stdio_client(StdioServerParameters(command=sys.executable, args=words))
    async with asyncio.timeout(DEADLINE):
        async with Client(transport, mode=era) as client:
            asking = asyncio.ensure_future(client.call_tool("work", {}))
            assert await asyncio.to_thread(pipe.read_text) == "began"
        with pytest.raises((Exception, asyncio.CancelledError)):
            await asking
    assert log.read_text() == "tidy"
