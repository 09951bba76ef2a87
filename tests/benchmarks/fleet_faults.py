"""How soon does a call on a fleet end when its worker, its node or its engine is killed?

`python -m tests.benchmarks.fleet_faults` measures nothing else. Needs Ray: `make ray`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from tests.benchmarks import report
from tests.fleet.samples import (
    BOUND,
    HANDLERS,
    SPAWNING,
    Bench,
    fleet_engine,
    noted_in,
    worker_of,
)
from tests.ray_nodes import RayCluster, is_alive, start_cluster

__all__ = ["fleet_faults"]

BUDGETS = {
    "kill -9 of a handler's process, until its call has ended": 1.0,
    "kill -9 of the actor above it, the same": 1.0,
    "a node is removed, the same": 3.0,
    "kill -9 of the engine, until its work and what that has started are gone": 1.0,
}
"""Seconds, the longest of all rounds."""
_ROUNDS = 5
_SPARE = {"cpus": 0, "others": {"spare": 0.1}}


async def fleet_faults() -> bool:
    """Measures all of them; whether each budget is kept."""
    if find_spec("ray") is None:
        print("faults of a fleet: not measured, for Ray is not installed: make ray")
        return True
    kept = True
    async with _open_cluster() as (cluster, folder):
        times: list[list[float]] = [[], [], [], []]
        async with fleet_engine(folder, "block", "spawn") as bench:
            bench.add_tool("block", "far", resources=_SPARE)
            for _ in range(_ROUNDS):
                times[0].append(await _kill_worker(bench, "guest"))
                times[1].append(await _kill_worker(bench, "actor"))
                times[2].append(await _remove_node(bench, cluster))
        for _ in range(_ROUNDS):
            times[3].append(await _kill_engine(folder))
    for seconds, (what, limit) in zip(times, BUDGETS.items(), strict=True):
        words = f"{what} (half of them within {median(seconds):.2f} s)"
        kept &= report.budget(words, max(seconds), limit, " s")
    return kept


@contextlib.asynccontextmanager
async def _open_cluster() -> AsyncIterator[tuple[RayCluster, Path]]:
    """Three nodes, and the folder with the handlers."""
    cluster = await asyncio.to_thread(start_cluster, 3)
    folder = cluster.folder / "handlers"
    folder.mkdir()
    (folder / "handlers_of_fleets.py").write_text(HANDLERS)
    sys.path.insert(0, str(folder))
    os.environ["RAY_ADDRESS"] = cluster.address
    try:
        yield cluster, folder
    finally:
        del os.environ["RAY_ADDRESS"]
        sys.path.remove(str(folder))
        await asyncio.to_thread(cluster.close)


async def _begin_call(bench: Bench, name: str) -> tuple[asyncio.Task[float], int]:
    """Return a call that runs, whose value is when it has ended, and the process of its handler."""
    bench.file.unlink(missing_ok=True)

    async def call() -> float:
        result = await bench.call(name)
        ended = time.perf_counter()
        assert result.error_type == "worker_lost", result.error
        return ended

    task = asyncio.create_task(call())
    (pid,) = await bench.noted()
    return task, pid


async def _kill_worker(bench: Bench, part: str) -> float:
    call, pid = await _begin_call(bench, "block")
    actor = (await asyncio.to_thread(worker_of, pid))[1]
    began = time.perf_counter()
    os.kill({"guest": pid, "actor": actor}[part], signal.SIGKILL)
    return await call - began


async def _remove_node(bench: Bench, cluster: RayCluster) -> float:
    node = await asyncio.to_thread(cluster.find_spare_node)
    call, _ = await _begin_call(bench, "far")
    began = time.perf_counter()
    await asyncio.to_thread(cluster.remove_node, node)
    return await call - began


async def _kill_engine(folder: Path) -> float:
    file = folder / "noted"
    file.unlink(missing_ok=True)
    engine = await asyncio.create_subprocess_exec(sys.executable, "-c", SPAWNING, str(folder))
    noted = await noted_in(file, 2)
    began = time.perf_counter()
    engine.kill()
    async with asyncio.timeout(BOUND):
        while any(is_alive(pid) for pid in noted):  # noqa: ASYNC110 - the end of one rings no bell
            await asyncio.sleep(0.01)
    seconds = time.perf_counter() - began
    await engine.wait()
    return seconds


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(fleet_faults()) else 1)
