"""Does a record survive what its durability says? Engines are killed a hundred times each."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile

__all__ = ["prove"]

MODES = ("call", "batch", "buffered")
ROUNDS = 100


async def prove(seed: int) -> bool:
    """Kills engines in each mode; whether nothing was lost beyond its bound."""
    kept = True
    for mode in MODES:
        with tempfile.TemporaryDirectory() as folder:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.knowledge.sql.killed"),
                *(mode, str(ROUNDS), folder, str(seed)),
                stdout=asyncio.subprocess.PIPE,
            )
            output, _ = await process.communicate()
        found = json.loads(output) if process.returncode == 0 else {}
        is_well = found.get("lost") == 0 and found.get("states") == ["ok"]
        kept &= is_well and found.get("unacknowledged") == 0
        print(f"killed {ROUNDS} times with durability {mode!r}: {found or 'failed'}")
    return kept
