"""What does a task cost, from its start to the end of the wait, beside a call that is waited for?

`python -m tests.benchmarks.tasks` measures nothing else.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from tests.benchmarks import report
from tests.benchmarks.calls import engine_for
from tests.benchmarks.measure import measure
from tests.benchmarks.rows import Row, add_suspending
from tool_engine import ToolEngine, ToolEngineConfig

__all__ = ["tasks"]

PLAIN = "engine.execute"
APART = "asyncio.create_task(engine.execute(...))"
TASK = "engine.start, handle.wait"
BUDGET = 8.0
"""Times a call that is waited for, of a tool that suspends once."""
FILE_BUDGET = 2.0
"""Milliseconds in a SQLite file: kept, begun and ended, each of them committed."""
SIZE_BUDGET = 2.0
"""Kilobytes of a task that waits."""
_WAITING = 20_000
_IN_FILE = 200
_TURNS = 5
_TRIES = 3


async def tasks(directory: str) -> bool:
    """Measures tasks; whether each budget is kept."""
    for attempt in range(_TRIES):
        async with AsyncExitStack() as stack:
            engine = await engine_for(stack, add_suspending, directory)
            figures = {each.row.name: each for each in await measure(_rows(engine))}
        if figures[TASK].ratio(figures[PLAIN]) <= BUDGET or attempt == _TRIES - 1:
            break
    plain = figures[PLAIN]
    report.calls("One task of add(a, b), which suspends once", [*figures.values()], plain, [])
    kept = report.budget(f"{TASK} / {PLAIN}", figures[TASK].ratio(plain), BUDGET, "x")
    if find_spec("sqlalchemy") is not None and find_spec("aiosqlite") is not None:
        milliseconds = await _time_in_file()
        kept &= report.budget("a task in a SQLite file", milliseconds, FILE_BUDGET, " ms")
    size = await _measure_size(directory)
    return kept & report.budget("a task that waits, in memory", size, SIZE_BUDGET, " KB")


def _rows(engine: ToolEngine) -> list[Row]:
    async def bare(n: int) -> None:
        for _ in range(n):
            await engine.execute("add", {"a": 1, "b": 2})

    async def apart(n: int) -> None:
        for _ in range(n):
            await asyncio.create_task(engine.execute("add", {"a": 1, "b": 2}))

    async def started(n: int) -> None:
        for _ in range(n):
            handle = await engine.start("add", {"a": 1, "b": 2})
            await handle.wait()

    return [
        Row(PLAIN, "look-up, validation, limit, queue, deadline, record, result", bare),
        Row(APART, "the same, in an asyncio task of its own", apart),
        Row(
            TASK, "the same, and: an id, kept before it, owner, ttl, place in line, states", started
        ),
    ]


async def _time_in_file() -> float:
    """Milliseconds from the start of a task in a file to the end of the wait, one at a time."""
    with tempfile.TemporaryDirectory() as folder:
        settings = ToolEngineConfig(
            tools_directory=folder, auto_reload=False, records=f"sqlite:///{folder}/tasks.db"
        )
        found = []
        async with ToolEngine(settings) as engine:
            engine.tool(description="Adds")(add_suspending)
            for _ in range(_TURNS):
                began = time.perf_counter()
                for number in range(_IN_FILE):
                    handle = await engine.start("add_suspending", {"a": number, "b": 2})
                    await handle.wait()
                found.append((time.perf_counter() - began) / _IN_FILE * 1e3)
    return median(found)


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
