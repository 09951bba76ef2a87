"""What does a server begin between the signal that ends it and its end?"""

from __future__ import annotations

import asyncio
import signal
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from tests.mcp_server.test_hostile import request_of
from tests.mcp_server.test_second_signal import post
from tests.warm import SDK
from tests.warm_async import start
from tool_engine import ToolEngine, ToolEngineConfig

LIMIT = 120.0
TOOLS = {
    "hold": """
name: hold
description: Waits.
timeout: 60
parameters: []
entry: {type: python, handler: "holding_on:hold"}
""",
    "late": """
name: late
description: Says it again.
parameters:
  - {name: message, type: string, default: "", description: What to say}
entry: {type: builtin, handler: echo}
""",
}
CODE = """
import asyncio, sys

async def hold():
    print("begun", file=sys.stderr, flush=True)
    await asyncio.sleep(60)
"""
SERVERS = {
    "serve": ("serve", "--no-auth", "--mcp", "--port", "0", "--grace", "4"),
    "mcp": ("mcp", "serve", "--http", "127.0.0.1:0"),
}


def ask(url: str) -> None:
    with suppress(urllib.error.HTTPError):
        urllib.request.urlopen(url).close()  # noqa: S310 - our own server


@pytest.mark.parametrize("name", SERVERS)
async def test_no_task_begins_after_a_signal(name: str, tmp_path: Path) -> None:
    """Its end might cut it off in the middle: it waits for the next server."""
    for folder, names in (("all", TOOLS), ("late", ["late"])):
        (tmp_path / folder).mkdir()
        for each in names:
            (tmp_path / folder / f"{each}.yaml").write_text(TOOLS[each])
    (tmp_path / "holding_on.py").write_text(CODE)
    records = f"sqlite:///{tmp_path}/calls.db"
    common = ("--tools", str(tmp_path / "all"), "--records", records)
    server = await start("-m", "tool_engine.cli", *common, *SERVERS[name], imports=SDK)
    server.stdin.close()
    late = str(tmp_path / "late")
    config = ToolEngineConfig(tools_directory=late, records=records, run_tasks=False)
    async with asyncio.timeout(LIMIT), ToolEngine(config) as engine:
        await engine.load()
        url = (await server.stderr.readline()).decode().split()[-1]
        # A request that is open, for which the server waits a while.
        writer = await post(url, request_of("tools/call", name="hold", arguments={}))
        while await server.stderr.readline() != b"begun\n":
            pass
        server.send_signal(signal.SIGTERM)
        # Once it answers it has heard of the signal.
        await asyncio.to_thread(ask, url)
        handle = await engine.start("late")
        await server.stderr.read()
        await server.wait()
        writer.close()
        assert (await handle.refresh()).status == "queued"
