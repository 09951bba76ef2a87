"""How is the cost of a call measured so that two rows can be compared?

The rows take turns within one run: a machine that slows down slows down all of them. The ratio of
two rows is the median of the rounds' ratios, not the ratio of two medians. What is measured is the
time that this process has a processor, in all its threads: other programs of the machine take none
of that. The garbage collector stays on, as it is for users.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tests.benchmarks.rows import Row

__all__ = ["RUNS", "Figures", "measure", "measure_often", "median_of"]

RUNS = 3
"""How often a table is measured: a budget is judged by the median of these runs."""
ROUNDS = 31
SECONDS_PER_TURN = 0.004


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured of one row."""

    row: Row
    per_round: tuple[float, ...]
    """Seconds per call, one for each round."""

    @property
    def median(self) -> float:
        """Microseconds per call."""
        return median(self.per_round) * 1e6

    @property
    def least(self) -> float:
        """Microseconds per call in the fastest round."""
        return min(self.per_round) * 1e6

    def ratio(self, base: Figures) -> float:
        """How many times the base's cost; below 1 is cheaper."""
        return median(mine / its for mine, its in zip(self.per_round, base.per_round, strict=True))


def median_of(runs: Sequence[Mapping[str, Figures]], row: str, base: str) -> float:
    """The ratio of two rows, by their names, in the median of several runs."""
    return median(run[row].ratio(run[base]) for run in runs)


async def measure_often(
    rows: Sequence[Row],
    rounds: int = ROUNDS,
    seconds: float = SECONDS_PER_TURN,
    *,
    runs: int = RUNS,
    clock: Callable[[], float] = time.process_time,
) -> list[dict[str, Figures]]:
    """Measures the rows in several runs; returns the figures of each by the rows' names."""
    found = [await measure(rows, rounds, seconds, clock) for _ in range(runs)]
    return [{figures.row.name: figures for figures in run} for run in found]


async def measure(
    rows: Sequence[Row],
    rounds: int = ROUNDS,
    seconds: float = SECONDS_PER_TURN,
    clock: Callable[[], float] = time.process_time,
) -> list[Figures]:
    """Measures the rows in turns of about `seconds`, each round beginning with another one.

    Rows that wait for others, such as a disk, need another clock: `time.perf_counter`.
    """
    sizes = [await _calls_per_turn(row, seconds, clock) for row in rows]
    costs: list[list[float]] = [[] for _ in rows]
    for round_number in range(rounds):
        for position in range(len(rows)):
            index = (round_number + position) % len(rows)
            costs[index].append(await _turn(rows[index], sizes[index], clock))
    return [Figures(row, tuple(cost)) for row, cost in zip(rows, costs, strict=True)]


async def _turn(row: Row, calls: int, clock: Callable[[], float]) -> float:
    started = clock()
    await row.batch(calls)
    return (clock() - started) / calls


async def _calls_per_turn(row: Row, seconds: float, clock: Callable[[], float]) -> int:
    calls = 1
    while True:
        cost = await _turn(row, calls, clock)
        if cost * calls > seconds / 4:
            return max(1, round(seconds / cost))
        calls *= 4
