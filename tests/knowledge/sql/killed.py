"""Kills engines at random moments, and looks at what their databases kept.

`python -m tests.knowledge.sql.killed MODE ROUNDS FOLDER [SEED]` prints what it found as JSON. The
modules are loaded once; each round is a fork of this process, so that a round takes milliseconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import struct
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from tool_engine import ToolEngine, ToolEngineConfig

BOUNDS = {"buffered": 0.5, "batch": 0.02, "call": 0.0}
"""Seconds: the documented bound of each mode."""
GRACE = 0.5
"""Seconds for the write itself on a machine that does other things too."""
CALLERS = 8
ACKNOWLEDGED = struct.Struct("qd")
LOADED = ("storage", "writing.sqlite", "reader", "queries")


async def call_until_killed(mode: str, database: Path, first: int, pipe: int) -> None:
    """Makes calls, and writes the number and the time of each that was acknowledged."""
    config = ToolEngineConfig(
        tools_directory=str(database.parent / "tools"),
        auto_reload=False,
        records=f"sqlite:///{database}",
        durability=mode,
    )
    engine = ToolEngine(config)

    @engine.tool(description="Notes a number")
    async def note(number: int) -> int:
        return number

    await engine.load()

    async def call(number: int) -> None:
        while True:
            result = await engine.execute("note", {"number": number})
            if not result.is_success or "record" in result.metadata:
                os.write(pipe, ACKNOWLEDGED.pack(-1, time.monotonic()))
                return
            os.write(pipe, ACKNOWLEDGED.pack(number, time.monotonic()))
            number += CALLERS
            await asyncio.sleep(0.001)

    async with asyncio.TaskGroup() as group:
        for each in range(CALLERS):
            group.create_task(call(first + each))


def run_once(mode: str, database: Path, first: int, life: float) -> dict[str, Any]:
    """One engine's life, from its first acknowledged call on, and what is left of it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            asyncio.run(call_until_killed(mode, database, first, writing))
        finally:
            os._exit(1)
    os.close(writing)
    data = os.read(reading, ACKNOWLEDGED.size)
    time.sleep(life)
    os.kill(child, signal.SIGKILL)
    killed_at = time.monotonic()
    while more := os.read(reading, 65_536):
        data += more
    os.close(reading)
    os.waitpid(child, 0)
    whole = len(data) - len(data) % ACKNOWLEDGED.size
    acknowledged = list(ACKNOWLEDGED.iter_unpack(data[:whole]))
    return judged(mode, database, acknowledged, killed_at)


def judged(
    mode: str, database: Path, acknowledged: list[tuple[int, float]], killed_at: float
) -> dict[str, Any]:
    connection = sqlite3.connect(database, timeout=10)
    try:
        (state,) = connection.execute("PRAGMA integrity_check").fetchone()
        found = connection.execute("SELECT json_extract(params, '$.number') FROM tool_calls")
        kept = {number for (number,) in found}
    finally:
        connection.close()
    bound = BOUNDS[mode] + (GRACE if mode != "call" else 0.0)
    is_due = [number for number, at in acknowledged if killed_at - at >= bound]
    return {
        "acknowledged": len(acknowledged),
        "due": len(is_due),
        "lost": len(set(is_due) - kept),
        "unacknowledged": sum(number < 0 for number, _ in acknowledged),
        "state": state,
    }


def main(mode: str, rounds: int, folder: Path, seed: int) -> None:
    """Runs all rounds in one database, so that each opens what the one before left."""
    for name in LOADED:
        import_module(f"tool_engine.knowledge.sql.{name}")
    import_module("sqlalchemy.dialects.sqlite.aiosqlite")
    (folder / "tools").mkdir(exist_ok=True)
    chance = random.Random(seed)  # noqa: S311 - no secret
    longest = BOUNDS[mode] + (GRACE + 0.3 if mode != "call" else 0.15)
    total: dict[str, Any] = {"rounds": rounds, "states": []}
    for number in range(rounds):
        first = (number + 1) * 10_000_000
        found = run_once(mode, folder / "calls.db", first, chance.uniform(0.0, longest))
        total["states"] = sorted({*total["states"], found.pop("state")})
        for name, count in found.items():
            total[name] = total.get(name, 0) + count
    print(json.dumps(total))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), int((sys.argv[4:] or ["0"])[0]))
