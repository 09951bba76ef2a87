"""What does a task cost, from its start to the end of the wait, beside a call that is waited for?

`python -m tests.benchmarks.tasks` measures nothing else.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from contextvars import Context
from importlib.util import find_spec
from pathlib import Path

from tests.benchmarks import report
from tests.benchmarks.calls import engine_for
from tests.benchmarks.measure import measure_often, median_of
from tests.benchmarks.rows import Batch, Row, add_suspending
from tool_engine import ConcurrencyConfig, ToolEngine, ToolEngineConfig, ToolExecutionResult
from tool_engine.server import create_app

__all__ = ["tasks"]

PLAIN = "engine.execute"
APART = "asyncio.create_task(engine.execute(...))"
FLOOR = "asyncio.create_task(engine.execute(...)), kept, its end waited for"
TASK = "engine.start, handle.wait"
BUDGET = 3.0
"""Times a call that is waited for, of a tool that suspends once.

The same call in an asyncio task of its own, in a dict and with a future for its end, costs 1.9.
"""
COMMITTED = "engine.execute, its record committed"
FILE_BUDGET = 1.3
"""Times a call whose record is committed before its result is there, in a file of the same kind.

A task that ends at once has one commit, as that call has, for ten pages instead of five.
"""
AT_ONCE_BUDGET = 1.6
"""The same for many callers, whose calls share commits, and whose tasks do."""
SIZE_BUDGET = 2.0
"""Kilobytes of a task that waits."""
UNUSED = "engine.execute, in an engine without tasks and a server"
USED = "engine.execute, in one that has both"
UNUSED_BUDGET = 1.03
"""Times what a call costs that uses neither: 1.00, and what two rows of the same differ by."""
_WAITING = 20_000
_AT_ONCE = 16


async def tasks(directory: str) -> bool:
    """Measures tasks; whether each budget is kept."""
    async with AsyncExitStack() as stack:
        engine = await engine_for(stack, add_suspending, directory)
        rows = _rows(engine)
        for row in rows:
            # The first task opens the room of tasks.
            await row.batch(1)
        runs = await measure_often(rows)
    figures = [*runs[-1].values()]
    report.calls("One task of add(a, b), which suspends once", figures, runs[-1][PLAIN], [])
    kept = report.budget(f"{TASK} / {PLAIN}", median_of(runs, TASK, PLAIN), BUDGET, "x")
    if find_spec("sqlalchemy") is not None and find_spec("aiosqlite") is not None:
        kept &= await _compare_in_file(1, "One task in a SQLite file", FILE_BUDGET)
        title = f"{_AT_ONCE} tasks in a SQLite file, of as many callers at once"
        kept &= await _compare_in_file(_AT_ONCE, title, AT_ONCE_BUDGET)
    kept &= await _compare_unused(directory)
    size = await _measure_size(directory)
    return kept & report.budget("a task that waits, in memory", size, SIZE_BUDGET, " KB")


def _rows(engine: ToolEngine) -> list[Row]:
    async def bare(n: int) -> None:
        for _ in range(n):
            await engine.execute("add", {"a": 1, "b": 2})

    async def apart(n: int) -> None:
        for _ in range(n):
            await asyncio.create_task(engine.execute("add", {"a": 1, "b": 2}))

    kept: dict[int, object] = {}

    async def run(end: asyncio.Future[ToolExecutionResult]) -> None:
        end.set_result(await engine.execute("add", {"a": 1, "b": 2}))

    async def least(n: int) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(n):
            end = loop.create_future()
            kept[len(kept)] = end, loop.create_task(run(end), context=Context())
            assert (await end).is_success

    async def started(n: int) -> None:
        for _ in range(n):
            handle = await engine.start("add", {"a": 1, "b": 2})
            assert (await handle.wait()).is_success

    return [
        Row(PLAIN, "look-up, validation, limit, queue, deadline, record, result", bare),
        Row(APART, "the same, in an asyncio task of its own", apart),
        Row(FLOOR, "the same, kept in a dict, and a future for its end", least),
        Row(
            TASK, "the same, and: an id, kept before it, owner, ttl, place in line, states", started
        ),
    ]


async def _compare_unused(directory: str) -> bool:
    """Measures calls beside tasks and a server that they do not use; whether the budget is kept."""
    async with AsyncExitStack() as stack:
        alone = await engine_for(stack, add_suspending, directory)
        engine = await engine_for(stack, add_suspending, directory)
        assert (await (await engine.start("add", {"a": 1, "b": 2})).wait()).is_success
        app = create_app(engine, studio=True) if find_spec("starlette") is not None else None

        def batch_of(engine: ToolEngine) -> Batch:
            async def batch(n: int) -> None:
                for _ in range(n):
                    await engine.execute("add", {"a": 1, "b": 2})

            return batch

        rows = [
            Row(UNUSED, "all of a call", batch_of(alone)),
            Row(USED, "the same", batch_of(engine)),
        ]
        runs = await measure_often(rows)
        assert app is None or app.studio is not None
    report.calls("One call beside tasks and a server", [*runs[-1].values()], runs[-1][UNUSED], [])
    return report.budget(f"{USED} / without", median_of(runs, USED, UNUSED), UNUSED_BUDGET, "x")


async def _compare_in_file(callers: int, title: str, budget: float) -> bool:
    """Measures calls and tasks of so many callers; whether the budget is kept.

    `durability="call"` is what promises that a record is committed when its call has ended; then a
    commit waits for the disk, those of tasks as well.
    """
    with tempfile.TemporaryDirectory() as folder:
        settings = ToolEngineConfig(
            tools_directory=folder,
            auto_reload=False,
            records=f"sqlite:///{folder}/tasks.db",
            durability="call",
        )
        limits = ConcurrencyConfig(max_concurrent=2 * _AT_ONCE)
        async with ToolEngine(settings, concurrency=limits) as engine:
            for number in range(callers):
                engine.tool(name=f"add_{number}")(add_suspending)
            rows = _rows_in_file(engine, callers)
            runs = await measure_often(rows, clock=time.perf_counter)
    report.calls(title, [*runs[-1].values()], runs[-1][COMMITTED], [])
    ratio = median_of(runs, TASK, COMMITTED)
    return report.budget(f"{TASK} / {COMMITTED}", ratio, budget, "x")


def _rows_in_file(engine: ToolEngine, callers: int) -> list[Row]:
    async def call(name: str) -> None:
        result = await engine.execute(name, {"a": 1, "b": 2})
        assert "record" not in result.metadata

    async def start(name: str) -> None:
        handle = await engine.start(name, {"a": 1, "b": 2})
        assert (await handle.wait()).is_success

    def batch_of(make: Callable[[str], Awaitable[None]]) -> Batch:
        async def repeat(name: str, n: int) -> None:
            for _ in range(n):
                await make(name)

        async def batch(n: int) -> None:
            async with asyncio.TaskGroup() as group:
                for number in range(callers):
                    group.create_task(repeat(f"add_{number}", n))

        return batch

    return [
        Row(COMMITTED, "all of a call, and the commit of its record", batch_of(call)),
        Row(TASK, "all of a task, and its commit: its end, with its record", batch_of(start)),
    ]


async def _measure_size(directory: str) -> float:
    """Kilobytes that each of many queued tasks takes."""

    async def wait() -> None:
        await asyncio.Event().wait()

    settings = ToolEngineConfig(tools_directory=directory, auto_reload=False, close_timeout=0.1)
    async with ToolEngine(settings) as engine:
        engine.tool(description="Waits")(wait)
        await engine.start("wait")
        gc.collect()
        before = _memory_used()
        for _ in range(_WAITING):
            await engine.start("wait")
        gc.collect()
        return (_memory_used() - before) / _WAITING / 1e3


def _memory_used() -> float:
    pages = Path("/proc/self/statm")
    return float(pages.read_text().split()[1]) * 4096 if pages.exists() else 0.0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(0 if asyncio.run(tasks(folder)) else 1)
