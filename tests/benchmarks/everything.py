"""What does a call cost with all that users turn on, beside peers with nothing on?

A session, a subscriber, and records in a SQLite file. `python -m tests.benchmarks.everything`
measures nothing else.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from tests.benchmarks import report
from tests.benchmarks.measure import measure_often, median_of
from tests.benchmarks.outputs import INTEGER, MIDDLE, SIZES, make_table
from tests.benchmarks.peers import make_manager
from tests.benchmarks.rows import Batch, Row
from tool_engine import ToolEngine, ToolEngineConfig, ToolEngineEvent, ToolSession

__all__ = ["everything"]

RUNS = 5
ROUNDS = 9
BEFORE = 1_000
"""Calls after which a conversation is full: each one more drops what an older one left."""
EVERYTHING = "session, subscriber, SQLite"
MANAGER = "pydantic-ai ToolManager.handle_call"
SERVER = "FastMCP server.call_tool"
BUDGETS = {MANAGER: 1.5, SERVER: 0.3}
"""Times a call of the peer, whatever the call returns.

The manager hands the object on, and so costs the same with any output: to keep one in a record
alone takes as long as its whole call with 15 KB. The server writes it twice."""
Get = Callable[[int, int], Awaitable[Any]]


async def everything() -> bool:
    """Prints the tables; whether every budget is kept."""
    if find_spec("sqlalchemy") is None or find_spec("aiosqlite") is None:
        print("(everything on: SQLAlchemy and aiosqlite are not installed)")
        return True
    kept = True
    for name, value in {INTEGER: 3, MIDDLE: make_table(SIZES[MIDDLE])}.items():
        async with AsyncExitStack() as stack:
            rows = await _make_rows(stack, value)
            runs = await measure_often(rows, ROUNDS, runs=RUNS)
        figures = [*runs[-1].values()]
        report.calls(f"Everything on, a call that returns {name}", figures, figures[0], [])
        for row in rows[1:]:
            ratio = median_of(runs, EVERYTHING, row.name)
            what = f"{name}: {EVERYTHING} / {row.name}"
            kept &= report.budget(what, ratio, BUDGETS[row.name], "x")
    return kept


async def _make_rows(stack: AsyncExitStack, value: Any) -> list[Row]:
    async def get(a: int, b: int) -> Any:
        """Gets the value."""
        return value

    batch = await _turn_all_on(stack, get)
    await batch(BEFORE)
    includes = "all that a call of the engine has, text, variables, rules, events"
    rows = [Row(EVERYTHING, includes, batch)]
    if find_spec("pydantic_ai") is not None:
        rows.append(Row(MANAGER, "look-up, validation", await _make_manager(get)))
    if find_spec("fastmcp") is not None:
        rows.append(Row(SERVER, "look-up, validation, middleware, result", await _make_server(get)))
    return rows


async def _turn_all_on(stack: AsyncExitStack, get: Get) -> Batch:
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    config = ToolEngineConfig(
        tools_directory=folder, auto_reload=False, records=f"sqlite:///{folder}/calls.db"
    )
    engine = await stack.enter_async_context(ToolEngine(config))
    engine.tool(get)
    engine.subscribe(_listen)
    session = ToolSession(engine, "bench")

    async def batch(n: int) -> None:
        for _ in range(n):
            await session.execute("get", {"a": 1, "b": 2})

    return batch


def _listen(event: ToolEngineEvent) -> None:
    """A subscriber that costs nothing itself."""


async def _make_manager(get: Get) -> Batch:
    manager, part = await make_manager(get)

    async def batch(n: int) -> None:
        for _ in range(n):
            await manager.handle_call(part("get", {"a": 1, "b": 2}, tool_call_id="1"))

    return batch


async def _make_server(get: Get) -> Batch:
    server = import_module("fastmcp").FastMCP("bench")
    server.tool(get)

    async def batch(n: int) -> None:
        for _ in range(n):
            await server.call_tool("get", {"a": 1, "b": 2})

    return batch


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(everything()) else 1)
