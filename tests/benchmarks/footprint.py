"""What do loaded tools cost a process? Run by `loading.footprint`, in a process of its own."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from tool_engine import ToolEngine, ToolEngineConfig

COLLECTIONS = 20


def resident() -> int:
    """Bytes of memory that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def collection() -> float:
    """Seconds of work for a full collection: the best of a few."""
    times = []
    for _ in range(COLLECTIONS):
        started = time.process_time()
        gc.collect()
        times.append(time.process_time() - started)
    return min(times)


async def loaded(directory: str) -> ToolEngine:
    """An engine with the tools of `directory`."""
    config = ToolEngineConfig(tools_directory=directory, auto_reload=False, cache_directory=None)
    engine = ToolEngine(config)
    await engine.load()
    return engine


def copy_one(directory: str, single: str) -> None:
    """Copies one definition."""
    first = min(Path(directory).iterdir())
    (Path(single) / first.name).write_bytes(first.read_bytes())


async def main(directory: str) -> dict[str, float]:
    """The cost of the tools beyond what an engine with a single one has."""
    with tempfile.TemporaryDirectory() as single:
        copy_one(directory, single)
        await (await loaded(single)).close()
    memory, pause = resident(), collection()
    engine = await loaded(directory)
    # What people do with all tools at once belongs to the cost.
    count = len(engine.list_all())
    engine.search("nothing has these words")
    gc.collect()
    measured = {
        "kilobytes": (resident() - memory) / 1024 / count,
        "milliseconds": (collection() - pause) * 1000,
    }
    await engine.close()
    return measured


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1]))))
