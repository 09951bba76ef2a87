"""What does each process on the way of a fleet's call take of a processor?

`python -m tests.benchmarks.fleet_costs` prints what `fleet_sizes` computes with. Needs Ray.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median

from tests.benchmarks.fleets import BATCH, BATCHES, ENGINE, Turn, open_callers, size_of
from tests.ray_nodes import read_command, tree_of

_ROUNDS = 9
_ALONE = "one by one"
_WAYS = {_ALONE: 1, BATCHES: BATCH}
"""With the calls of one message."""


def main() -> None:
    """Prints the costs."""
    asyncio.run(_print_costs())


async def _print_costs() -> None:
    async with open_callers() as (_, turns):
        costs = await _measure_turns(turns[ENGINE])
    for name, directions in {"engine": 2, "driver": 2, "worker": 1}.items():
        alone, many = (median(each[name] for each in costs[way]) / directions for way in _WAYS)
        call = max(0.0, (many * BATCH - alone) / (BATCH - 1))
        print(f"{name}: {(alone - call) * 1e6:.0f} us a message, {call * 1e6:.1f} us a call")


async def _measure_turns(turn: Turn) -> dict[str, list[dict[str, float]]]:
    """Return the seconds of a processor for each call, by the process and the way."""
    costs: dict[str, list[dict[str, float]]] = {way: [] for way in _WAYS}
    for way in _WAYS:
        await turn(way)
    for _ in range(_ROUNDS):
        # What they take without a call counts for none.
        idle, passed = await _measure_used(lambda: asyncio.sleep(1.0))
        for way in _WAYS:
            used, seconds = await _measure_used(lambda way=way: turn(way))  # type: ignore[misc]
            count, _ = size_of(way)
            each = {name: (used[name] - idle[name] * seconds / passed) / count for name in used}
            costs[way].append(each)
    return costs


async def _measure_used(
    work: Callable[[], Awaitable[object]],
) -> tuple[dict[str, float], float]:
    before, began = await asyncio.to_thread(_count_seconds), time.perf_counter()
    await work()
    after, ended = await asyncio.to_thread(_count_seconds), time.perf_counter()
    return {name: after[name] - before[name] for name in after}, ended - began


def _count_seconds() -> dict[str, float]:
    """Return the seconds that the processes of each kind have had, by the scheduler."""
    own = os.getpid()
    found = {"engine": _seconds_of(own), "driver": 0.0, "worker": 0.0}
    for pid in tree_of(own) - {own}:
        words = read_command(pid)
        if "serve_engine" in words:
            found["driver"] += _seconds_of(pid)
        elif "ray::FleetActor" in words or "python/guest.py" in words:
            found["worker"] += _seconds_of(pid)
    return found


def _seconds_of(pid: int) -> float:
    nanoseconds = 0
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            nanoseconds += int((task / "schedstat").read_text().split()[0])
    return nanoseconds / 1e9


if __name__ == "__main__":
    main()
