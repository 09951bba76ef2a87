"""Run by `make bench`: prints the tables, and exits with 1 when a budget is broken."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median

from tests.benchmarks import report
from tests.benchmarks.admission import admission
from tests.benchmarks.calling import calling
from tests.benchmarks.calls import BY_HAND, ENGINE, engine_rows, hand_rows
from tests.benchmarks.clients import clients
from tests.benchmarks.cluster import cluster
from tests.benchmarks.everything import everything
from tests.benchmarks.fleet_faults import fleet_faults
from tests.benchmarks.fleets import fleets
from tests.benchmarks.http import CONCURRENCY, http_rates
from tests.benchmarks.limits import limits
from tests.benchmarks.listening import listening
from tests.benchmarks.loading import (
    COLD,
    DESCRIBED_AGAIN,
    FLOOR,
    REGISTERED,
    REGISTERING,
    WARM,
    change_times,
    footprint,
    import_times,
    load_times,
    register_times,
    write_tools,
)
from tests.benchmarks.measure import RUNS, Figures, measure_often, median_of
from tests.benchmarks.models import models
from tests.benchmarks.outputs import outputs
from tests.benchmarks.peers import peer_rows
from tests.benchmarks.protocols import protocols
from tests.benchmarks.records import records
from tests.benchmarks.returning import returning
from tests.benchmarks.rows import Row, add, add_suspending
from tests.benchmarks.searching import searching
from tests.benchmarks.serving import serving
from tests.benchmarks.sessions import sessions
from tests.benchmarks.sources import sources
from tests.benchmarks.starting import starting
from tests.benchmarks.studio import studio
from tests.benchmarks.tasks import tasks
from tests.benchmarks.waiting import waiting

TOOLS = 1000
IS_OLD = sys.version_info < (3, 12)
CALL_BUDGET = 1.0 if IS_OLD else 1.15
"""Times what a user writes by hand, which costs less on Python 3.12 and later."""
SUSPENDING_BUDGET = 1.3 if IS_OLD else 1.4
FILES = 10_000
COLD_BUDGET = 1.7
"""Seconds to load the files, about 35 lines each."""
WARM_BUDGET = 0.25
"""Seconds to load them when their tools are cached."""
REGISTER_BUDGET = 0.5
"""Seconds to register as many tools from code."""
DESCRIBE_BUDGET = 50.0
"""Milliseconds to return their definitions, where nothing has changed."""
MEMORY_BUDGET = 8.0
"""Kilobytes of memory for each tool."""
PAUSE_BUDGET = 10.0
"""Milliseconds that they add to a full garbage collection."""
HTTP_BUDGET = 1.39
"""Times the bare client's time for each request: 72 % of its throughput is left."""
CHANGE_BUDGET = 50.0
"""Milliseconds from the last write to one of the files until its new definition is called."""
IMPORT_BUDGET = 1.5
"""Times what the libraries below it add to a process."""


async def calls(title: str, rows: list[Row], missing: list[str], budget: float) -> bool:
    """Measures a table of calls; whether the engine keeps its budget."""
    runs = await measure_often(rows)
    report.calls(title, _by_cost(runs[-1]), runs[-1][BY_HAND], missing)
    ratio = median_of(runs, ENGINE, BY_HAND)
    return report.budget(f"{ENGINE} / {BY_HAND}", ratio, budget, "x")


async def http(directory: Path) -> bool:
    """Measures requests through the engine and without; whether the budget is kept."""
    runs = [await http_rates(directory) for _ in range(RUNS)]
    report.rates(f"HTTP on the loopback address, {CONCURRENCY} at once", runs[-1].by_name())
    ratio = median(rates.bare / rates.through for rates in runs)
    return report.budget("requests a second, bare / through the engine", ratio, HTTP_BUDGET, "x")


def _by_cost(figures: dict[str, Figures]) -> list[Figures]:
    return sorted(figures.values(), key=lambda figure: figure.median)


