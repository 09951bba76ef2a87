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
from tests.benchmarks.measure import measure, median_ratio
from tests.benchmarks.rows import Batch, Row, add_suspending
from tool_engine import ConcurrencyConfig, ToolEngine, ToolEngineConfig

__all__ = ["waiting"]

SLOTS = 10
"""As many as an engine has by default."""
CROWDS = {"as many callers": 1, "2 times": 2, "20 times": 20}
RUNS = 5
ROUNDS = 5
SECONDS_PER_TURN = 0.04
"""Long enough that each of the callers calls several times."""
WAITING_BUDGET = 3.2
"""Times the semaphore's; the goal is 2."""
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
            rows.append(Row(f"semaphore and timeout, {name}", "order", by_hand))
            ours = _make_crowd(call_engine, times * SLOTS)
            rows.append(Row(f"tool_engine, {name}", "order, queue timeout, records", ours))
        runs = [await measure(rows, ROUNDS, SECONDS_PER_TURN) for _ in range(RUNS)]
    report.calls(f"One call, {SLOTS} at a time, of callers", runs[-1], runs[-1][0], [])
    kept = True
    for at, name in enumerate(CROWDS):
        ratio = median_ratio(runs, 2 * at + 1, 2 * at)
        if at:
            kept &= report.budget(f"tool_engine / semaphore, {name}", ratio, WAITING_BUDGET, "x")
    growth = median_ratio(runs, 5, 3)
    return kept & report.budget("20 times / 2 times as many callers", growth, GROWTH_BUDGET, "x")


def _make_crowd(call: Callable[[], Awaitable[None]], callers: int) -> Batch:
    async def batch(n: int) -> None:
        async def caller(number: int) -> None:
            for _ in range(number, n, callers):
                await call()

        await asyncio.gather(*map(caller, range(callers)))

    return batch


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(waiting()) else 1)
