"""Kills engines that run tasks, and says what became of the tasks.

`python -m tests.background.killed_tasks ROUNDS FOLDER [SEED]` prints what it found as JSON. Each
round is a fork of this process: it starts tasks, runs what is there, and is killed at some moment.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

from tool_engine import ConcurrencyConfig, ToolEngine, ToolEngineConfig

LEASE = 0.4
STARTED = 3
"""Tasks that each round starts."""


def open_engine(folder: Path, ran: int) -> ToolEngine:
    """An engine whose tool notes each of its runs, in a way that outlives the process."""
    config = ToolEngineConfig(
        tools_directory=str(folder / "tools"),
        auto_reload=False,
        records=f"sqlite:///{folder / 'kept.db'}",
    )
    engine = ToolEngine(config, concurrency=ConcurrencyConfig(max_concurrent=2))

    @engine.tool(description="Notes a number")
    async def note(number: int) -> int:
        os.write(ran, f"{number}\n".encode())
        await asyncio.sleep(0.02)
        return number

    engine.tasks.feeding.lease = LEASE  # type: ignore[attr-defined]
    return engine


async def work_until_killed(folder: Path, first: int, started: int, ran: int) -> None:
    """Starts tasks, says which are kept, and runs until the end."""
    engine = open_engine(folder, ran)
    await engine.load()
    for number in range(first, first + STARTED):
        handle = await engine.start("note", {"number": number})
        os.write(started, f"{handle.id} {number}\n".encode())
    await asyncio.sleep(3600)


def wait_for_more(started: int) -> None:
    """Waits until a task is kept, however busy the machine is."""
    before, until = os.fstat(started).st_size, time.monotonic() + 20
    while os.fstat(started).st_size == before and time.monotonic() < until:
        time.sleep(0.002)


async def finish(folder: Path, ids: list[str], ran: int) -> dict[str, int]:
    """Runs what is left, and counts how all tasks ended."""
    engine = open_engine(folder, ran)
    await engine.load()
    engine.tasks.open()
    ends: Counter[str] = Counter()
    for task_id in ids:
        handle = await engine.tasks.get(task_id)
        result = await handle.wait(60)
        ends[result.error_type or "succeeded"] += 1
    kept = await engine.tasks.list(limit=1_000_000)
    ends["open"] = sum(not state.is_final for state in kept)
    await engine.close()
    return dict(ends)


def main(rounds: int, folder: Path, seed: int) -> dict[str, Any]:
    for name in ("storage", "writing.sqlite", "reader", "queries", "task_statements"):
        import_module(f"tool_engine.knowledge.sql.{name}")
    luck = random.Random(seed)  # noqa: S311 - a moment
    flags = os.O_CREAT | os.O_APPEND | os.O_RDWR
    started = os.open(folder / "started", flags)
    ran = os.open(folder / "ran", flags)
    for each in range(rounds):
        child = os.fork()
        if child == 0:
            asyncio.run(work_until_killed(folder, each * STARTED, started, ran))
            os._exit(0)
        if each % 3:
            wait_for_more(started)
        time.sleep(luck.uniform(0.0, 0.15))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    lines = [line.split() for line in (folder / "started").read_text().splitlines()]
    ends = asyncio.run(finish(folder, [task_id for task_id, _ in lines], ran))
    runs = Counter((folder / "ran").read_text().split())
    return {
        "started": len(lines),
        "ends": ends,
        "never_ran": sum(number not in runs for _, number in lines),
        "twice": sum(count > 1 for count in runs.values()),
    }


if __name__ == "__main__":
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    print(json.dumps(main(int(sys.argv[1]), Path(sys.argv[2]), seed)))
