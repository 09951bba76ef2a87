"""What does a call cost that has to wait for its slot?

Callers that call again and again share ten slots, beside those who share an `asyncio.Semaphore`
with a timeout. `python -m tests.benchmarks.waiting` measures nothing else.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from tests.benchmarks import report
from tests.benchmarks.calls import TIMEOUT
from tests.benchmarks.measure import measure_often, median_of
from tests.benchmarks.rows import Batch, Row, add_suspending
from tool_engine import ConcurrencyConfig, ToolEngine, ToolEngineConfig

__all__ = ["waiting"]

BY_HAND = "semaphore and timeout"
ENGINE = "tool_engine"
SLOTS = 10
"""As many as an engine has by default."""
CROWDS = {"as many callers": 1, "2 times": 2, "20 times": 20}
RUNS = 5
ROUNDS = 5
SECONDS_PER_TURN = 0.04
"""Long enough that each of the callers calls several times."""
WAITING_BUDGET = 2.0
"""Times the semaphore's."""
THROUGHPUT_BUDGET = 1.25
"""Times the call that does not wait: 0.8 of the throughput is left."""
GROWTH_BUDGET = 1.25
"""Times the call among a tenth of the callers."""


async def waiting() -> bool:
    """Prints the table; whether every budget is kept."""
    semaphore = asyncio.Semaphore(SLOTS)

    async def call_by_hand() -> None:
        async with semaphore, asyncio.timeout(TIMEOUT):
            await add_suspending(1, 2)

    async with AsyncExitStack() as stack:
        limits = ConcurrencyConfig(max_concurrent=SLOTS, queue_size=SLOTS * max(CROWDS.values()))
        config = ToolEngineConfig(
            tools_directory=stack.enter_context(tempfile.TemporaryDirectory()), auto_reload=False
        )
        engine = await stack.enter_async_context(ToolEngine(config, concurrency=limits))
        engine.tool(name="add")(add_suspending)

        async def call_engine() -> None:
            result = await engine.execute("add", {"a": 1, "b": 2})
            if not result.is_success:
                raise AssertionError(f"the engine is wrong: {result}")

        rows = []
        for name, times in CROWDS.items():
            by_hand = _make_crowd(call_by_hand, times * SLOTS)
            rows.append(Row(f"{BY_HAND}, {name}", "order", by_hand))
            ours = _make_crowd(call_engine, times * SLOTS)
            rows.append(Row(f"{ENGINE}, {name}", "order, queue timeout, records", ours))
        runs = await measure_often(rows, ROUNDS, SECONDS_PER_TURN, runs=RUNS)
    figures = [*runs[-1].values()]
    report.calls(f"One call, {SLOTS} at a time, of callers", figures, figures[0], [])
    kept, (none, few, many) = True, CROWDS
    for name in (few, many):
        ratio = median_of(runs, f"{ENGINE}, {name}", f"{BY_HAND}, {name}")
        kept &= report.budget(f"{ENGINE} / {BY_HAND}, {name}", ratio, WAITING_BUDGET, "x")
    growth = median_of(runs, f"{ENGINE}, {many}", f"{ENGINE}, {few}")
    kept &= report.budget(f"{many} / {few} as many callers", growth, GROWTH_BUDGET, "x")
    slower = median_of(runs, f"{ENGINE}, {many}", f"{ENGINE}, {none}")
    return kept & report.budget(f"{many} / {none}", slower, THROUGHPUT_BUDGET, "x")


def _make_crowd(call: Callable[[], Awaitable[None]], callers: int) -> Batch:
    async def batch(n: int) -> None:
        async def caller(number: int) -> None:
            for _ in range(number, n, callers):
                await call()

        await asyncio.gather(*map(caller, range(callers)))

    return batch


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(waiting()) else 1)
