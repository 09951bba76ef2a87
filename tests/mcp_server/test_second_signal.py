"""What does a second signal end, and how, where a tool takes no cancelling?"""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.mcp_server.test_hostile import headers_of, request_of
from tests.warm import SDK
from tests.warm_async import start
from tool_engine import ToolEngine, ToolEngineConfig

LIMIT = 60.0
CODE = """
import asyncio, sys

async def hold():
    print("begun", file=sys.stderr, flush=True)
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            print("goes on", file=sys.stderr, flush=True)
"""
TOOL = """
name: hold
description: Holds.
timeout: 60
parameters: []
entry: {type: python, handler: "holding_on:hold"}
"""


@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_a_second_signal_ends_a_server(way: str, tmp_path: Path) -> None:
    """Its call has a record, and nothing of the program's inside is written."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "hold.yaml").write_text(TOOL)
    (tmp_path / "holding_on.py").write_text(CODE)
    records = f"sqlite:///{tmp_path}/calls.db"
    common = ("--tools", str(tmp_path / "tools"), "--records", records)
    at = ("--http", "127.0.0.1:0") if way == "http" else ()
    server = await start("-m", "tool_engine.cli", *common, "mcp", "serve", *at, imports=SDK)
    body = request_of("tools/call", name="hold", arguments={})
    writers = [server.stdin]
    async with asyncio.timeout(LIMIT):
        if way == "stdio":
            server.stdin.write(json.dumps(body).encode() + b"\n")
        else:
            writers.append(await post((await server.stderr.readline()).decode().split()[-1], body))
        assert await server.stderr.readline() == b"begun\n"
        server.send_signal(signal.SIGTERM)
        if way == "stdio":
            assert await server.stderr.readline() == b"goes on\n"
        server.send_signal(signal.SIGINT)
        said = (await server.stderr.read()).decode()
        code = await server.wait()
    for each in writers:
        each.close()
    assert code in (128 + signal.SIGTERM, 128 + signal.SIGINT)
    (line,) = {*said.splitlines()} - {"goes on"}
    assert "a function of a tool has gone on after its call had ended" in line
    async with ToolEngine(ToolEngineConfig(records=records, run_tasks=False)) as engine:
        (record,) = await engine.query_call_records()
    # The end of the one client's connection has cancelled its call; over HTTP it had time to end.
    assert record.error_type == ("cancelled" if way == "stdio" else "engine_closed")


async def post(url: str, body: dict[str, Any]) -> asyncio.StreamWriter:
    """Sends a request that is answered only when the server ends."""
    place = url.split("/")[2]
    host, port = place.split(":")
    data = json.dumps(body)
    lines = {"Host": place, "Content-Length": str(len(data)), **headers_of(body)}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"POST /mcp HTTP/1.1\r\n{head}\r\n{data}".encode())
    return writer
