"""An engine, its server and clients of the SDK, of both eras."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tool_engine import ToolEngine, ToolEngineConfig, ToolExecutionContext
from tool_engine.mcp_server import MCPServer

ERAS = ("2026-07-28", "legacy")
Connect = Callable[..., AbstractAsyncContextManager[Any]]


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[ToolEngine]:
    (tmp_path / "tools").mkdir()
    async with ToolEngine(ToolEngineConfig(tools_directory=str(tmp_path / "tools"))) as engine:

        @engine.tool(effect="read")
        async def add(a: int, b: int) -> int:
            """Add two numbers.

            Args:
                a: The first.
                b: The second.
            """
            return a + b

        @engine.tool
        async def count(context: ToolExecutionContext, most: int) -> str:
            """Count, and report each number.

            Args:
                most: Where to end.
            """
            for number in range(most):
                await context.report_progress(number, most, f"number {number}")
                await asyncio.sleep(0.12)
            return "counted"

        @engine.tool
        async def fail() -> str:
            """Fail."""
            raise RuntimeError("the disk is full")

        yield engine


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    """The revision that a client speaks."""
    param: str = request.param
    return param


@pytest.fixture
def connect(era: str) -> Connect:
    """Connects a client of the SDK to a server in this process."""

    @asynccontextmanager
    async def connect(server: MCPServer, **options: Any) -> AsyncIterator[Any]:
        mode = "legacy" if era == "legacy" else era
        async with Client(server._server, mode=mode, **options) as client:
            yield client

    return connect


def text_of(result: Any) -> str:
    """The texts of a result, one after the other."""
    return "".join(each.text for each in result.content if each.type == "text")
