"""What does a call cost with the outputs that tools have, and with those that listen?

`python -m tests.benchmarks.outputs` measures nothing else.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from contextlib import AsyncExitStack
from itertools import count
from typing import Any

import msgspec

from tests.benchmarks import report
from tests.benchmarks.calls import BY_HAND, hand_rows
from tests.benchmarks.measure import Figures, measure_often, median_of
from tests.benchmarks.rows import Row
from tool_engine import ToolEngine, ToolEngineConfig, ToolEngineEvent

__all__ = ["make_table", "outputs"]

RUNS = 5
ROUNDS = 5
INTEGER, SMALL, MIDDLE, MOST, OVER, HUGE = (
    "one integer",
    "10 x 10",
    "15 KB",
    "64 KiB",
    "64 KiB + 1",
    "1 MB",
)
SIZES = {MIDDLE: 15_000, MOST: 65_536, OVER: 65_537, HUGE: 1_000_000}
"""Bytes that they take packed, as records count them."""
COLUMNS = 10
LISTENERS = (1, 10, 100)

HEARD_BUDGETS = {INTEGER: 2.0, MIDDLE: 1.5}
"""Times the call by hand; with 15 KB, the call that nothing listens to."""
CUT_BUDGET = 1.5
"""Times the call whose output a record just keeps whole."""
GROWTH_BUDGET = 1.25
"""Times what a straight line from the two before allows."""


def make_table(size: int) -> list[Any]:
    """A table of ten columns that takes exactly `size` bytes packed, as the output of a tool."""
    rows: list[Any] = []
    left = size - len(msgspec.msgpack.encode({"result": [""] * 20_000})) + 20_000
    for number in count():
        row = {f"column_{at}": _make_cell(number, at) for at in range(COLUMNS)}
        left -= len(msgspec.msgpack.encode(row))
        if left < 0:
            break
        rows.append(row)
    while True:
        for padding in range(2_000):
            table = [*rows, "x" * padding]
            if len(msgspec.msgpack.encode({"result": table})) == size:
                return table
        rows.pop()


def _make_cell(number: int, at: int) -> Any:
    return (number * at, f"value {number} {at}", number / 7)[at % 3]


def _make_outputs() -> dict[str, Any]:
    small = [{f"column_{at}": _make_cell(number, at) for at in range(10)} for number in range(10)]
    return {INTEGER: 3, SMALL: small} | {name: make_table(size) for name, size in SIZES.items()}


async def outputs() -> bool:
    """Prints the tables; whether every budget is kept."""
    kept = True
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        values = _make_outputs()
        for name, value in values.items():
            rows = [
                await _make_row(stack, folder, value, listeners, f"{listeners} subscribers")
                for listeners in (0, *LISTENERS)
            ]
            rows.append(_by_hand(value))
            runs = await measure_often(rows, ROUNDS, runs=RUNS)
            _print_run(f"One call that returns {name}", runs)
            if name in HEARD_BUDGETS:
                base = BY_HAND if name == INTEGER else "0 subscribers"
                ratio = median_of(runs, "1 subscribers", base)
                what = f"{name}, one subscriber / {base}"
                kept &= report.budget(what, ratio, HEARD_BUDGETS[name], "x")
            if name == INTEGER:
                few, many = (
                    median_of(runs, f"{count} subscribers", "0 subscribers") - 1
                    for count in LISTENERS[1:]
                )
                what = "100 subscribers / ten times 10 subscribers"
                kept &= report.budget(what, many / few / 10, GROWTH_BUDGET, "x")
        rows = [
            await _make_row(stack, folder, values[name], 0, name) for name in (MOST, OVER, HUGE)
        ]
        runs = await measure_often(rows, ROUNDS, runs=RUNS)
    ratio, growth = median_of(runs, OVER, MOST), median_of(runs, HUGE, OVER)
    kept &= report.budget(f"{OVER} / {MOST}", ratio, CUT_BUDGET, "x")
    allowed = SIZES[HUGE] / SIZES[OVER]
    return kept & report.budget(
        f"{HUGE} / {allowed:.1f} times {OVER}", growth / allowed, GROWTH_BUDGET, "x"
    )


def _by_hand(value: Any) -> Row:
    async def get(a: int, b: int) -> Any:
        return value

    return next(row for row in hand_rows(get) if row.name == BY_HAND)


async def _make_row(
    stack: AsyncExitStack, folder: str, value: Any, listeners: int, name: str
) -> Row:
    config = ToolEngineConfig(tools_directory=folder, auto_reload=False)
    engine = await stack.enter_async_context(ToolEngine(config))

    async def get(a: int, b: int) -> Any:
        """Gets the table."""
        return value

    engine.tool(get)
    for _ in range(listeners):
        engine.subscribe(_make_listener())

    async def batch(n: int) -> None:
        for _ in range(n):
            await engine.execute("get", {"a": 1, "b": 2})

    result = await engine.execute("get", {"a": 1, "b": 2})
    if result.output != {"result": value}:
        raise AssertionError(f"the engine is wrong: {result}")
    return Row(name, "record; events where they are heard", batch)


def _make_listener() -> Any:
    def listen(event: ToolEngineEvent) -> None:
        """A subscriber that costs nothing itself."""

    return listen


def _print_run(title: str, runs: list[dict[str, Figures]]) -> None:
    figures = [*runs[-1].values()]
    report.calls(title, figures, figures[0], [])


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(outputs()) else 1)
