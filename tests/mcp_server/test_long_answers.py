"""Does a long answer arrive whole, and do others not wait for it?"""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from mcp import Client

from tests.mcp_server.conftest import ERAS, text_of
from tests.mcp_server.test_hostile import headers_of, request_of
from tests.mcp_server.test_transports import serving
from tests.mcp_servers.programs import parameters
from tool_engine import ToolEngine, ToolExecutionContext
from tool_engine.mcp_server import MCPServer, long_answers

ROWS = [{"id": number, "name": f"row é {number}"} for number in range(5_000)]
TEXT = 'é"\n\\' * 50_000
PROGRAM = """
import asyncio, sys
from tests.mcp_server.test_long_answers import add_tools
from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.mcp_server import MCPServer

async def serve():
    async with ToolEngine(ToolEngineConfig(tools_directory=sys.argv[1])) as engine:
        await add_tools(engine).run_stdio()

asyncio.run(serve())
"""


def add_tools(engine: ToolEngine) -> MCPServer:
    tools = {"rows": lambda: ROWS, "text": lambda: TEXT, "declared": lambda: ROWS}
    for name, run in tools.items():
        more = {"output": {"type": "array"}} if name == "declared" else {}
        definition = {"name": name, "description": "Gives much.", "parameters": [], **more}
        engine.register_tool(definition, run)
    server = MCPServer(engine)
    server.add_resource("docs://text", lambda: TEXT)
    return server


async def check_answers(client: Any, *, is_modern: bool) -> None:
    assert text_of(await client.call_tool("text", {})) == TEXT
    assert json.loads(text_of(await client.call_tool("rows", {}))) == ROWS
    declared = await client.call_tool("declared", {})
    assert declared.structured_content == (ROWS if is_modern else {"result": ROWS})
    assert json.loads(text_of(declared)) == ROWS
    (content,) = (await client.read_resource("docs://text")).contents
    assert content.text == TEXT


@pytest.mark.parametrize("era", ERAS)
async def test_a_long_answer_arrives_whole_over_http(engine: ToolEngine, era: str) -> None:
    async with serving(engine, add_tools(engine)) as url, Client(url, mode=era) as client:
        await check_answers(client, is_modern=era != "legacy")


@pytest.mark.parametrize("era", ERAS)
def test_a_long_answer_arrives_whole_over_stdio(tmp_path: Path, era: str) -> None:
    command = parameters("-c", PROGRAM, str(tmp_path))

    async def use() -> None:
        async with asyncio.timeout(60), Client(command, mode=era) as client:
            await check_answers(client, is_modern=era != "legacy")

    asyncio.run(use())


async def test_a_long_answer_follows_progress(engine: ToolEngine, era: str) -> None:
    """Also as the last event of a stream, which has no length."""

    @engine.tool
    async def fetch(context: ToolExecutionContext) -> str:
        """Fetch a long text."""
        await context.report_progress(1, 2)
        await asyncio.sleep(0.3)
        return TEXT

    heard = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    async with serving(engine) as url, Client(url, mode=era) as client:
        result = await client.call_tool("fetch", {}, progress_callback=note)
    assert heard[0] == (1.0, 2.0, None)
    assert text_of(result) == TEXT


async def test_a_long_answer_in_this_process(engine: ToolEngine, era: str) -> None:
    async with Client(add_tools(engine)._server, mode=era) as client:
        await check_answers(client, is_modern=era != "legacy")


async def test_a_long_answer_is_written_in_a_thread(
    engine: ToolEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the SDK checks and writes on the loop is as short as for any answer."""
    threads, bodies = [], []
    write, fill = long_answers._write_value, long_answers.LongValues.fill

    def note_thread(value: Any) -> list[bytes]:
        threads.append(threading.current_thread())
        return write(value)

    def note_body(self: Any, body: bytes) -> list[bytes]:
        bodies.append(body)
        return fill(self, body)

    monkeypatch.setattr(long_answers, "_write_value", note_thread)
    monkeypatch.setattr(long_answers.LongValues, "fill", note_body)
    body = request_of("tools/call", name="declared", arguments={})
    async with (
        serving(engine, add_tools(engine)) as url,
        aiohttp.ClientSession() as session,
        session.post(url, json=body, headers=headers_of(body)) as response,
    ):
        data = await response.read()
        assert int(response.headers["Content-Length"]) == len(data) > 300_000
    assert threading.main_thread() not in threads
    assert len(threads) == 2
    assert max(map(len, bodies)) < 1_000
