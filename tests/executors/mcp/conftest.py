"""An engine, and servers of other people's tools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.warm import SDK
from tool_engine import ConcurrencyConfig, ToolEngine, ToolEngineConfig
from tool_engine.executors.mcp import mcp_source
from tool_engine.executors.mcp.mcp_source import MCPSource

PROGRAM = str(Path(__file__).with_name("server_program.py"))
COMMAND = (*warm.python(*SDK), PROGRAM)
LIMIT = 200.0
"""Seconds that no test takes, however busy the machine is."""
Serve = Callable[..., AbstractContextManager[str]]


async def until(condition: Callable[[], Any], limit: float = LIMIT) -> None:
    """Wait, for a bounded time, for what comes from another process."""
    async with asyncio.timeout(limit):
        while not condition():  # noqa: ASYNC110 - it happens in another process
            await asyncio.sleep(0.01)


def count_running(engine: ToolEngine) -> int:
    """How many calls hold a slot."""
    return engine.controller.snapshot().metrics.active


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may take long to start; where a test asks for less, less holds."""
    usual = partial(mcp_source.make_settings, connect_timeout=LIMIT)
    monkeypatch.setattr(mcp_source, "make_settings", usual)


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[ToolEngine]:
    (tmp_path / "tools").mkdir()
    config = ToolEngineConfig(tools_directory=str(tmp_path / "tools"))
    slow = ConcurrencyConfig(default_timeout=LIMIT)
    async with ToolEngine(config, concurrency=slow) as engine:
        yield engine


@contextmanager
def serve_http(port: int = 0, *how: str) -> Iterator[str]:
    """Run the program over HTTP and return its address."""
    with warm.Program([PROGRAM, str(port), *how], imports=SDK) as process:
        assert process.stdout is not None
        yield process.stdout.readline().decode().strip()


@pytest.fixture(params=["stdio", "http"])
def source(request: pytest.FixtureRequest) -> Iterator[MCPSource]:
    """The program's tools, over each of the ways to reach them."""
    if request.param == "stdio":
        yield MCPSource("odd", command=COMMAND)
    else:
        with serve_http() as url:
            yield MCPSource("odd", url=url)