async def loading(directory: Path) -> bool:
    """Measures folders of many files; whether each budget is kept."""
    paths = write_tools(directory, FILES)
    times = await load_times(directory, paths)
    report.seconds(f"Loading {FILES:,} files", times, FLOOR)
    kept = report.budget(COLD, times[COLD], COLD_BUDGET, " s")
    kept &= report.budget(WARM, times[WARM], WARM_BUDGET, " s")
    cost = footprint(directory)
    kept &= report.budget("memory for each tool", cost["kilobytes"], MEMORY_BUDGET, " KB")
    pause = cost["milliseconds"]
    kept &= report.budget("added to a full garbage collection", pause, PAUSE_BUDGET, " ms")
    times = register_times()
    report.seconds(f"{REGISTERED:,} tools from code", times)
    kept &= report.budget(REGISTERING, times[REGISTERING], REGISTER_BUDGET, " s")
    slowest = max(each for name, each in times.items() if name.startswith(DESCRIBED_AGAIN))
    kept &= report.budget(
        "definitions that are known, slowest format", slowest * 1000, DESCRIBE_BUDGET, " ms"
    )
    changes = [seconds * 1000 for seconds in await change_times(directory, paths)]
    what = f"one changed file of {FILES:,} is live (median; worst {changes[-1]:.0f} ms)"
    kept &= report.budget(what, median(changes), CHANGE_BUDGET, " ms")
    return kept


def fill(folder: Path) -> str:
    """Writes a thousand tools into a folder; returns its name."""
    write_tools(folder, TOOLS)
    return str(folder)


async def each_call(directory: Path) -> bool:
    """Measures a call beside those of the peers; whether each budget is kept."""
    folder = fill(directory)
    async with AsyncExitStack() as stack:
        peers, missing = await peer_rows(stack)
        engine = await engine_rows(stack, add, folder)
        rows = [*hand_rows(add), *engine, *peers]
        title = "One call of add(a, b), which does not suspend"
        kept = await calls(title, rows, missing, CALL_BUDGET)
        engine = await engine_rows(stack, add_suspending, folder)
        rows = [*hand_rows(add_suspending), *engine]
        title = "One call of add(a, b), which suspends once"
        return await calls(title, rows, [], SUSPENDING_BUDGET) and kept


async def importing(_: Path) -> bool:
    """Measures what the package adds to a process; whether the budget is kept."""
    imports = import_times()
    report.seconds("Starting Python", imports)
    bare, below, whole = imports.values()
    ratio = (whole - bare) / (below - bare)
    return report.budget("import tool_engine / what is below it", ratio, IMPORT_BUDGET, "x")


PARTS: dict[str, Callable[[Path], Awaitable[bool] | bool]] = {
    "calls": each_call,
    "outputs": lambda _: outputs(),
    "waiting": lambda _: waiting(),
    "limits": lambda _: limits(),
    "sessions": lambda folder: sessions(fill(folder)),
    "everything": lambda _: everything(),
    "tasks": lambda folder: tasks(fill(folder)),
    "cluster": lambda _: cluster(),
    "fleets": lambda _: fleets(),
    "fleet_faults": lambda _: fleet_faults(),
    "models": lambda folder: models(fill(folder)),
    "http": http,
    "admission": lambda _: admission(),
    "searching": lambda _: searching(),
    "sources": sources,
    "records": lambda _: records(),
    "protocols": lambda _: protocols(),
    "serving": lambda _: serving(),
    "calling": lambda _: calling(),
    "studio": lambda _: asyncio.to_thread(studio),
    "listening": lambda _: listening(),
    "clients": lambda folder: clients(str(folder)),
    "returning": lambda folder: returning(str(folder)),
    "starting": lambda folder: starting(str(folder)),
    "loading": loading,
    "importing": importing,
}
"""What is measured, by name, each in a folder of its own."""


def read_part(name: str) -> str:
    """The name of a part, or an error that names them all."""
    if name not in PARTS:
        raise argparse.ArgumentTypeError(f"there is no {name!r}; choose from {', '.join(PARTS)}")
    return name


async def main(names: Sequence[str]) -> bool:
    """The tables of these parts; whether every budget is kept."""
    kept = True
    report.machine()
    with tempfile.TemporaryDirectory() as directory:
        for name in names or PARTS:
            found = PARTS[name](Path(directory, name))
            kept &= found if isinstance(found, bool) else await found
    return kept


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument(
        "part", nargs="*", type=read_part, help=f"{', '.join(PARTS)}; without one, all"
    )
    sys.exit(0 if asyncio.run(main(parser.parse_args().part)) else 1)
