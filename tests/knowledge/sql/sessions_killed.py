"""Kills processes that save a conversation, and looks at what is left of it.

`python -m tests.knowledge.sql.sessions_killed URL ROUNDS [SEED]` prints what it found as JSON. The
modules are loaded once; each round is a fork of this process, so that a round takes milliseconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import struct
import sys
import time
from importlib import import_module
from typing import Any

from tool_engine.knowledge.sql.storage import SQLRecordStorage

ACKNOWLEDGED = struct.Struct("q")
LOADED = ("writing.sqlite", "writing.postgres", "reader", "queries", "summing", "retention")


def state(turn: int) -> dict[str, Any]:
    """A conversation that takes some pages, and in which every part says its turn."""
    return {
        "turn": turn,
        "parts": [f"{turn}-{part}-{turn * 7919 % 104729}" for part in range(9_000)],
    }


async def save_until_killed(url: str, first: int, pipe: int) -> None:
    """Saves turn after turn, and writes the number of each that was acknowledged."""
    storage = SQLRecordStorage(url)
    turn = first
    while True:
        await storage.sessions.save("chat", state(turn))
        os.write(pipe, ACKNOWLEDGED.pack(turn))
        turn += 1


async def kept(url: str) -> dict[str, Any] | None:
    """What another process finds."""
    storage = SQLRecordStorage(url)
    try:
        return await storage.sessions.load("chat")
    finally:
        await storage.close()


def run_once(url: str, first: int, life: float) -> bool:
    """One process's life, from its first acknowledged save on; whether what is left is right."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            asyncio.run(save_until_killed(url, first, writing))
        finally:
            os._exit(1)
    os.close(writing)
    data = os.read(reading, ACKNOWLEDGED.size)
    time.sleep(life)
    os.kill(child, signal.SIGKILL)
    while more := os.read(reading, 65_536):
        data += more
    os.close(reading)
    os.waitpid(child, 0)
    acknowledged = max(turn for (turn,) in ACKNOWLEDGED.iter_unpack(data))
    found = asyncio.run(kept(url))
    # The one under way may have been committed, and not acknowledged any more.
    return found in (state(acknowledged), state(acknowledged + 1))


def main(url: str, rounds: int, seed: int) -> None:
    """Runs all rounds on one database, so that each finds what the one before left."""
    for name in LOADED:
        import_module(f"tool_engine.knowledge.sql.{name}")
    import_module("sqlalchemy.dialects.sqlite.aiosqlite")
    import_module("sqlalchemy.dialects.postgresql.asyncpg")
    chance = random.Random(seed)  # noqa: S311 - no secret
    right = [
        run_once(url, (number + 1) * 1_000_000, chance.uniform(0.0, 0.05))
        for number in range(rounds)
    ]
    print(json.dumps(right))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int((sys.argv[3:] or ["0"])[0]))
