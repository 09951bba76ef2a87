"""What does one limit for several processes cost: where one is alone, and where they compete?

`python -m tests.benchmarks.cluster` measures nothing else. Needs a PostgreSQL server.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from importlib.util import find_spec
from statistics import median
from typing import Any

from tests.benchmarks import report
from tests.benchmarks.cluster_faults import measure_faults
from tests.benchmarks.measure import measure
from tests.benchmarks.rows import Row, add
from tool_engine import ClusterConfig, ConcurrencyConfig, ToolEngine, ToolEngineConfig

__all__ = ["cluster"]

ALONE, SHARED = "a bucket of this process", "a bucket of a cluster, alone in it"
ALONE_BUDGET = 1.1
"""Times a call of a bucket of its own."""
MOVED_BUDGET = 3.0
"""Milliseconds until a unit is there that another process has idle; half of all times."""
HANDED_BUDGET = (3.0, 25.0)
"""Milliseconds from the end of a call to the start of the next one in another process: of half of
all, and of 99 in 100."""
RATE_BUDGET = 800
"""Calls a second of four processes that compete for two slots."""
STATEMENTS_BUDGET = 2.0
"""Statements that a call then takes."""
POLLED_BUDGET = 5.0
"""Times as many as with locked rows (`SKIP LOCKED`), for which who waits asks each 5 ms."""
PROCESSES, CALLERS, SECONDS, LIMIT, ROUNDS = 4, 15, 2.0, 2, 5
_TURNS = 200
_POLL = 0.005


async def cluster(_directory: str = "") -> bool:
    """Measures limits that processes share; whether each budget is kept."""
    if find_spec("asyncpg") is None:
        print("limits of a cluster: not measured, for asyncpg is not installed")
        return True
    from tests.postgres_server import NoServerError, running_server

    with contextlib.ExitStack() as stack:
        try:
            server = await asyncio.to_thread(
                stack.enter_context, running_server(waits_for_disk=True)
            )
        except NoServerError as error:
            print(f"limits of a cluster: not measured: {error}")
            return True
        url = await asyncio.to_thread(server.fresh_database)
        kept = await _measure_alone(url)
        moved, both = await _measure_moved(url)
        kept &= report.budget("an idle unit moved, p50", moved, MOVED_BUDGET, " ms")
        print(f"Two of them, asked for one after the other, p50: {both:.2f} ms")
        kept &= await _measure_contended(url)
        return kept & await measure_faults(server)


async def _measure_alone(url: str) -> bool:
    async with AsyncExitStack() as stack:
        engines = [
            await stack.enter_async_context(_open_engine(url, name)) for name in (None, "alone")
        ]

        def row_of(name: str, includes: str, engine: ToolEngine) -> Row:
            async def batch(n: int) -> None:
                for _ in range(n):
                    await engine.execute("add", {"a": 1, "b": 2})

            return Row(name, includes, batch)

        rows = [
            row_of(ALONE, "look-up, validation, limit, deadline, record, result", engines[0]),
            row_of(SHARED, "the same, and a look at the lease", engines[1]),
        ]
        member: Any = engines[1].controller.member  # type: ignore[attr-defined]
        await engines[1].execute("add", {"a": 1, "b": 2})
        before, beats = member.count()["statements"], time.monotonic()
        figures = {each.row.name: each for each in await measure(rows, clock=time.perf_counter)}
        seconds = time.monotonic() - beats
        report.calls("One call of add(a, b) in a bucket", [*figures.values()], figures[ALONE], [])
        sent = member.count()["statements"] - before
        print(f"Statements of all these calls: {sent} in {seconds:.0f} s")
        ratio = figures[SHARED].ratio(figures[ALONE])
        return report.budget(f"{SHARED} / {ALONE}", ratio, ALONE_BUDGET, "x")


@contextlib.asynccontextmanager
async def _open_engine(url: str, name: str | None) -> AsyncIterator[ToolEngine]:
    shared = None if name is None else ClusterConfig(url=url, name=name, bucket_limits={"ai": 2})
    limits = ConcurrencyConfig(max_concurrent=100, bucket_limits={"ai": 2}, cluster=shared)
    with tempfile.TemporaryDirectory() as folder:
        async with ToolEngine(ToolEngineConfig(tools_directory=folder, concurrency=limits)) as made:
            made.tool(name="add", concurrency={"bucket": "ai"})(add)
            yield made


async def _measure_moved(url: str) -> tuple[float, float]:
    """Milliseconds until a call starts with a unit that another process has idle; until two do."""
    async with AsyncExitStack() as stack:
        engines = [await stack.enter_async_context(_open_engine(url, "moved")) for _ in range(2)]
        one, both = [], []
        for turn in range(_TURNS):
            engine = engines[turn % 2]
            asked = time.perf_counter()
            async with engine.controller.slot("ai"):
                one.append((time.perf_counter() - asked) * 1000)
                async with engine.controller.slot("ai"):
                    both.append((time.perf_counter() - asked) * 1000)
            await asyncio.sleep(0.01)
    return median(one), median(both)


async def _measure_contended(url: str) -> bool:
    """Both ways take turns, and of their ratios the middle one counts: a machine has its moods."""
    found: dict[str, list[list[dict[str, Any]]]] = {"cluster": [], "polled": []}
    for number in range(ROUNDS):
        for way, rounds in found.items():
            if way == "polled":
                await _make_slots(url)
            rounds.append(await _run_processes(url, f"{way} {number}"))
    rates = {
        way: [sum(each["calls"] for each in ends) / SECONDS for ends in rounds]
        for way, rounds in found.items()
    }
    report.rates(
        f"{PROCESSES} processes with {CALLERS} callers each, limit {LIMIT}",
        {
            "a cluster": median(rates["cluster"]),
            "rows with SKIP LOCKED, asked for each 5 ms": median(rates["polled"]),
        },
    )
    every = [each for ends in found["cluster"] for each in ends]
    peak = _find_peak([(start, end) for each in every for start, end in each["spans"]])
    waits = sorted(each for ends in found["cluster"] for each in _find_hand_overs(ends))
    half, most = waits[len(waits) // 2], waits[int(len(waits) * 0.99)]
    kept = report.budget("calls at once, of a limit of 2", peak, LIMIT, "")
    statements = sum(each["statements"] for each in every) / sum(each["calls"] for each in every)
    kept &= report.budget("a contended call", statements, STATEMENTS_BUDGET, " statements")
    slowest = RATE_BUDGET / median(rates["cluster"])
    kept &= report.budget("800 calls/s / those", slowest, 1.0, "x")
    ratios = [theirs / ours for ours, theirs in zip(*rates.values(), strict=True)]
    print(
        "Times those with SKIP LOCKED, by round:", *(f"{1 / each:.1f}" for each in sorted(ratios))
    )
    ratio = POLLED_BUDGET * median(ratios)
    kept &= report.budget("5 times those with SKIP LOCKED / those", ratio, 1.0, "x")
    kept &= report.budget("a hand-over to another process, p50", half, HANDED_BUDGET[0], " ms")
    return kept & report.budget("the same, p99", most, HANDED_BUDGET[1], " ms")


def _find_peak(spans: list[tuple[float, float]]) -> int:
    changes = sorted((at, by) for start, end in spans for at, by in ((start, 1), (end, -1)))
    running = most = 0
    for _, by in changes:
        running += by
        most = max(most, running)
    return most


def _find_hand_overs(ends: list[dict[str, Any]]) -> list[float]:
    """Milliseconds from the end of a call to the start of what has its unit, in another process.

    Which unit that is cannot be seen: the one that came free first is taken to be used first.
    """
    changes = sorted(
        (at, is_start, process)
        for process, each in enumerate(ends)
        for start, end in each["spans"]
        for at, is_start in ((start, True), (end, False))
    )
    waits, free = [], []
    for at, is_start, process in changes:
        if not is_start:
            free.append((at, process))
        elif free:
            ended, by = free.pop(0)
            if by != process:
                waits.append((at - ended) * 1000)
    return sorted(waits) or [0.0]


async def _make_slots(url: str) -> None:
    import asyncpg  # type: ignore[import-untyped]

    connection = await asyncpg.connect(url)
    await connection.execute("DROP TABLE IF EXISTS slots")  # and what updates have left of it
    await connection.execute("CREATE TABLE slots (id int PRIMARY KEY, holder text)")
    await connection.execute(f"INSERT INTO slots SELECT generate_series(1, {LIMIT})")
    await connection.close()


async def _run_processes(url: str, way: str) -> list[dict[str, Any]]:
    begin = str(time.monotonic() + 3.0)
    running = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.benchmarks.cluster", way, url, f"p{number}", begin),
            stdout=asyncio.subprocess.PIPE,
        )
        for number in range(PROCESSES)
    ]
    outputs = [(await each.communicate())[0] for each in running]
    return [json.loads(each) for each in outputs]


async def _be_process(words: list[str]) -> None:
    way, url, name, begin = words
    work = _call_in_cluster if way.startswith("cluster") else _call_polled
    print(json.dumps(await work(url, f"{name} {way}", float(begin))))


async def _call_in_cluster(url: str, name: str, begin: float) -> dict[str, Any]:
    shared = ClusterConfig(url=url, name="contended", bucket_limits={"ai": LIMIT})
    limits = ConcurrencyConfig(max_concurrent=100, queue_timeout=None, cluster=shared)
    spans: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        settings = ToolEngineConfig(tools_directory=folder, process=name, concurrency=limits)
        async with ToolEngine(settings) as engine:
            member: Any = engine.controller.member  # type: ignore[attr-defined]
            await asyncio.sleep(max(0.0, begin - time.monotonic()))
            before, until = member.count()["statements"], begin + SECONDS

            async def call() -> None:
                while time.monotonic() < until:
                    async with engine.controller.slot("ai"):
                        start = time.monotonic()
                        await asyncio.sleep(0)
                        spans.append((start, time.monotonic()))

            await asyncio.gather(*(call() for _ in range(CALLERS)))
            statements = member.count()["statements"] - before
    return {"calls": len(spans), "statements": statements, "spans": spans}


async def _call_polled(url: str, name: str, begin: float) -> dict[str, Any]:
    import asyncpg

    settings = {"synchronous_commit": "off"}
    pool = await asyncpg.create_pool(url, min_size=3, max_size=3, server_settings=settings)
    spans: list[tuple[float, float]] = []
    take = (
        "UPDATE slots SET holder = $1 WHERE id = (SELECT id FROM slots WHERE holder IS NULL "
        "LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id"
    )
    await asyncio.sleep(max(0.0, begin - time.monotonic()))

    async def call() -> None:
        while time.monotonic() < begin + SECONDS:
            slot = await pool.fetchval(take, name)
            if slot is None:
                await asyncio.sleep(_POLL)
                continue
            start = time.monotonic()
            await asyncio.sleep(0)
            spans.append((start, time.monotonic()))
            await pool.execute("UPDATE slots SET holder = NULL WHERE id = $1", slot)

    await asyncio.gather(*(call() for _ in range(CALLERS)))
    await pool.close()
    return {"calls": len(spans), "statements": 0, "spans": spans}


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(_be_process(sys.argv[1:]))
    else:
        sys.exit(not asyncio.run(cluster()))
