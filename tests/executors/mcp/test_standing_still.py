"""What do calls of a server over HTTP hold that stands still? Nothing, once they have ended."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.executors.mcp.conftest import LIMIT, serve_http, until
from tool_engine import MCPSource, ToolEngine, ToolExecutionContext
from tool_engine.executors.mcp import given_up

CALLS = 10


@pytest.fixture(params=["2026-07-28", "2025-11-25", "sse"])
def distant(request: pytest.FixtureRequest) -> Iterator[MCPSource]:
    """The program's tools over HTTP, by each of the ways in which it is spoken to."""
    if request.param == "sse":
        with serve_http(0, "sse") as url:
            yield MCPSource("odd", url=url, transport="sse")
    else:
        with serve_http() as url:
            yield MCPSource("odd", url=url, revision=request.param)


def count_held(engine: ToolEngine) -> int:
    """How many slots are held, also past their deadlines."""
    metrics = engine.controller.snapshot().metrics
    return metrics.active + metrics.zombies


def count_files() -> int:
    """How many files this process has open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no /proc here")
@pytest.mark.parametrize("patience", [0.1, 10 * LIMIT])
@pytest.mark.parametrize("has_begun", [False, True])
async def test_calls_of_a_server_that_stands_still(
    engine: ToolEngine,
    distant: MCPSource,
    monkeypatch: pytest.MonkeyPatch,
    has_begun: bool,
    patience: float,
) -> None:
    """No slot waits for it to hear that a call has ended, and no connection stays open for one."""
    # The SDK would let each slot go by itself after so long.
    monkeypatch.setattr("mcp.shared.jsonrpc_dispatcher._ABANDON_WRITE_TIMEOUT", 10 * LIMIT)
    monkeypatch.setattr(given_up, "PATIENCE", patience)
    await engine.add_source(distant)
    pid = int((await engine.execute("whoami", {})).output["content"][0]["text"])
    before = count_files()
    context = ToolExecutionContext(timeout=1.0)
    try:
        if not has_begun:
            os.kill(pid, signal.SIGSTOP)
        running = asyncio.gather(*(engine.execute("slow", {}, context) for _ in range(CALLS)))
        if has_begun:
            await engine.execute("echo", {})  # behind them on the way: the server has them
            os.kill(pid, signal.SIGSTOP)
        ended = await running
        assert {each.error_type for each in ended} == {"timeout"}, {each.error for each in ended}
        await until(lambda: count_held(engine) == 0)
        if patience < 1:
            await until(lambda: count_files() <= before + 1)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert (await engine.execute("echo", {"text": "on"})).is_success
    assert distant.connection.is_connected
