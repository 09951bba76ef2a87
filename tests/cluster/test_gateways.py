"""Do two gateways to servers of MCP keep a limit of their cluster, also as one is killed?"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tests.cluster.crew import BOUND
from tests.cluster.provider import Provider
from tests.mcp_server.conftest import text_of
from tests.mcp_servers.programs import program
from tests.server.process import START_LIMIT
from tests.warm import ROOT
from tests.warm_async import start

CALLS = 24
PROGRAM = Path(__file__).with_name("asking_server.py")
SETTINGS = """
[concurrency]
max_concurrent = 50
queue_timeout = 600
[concurrency.cluster]
url = "${env:CLUSTER}"
revision = 1
bucket_limits = {ai = 2}
session_grace = 1.0
lease_ttl = 60.0
"""
LOADS = ("tool_engine.cli.mcp.mcp_command", "tool_engine.mcp_server.server", "uvicorn")

pytestmark = pytest.mark.timeout(6 * BOUND + 4 * START_LIMIT)


async def open_gateway(stack: AsyncExitStack, folder: Path, url: str, provider: Provider) -> Any:
    """One `mcp serve` of its own process, with a server of its own behind it, and its address."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PROVIDER": str(provider.port), "CLUSTER": url}
    gateway = await start(
        *("-m", "tool_engine.cli", "--records", url, "--mcp-config", ".mcp.json"),
        *("mcp", "serve", "--http", "127.0.0.1:0"),
        cwd=folder,
        env=env,
        imports=LOADS,
    )
    gateway.stdin.close()
    stack.push_async_callback(gateway.end)
    said = ""
    async with asyncio.timeout(2 * START_LIMIT):
        # On a busy machine it says before that it waits for the server to start.
        while not said.startswith("serving"):
            line = await gateway.stderr.readline()
            assert line, said
            said = line.decode()
    assert said.startswith("serving 1 tool at "), said
    return gateway, said.split()[-1]


async def test_calls_of_two_gateways(url: str, provider: Provider, tmp_path: Path) -> None:
    """Each has the server's tool; the limit is one for both, and a killed one gives its share back.

    Clients of the other notice nothing but a shorter line.
    """
    (tmp_path / "tools").mkdir()
    (tmp_path / "tool-engine.toml").write_text(SETTINGS)
    entry = {**program(str(PROGRAM)), "env": {"PROVIDER": "${PROVIDER}", "PYTHONPATH": str(ROOT)}}
    entry["tool-engine"] = {"bucket": "ai", "effect": "read", "connect_timeout": START_LIMIT}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"asking": entry}}))
    async with AsyncExitStack() as stack:
        gateways = [await open_gateway(stack, tmp_path, url, provider) for _ in range(2)]
        (doomed, _), (_, other) = gateways

        async def call(number: int) -> str:
            era = ("2026-07-28", "legacy")[number // 2 % 2]
            async with Client(gateways[number % 2][1], mode=era) as client:
                return text_of(await client.call_tool("ask", {"words": f"call{number}"}))

        calls = [asyncio.create_task(call(number)) for number in range(CALLS)]
        await provider.until(CALLS // 3, 6 * BOUND)
        doomed.kill()
        async with asyncio.timeout(6 * BOUND):
            ended = await asyncio.gather(*calls, return_exceptions=True)
        for number, each in enumerate(ended):
            if number % 2:
                assert each == f"call{number}", each
        assert provider.most <= 2
        assert max(Counter(provider.started).values()) <= 1
        async with Client(other) as client:
            assert text_of(await client.call_tool("ask", {"words": "after"})) == "after"
