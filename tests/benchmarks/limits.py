"""Are limits that find themselves, and forecasts of limits, as good as promised?

`python -m tests.benchmarks.limits` measures nothing else. The first run on virtual time; the
second make real calls on the loopback address.
"""

from __future__ import annotations

import asyncio
import sys
from statistics import median

from tests.admission.load.service import SCENARIOS, longest_wait, run_scenario
from tests.benchmarks import report
from tests.benchmarks.measure import RUNS
from tests.testing import real_runs

__all__ = ["limits"]

KINDS = ("aimd", "gradient2")
BEST_BUDGET = round(1 / 0.9, 3)
"""Times the throughput of a limit that finds itself: 0.9 of the best one's is left."""
CALLS = 200
FORETOLD_BUDGET = 0.05
"""How far off a forecast may be, as a share of what came."""


async def limits() -> bool:
    """Prints the tables; whether every budget is kept."""
    kept = await asyncio.to_thread(compare_with_best)
    return kept & await compare_with_real()


def compare_with_best() -> bool:
    """Compares limits that find themselves with the best one that stays."""
    kept = True
    for scenario in SCENARIOS:
        stays = run_scenario(scenario, limit=scenario.best)
        for kind in KINDS:
            finds = run_scenario(scenario, adaptive={"kind": kind, "min": 1, "max": 100})
            what, ratio = f"{scenario.name}, {kind}", stays.throughput / finds.throughput
            kept &= report.budget(f"{what}: throughput of the best", ratio, BEST_BUDGET, "x")
            longest = round(longest_wait(scenario, stays), 3)
            kept &= report.budget(f"{what}: 19 of 20 wait", finds.wait_p95, longest, " s")
    return kept


async def compare_with_real() -> bool:
    """Compares what is foretold of a limit with calls that really run under it."""
    kept = True
    for name, scenario in real_runs.SCENARIOS.items():
        errors = [max((await real_runs.compare(scenario, CALLS)).errors) for _ in range(RUNS)]
        what = f"a forecast of {name} / what came"
        kept &= report.budget(what, median(errors), FORETOLD_BUDGET, " off")
    return kept


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(limits()) else 1)
