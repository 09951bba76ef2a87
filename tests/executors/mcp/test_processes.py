"""A server's program belongs to one process, and ends whatever state it is in."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.executors.mcp.conftest import COMMAND, LIMIT, serve_http, until
from tests.executors.mcp.test_hostile_servers import PROGRAM, is_alive
from tool_engine import MCPSource, ToolEngine, ToolExecutionContext

pytestmark = pytest.mark.timeout(60)


FORKING = """
import asyncio, os, sys
from tool_engine import MCPSource, ToolEngine

async def main():
    async with ToolEngine() as engine:
        await engine.add_source(MCPSource("odd", {way}))
        before = await engine.execute("whoami", {{}})
        child = os.fork()
        if child == 0:
            try:
                await engine.execute("whoami", {{}})
            except Exception as error:
                print("child:", error, flush=True)
            # The end of the loop cancels all of its tasks, those of connections too.
            raise SystemExit
        while not os.waitpid(child, os.WNOHANG)[0]:
            await asyncio.sleep(0.01)
        for _ in range(2):
            after = await engine.execute("whoami", {{}})
            print("same:", before.output == after.output, after.error, flush=True)
        # Not by its close: the child has taken some of the loop, which both have, with it.
        os._exit(0)

asyncio.run(main())
"""


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_forked_process_leaves_the_server_alone(transport: str, tmp_path: Path) -> None:
    """A call there says what to do, and its end ends nothing of its parent."""
    with serve_http() as url:
        reached = f"url={url!r}" if transport == "http" else f"command={COMMAND!r}"
        words = [sys.executable, "-c", FORKING.format(way=reached)]
        ended = await asyncio.to_thread(
            subprocess.run, words, capture_output=True, text=True, timeout=LIMIT, cwd=tmp_path
        )
    assert ended.stdout.count("same: True None") == 2, ended
    assert "child: " in ended.stdout


async def test_a_stopped_program_ends_with_its_engine(engine: ToolEngine) -> None:
    """Its list stays, a reload does not wait for it, and nothing of it is left."""
    await engine.add_source(MCPSource("evil", command=[sys.executable, PROGRAM, "calls"]))
    source = MCPSource("odd", command=COMMAND)
    await engine.add_source(source)
    pid = int((await engine.execute("whoami", {})).output["content"][0]["text"].split()[0])
    os.kill(pid, signal.SIGSTOP)
    late = await engine.execute("echo", {}, ToolExecutionContext(timeout=0.2))
    assert late.error_type == "timeout"
    source.connection.refresh()
    async with asyncio.timeout(LIMIT):
        await engine.reload()
        assert engine.get("echo") is not None
        assert (await engine.execute("plain", {})).is_success
        await engine.close()
    await until(lambda: not is_alive(pid))
