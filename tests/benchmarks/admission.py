"""What does a slot cost: a free one, one to wait for, one no longer wanted, and an idle key?

Beside ours stand `asyncio.Semaphore` and, where it is installed, `anyio.CapacityLimiter`, in turns
within one run. Waiters are measured without tasks around them: each coroutine is stepped to where
it waits and on from there, as a task would, so that a figure is the limiter's own.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from itertools import pairwise
from math import log2
from typing import Any

from tests.benchmarks import report
from tests.benchmarks.measure import Figures, measure_often, median_of
from tests.benchmarks.rows import Row
from tool_engine import ConcurrencyConfig, ToolConcurrencyController
from tool_engine.admission.request import AdmissionRequest

__all__ = ["admission"]

OURS = "tool_engine"
SEMAPHORE = "asyncio.Semaphore"
TWO_SEMAPHORES = "asyncio.Semaphore for all, and one for http"
LIMITER = "anyio.CapacityLimiter"
OWN_PATH = "tool_engine, the engine's own path"
PUBLIC_PATH = "tool_engine, controller.slot('http')"

ROUNDS = 3
CROWDS = (1_000, 10_000, 100_000)
SCANNED = 2_000
"""How many of a semaphore's waiters are cancelled: each looks for itself in the queue, and half of
100,000 would take a quarter of a minute."""
TASKS = 20_000
KEYS = 100_000

OWN_PATH_BUDGET = 1.0
PUBLIC_PATH_BUDGET = 1.2
"""Times what bounds the same by hand: a block of its own for each limit."""
GROWTH_SLACK = 1.5
"""Times what the logarithm allows: the processor's caches hold 1,000 waiters, but not 100,000."""
CANCEL_BUDGET = 0.1
WAITER_BUDGET = 1024
KEY_BUDGET = 300
"""Bytes."""

Acquire = Callable[[], Coroutine[Any, Any, Any]]
Release = Callable[[Any], object]


@dataclass(frozen=True, slots=True)
class Contestant:
    """A kind of limiter; `make` makes one with one slot."""

    name: str
    includes: str
    make: Callable[[], tuple[Acquire, Release]]


def _ours() -> tuple[Acquire, Release]:
    limits = ConcurrencyConfig(max_concurrent=1, queue_size=sys.maxsize)
    controller = ToolConcurrencyController(limits)
    return controller.acquire, controller.release


def _semaphore() -> tuple[Acquire, Release]:
    semaphore = asyncio.Semaphore(1)
    return semaphore.acquire, lambda _held: semaphore.release()


def _limiter() -> tuple[Acquire, Release]:
    limiter = import_module("anyio").CapacityLimiter(1)

    async def acquire() -> object:
        # A task may hold one token only; callers that are no tasks name themselves.
        borrower = object()
        await limiter.acquire_on_behalf_of(borrower)
        return borrower

    return acquire, limiter.release_on_behalf_of


CONTESTANTS = (
    Contestant(OURS, "order, buckets, queue timeout, metrics", _ours),
    Contestant(SEMAPHORE, "order", _semaphore),
    Contestant(LIMITER, "order, who holds what", _limiter),
)


class Crowd:
    """Callers that wait for the one slot, which is taken."""

    def __init__(self, coroutines: list[Coroutine[Any, Any, Any]], release: Release) -> None:
        self._coroutines = coroutines
        self._release = release
        self._held: Any = None
        self._futures: list[asyncio.Future[Any]] = []

    @classmethod
    async def join(cls, contestant: Contestant, size: int) -> Crowd:
        """Takes the slot and lets `size` others come to where they wait for it."""
        acquire, release = contestant.make()
        held = await acquire()
        crowd = cls([acquire() for _ in range(size)], release)
        crowd._held = held
        crowd._futures = [coroutine.send(None) for coroutine in crowd._coroutines]
        return crowd

    def enter(self) -> None:
        """Hands the slot from each to the next."""
        for coroutine in self._coroutines:
            self._release(self._held)
            self._held = _run(coroutine)

    def cancel(self, which: slice) -> int:
        """Does to some what `task.cancel()` and the task's next step do; returns how many."""
        futures, coroutines = self._futures[which], self._coroutines[which]
        for future, coroutine in zip(futures, coroutines, strict=True):
            future.cancel()
            try:
                coroutine.throw(asyncio.CancelledError)
            except asyncio.CancelledError:
                continue
            raise AssertionError("a waiter swallowed its cancellation")
        return len(futures)

    def close(self) -> None:
        """Sends those home who still wait."""
        for coroutine in self._coroutines:
            coroutine.close()


def _run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("the next in line did not get the slot")


async def admission() -> bool:
    """All tables of the admission; whether every budget is kept."""
    contestants = [each for each in CONTESTANTS if each.name != LIMITER or _has_anyio()]
    missing = [] if _has_anyio() else [LIMITER]
    kept = await _uncontended(missing)
    kept &= await _growth(contestants, missing)
    kept &= await _cancellation(contestants, missing)
    kept &= await _waiter_size(contestants)
    return kept & await _key_size()


def _has_anyio() -> bool:
    try:
        import_module("anyio")
    except ImportError:
        return False
    return True


async def _uncontended(missing: list[str]) -> bool:
    rows = [*_own_rows(), *_peer_rows()]
    runs = await measure_often(rows)
    own = median_of(runs, OWN_PATH, SEMAPHORE)
    public = median_of(runs, PUBLIC_PATH, TWO_SEMAPHORES)
    figures = runs[-1]
    base = figures[SEMAPHORE]
    by_cost = sorted(figures.values(), key=lambda figure: figure.median)
    report.calls("A free slot, taken and given back", by_cost, base, missing)
    kept = report.budget(f"{OWN_PATH} / {SEMAPHORE}", own, OWN_PATH_BUDGET, "x")
    return kept & report.budget(
        f"{PUBLIC_PATH} / {TWO_SEMAPHORES}", public, PUBLIC_PATH_BUDGET, "x"
    )


def _own_rows() -> list[Row]:
    controller = ToolConcurrencyController(ConcurrencyConfig(bucket_limits={"http": 5}))
    request = AdmissionRequest(bucket="http", lane="http")
    clock = time.monotonic

    async def own_path(n: int) -> None:
        # A call knows the time anyway, before and after: its record has both.
        now = clock()
        for _ in range(n):
            slot = controller.admit_nowait(request, now, "call")
            if slot is None:
                raise AssertionError("a free slot was refused")
            controller.release(slot, now)

    async def public_path(n: int) -> None:
        for _ in range(n):
            async with controller.slot("http"):
                pass

    return [
        Row(OWN_PATH, "global limit, bucket, metrics", own_path),
        Row(PUBLIC_PATH, "the same, as `async with`", public_path),
    ]


def _peer_rows() -> list[Row]:
    semaphore, one_bucket = asyncio.Semaphore(10), asyncio.Semaphore(5)

    async def hold_semaphore(n: int) -> None:
        for _ in range(n):
            async with semaphore:
                pass

    async def hold_both(n: int) -> None:
        for _ in range(n):
            async with one_bucket, semaphore:
                pass

    rows = [
        Row(SEMAPHORE, "a limit", hold_semaphore),
        Row(TWO_SEMAPHORES, "two limits", hold_both),
    ]
    if _has_anyio():
        limiter = import_module("anyio").CapacityLimiter(10)

        async def hold_limiter(n: int) -> None:
            for _ in range(n):
                async with limiter:
                    pass

        rows.append(Row(LIMITER, "a limit, who holds what, a turn of the loop", hold_limiter))
    return rows


async def _growth(contestants: list[Contestant], missing: list[str]) -> bool:
    costs = []
    for size in CROWDS:
        figures = await _in_turns([_waiting(each) for each in contestants], size)
        title = f"One waiter among {size:,}: to join the queue and to be let in"
        report.calls(title, list(figures.values()), figures[SEMAPHORE], missing)
        costs.append(figures[OURS].least)
    for (few, cheap), (many, dear) in pairwise(zip(CROWDS, costs, strict=True)):
        print(f"From {few:,} to {many:,} waiters: {dear / cheap:.2f} times the cost of one")
    allowed = log2(CROWDS[-1]) / log2(CROWDS[0]) * GROWTH_SLACK
    what = f"one waiter among {CROWDS[-1]:,} / among {CROWDS[0]:,}"
    return report.budget(what, costs[-1] / costs[0], round(allowed, 2), "x")


def _waiting(contestant: Contestant) -> Row:
    async def batch(n: int) -> None:
        crowd = await Crowd.join(contestant, n)
        crowd.enter()
        # The loop drops the timers of those who were let in.
        await asyncio.sleep(0)

    return Row(contestant.name, contestant.includes, batch)


async def _in_turns(rows: list[Row], size: int) -> dict[str, Figures]:
    costs: dict[str, list[float]] = {row.name: [] for row in rows}
    passes = CROWDS[-1] // size // 10 or 1
    for round_number in range(ROUNDS):
        for position in range(len(rows)):
            row = rows[(round_number + position) % len(rows)]
            started = time.process_time()
            for _ in range(passes):
                await row.batch(size)
            costs[row.name].append((time.process_time() - started) / passes / size)
    return {row.name: Figures(row, tuple(costs[row.name])) for row in rows}


async def _cancellation(contestants: list[Contestant], missing: list[str]) -> bool:
    size = CROWDS[-1]
    figures = {}
    for contestant in contestants:
        which = slice(None, None, 2)
        if contestant.name == SEMAPHORE:
            # As far from the front, in the mean, as every other one of all finds itself.
            which = slice(None, size // 2, size // 2 // SCANNED)
        crowd = await Crowd.join(contestant, size)
        started = time.process_time()
        count = crowd.cancel(which)
        await asyncio.sleep(0)
        cost = (time.process_time() - started) / count
        crowd.close()
        row = Row(contestant.name, f"{count:,} cancelled", _waiting(contestant).batch)
        figures[contestant.name] = Figures(row, (cost,))
    base = figures[SEMAPHORE]
    title = f"Cancelling one of {size:,} waiters"
    report.calls(title, list(figures.values()), base, missing)
    ratio = figures[OURS].ratio(base)
    return report.budget(f"cancelling: {OURS} / {SEMAPHORE}", ratio, CANCEL_BUDGET, "x")


async def _waiter_size(contestants: list[Contestant]) -> bool:
    async def wait() -> None:
        await asyncio.get_running_loop().create_future()

    await _bytes_per_task(wait)
    # Once more: the first time, asyncio's register of tasks grew as well.
    bare = await _bytes_per_task(wait)
    print(f"A task that waits for a future of its own: {bare:.0f} bytes")
    sizes = {}
    for contestant in contestants:
        acquire, release = contestant.make()
        held = await acquire()
        sizes[contestant.name] = await _bytes_per_task(acquire) - bare
        release(held)
        print(f"A task that waits for {contestant.name}: {sizes[contestant.name]:.0f} bytes more")
    return report.budget(f"{OURS}, one waiter", sizes[OURS], WAITER_BUDGET, " bytes")


async def _bytes_per_task(wait: Callable[[], Coroutine[Any, Any, Any]]) -> float:
    async def start() -> list[asyncio.Task[Any]]:
        tasks = [asyncio.create_task(wait()) for _ in range(TASKS)]
        await asyncio.sleep(0)
        return tasks

    size, tasks = await _bytes_of(start)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    return size / TASKS


async def _bytes_of(work: Callable[[], Awaitable[Any]]) -> tuple[float, Any]:
    """The bytes that are in use after the work and were not before, and what it returned."""
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    result = await work()
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return after - before, result


async def _key_size() -> bool:
    settings = import_module("tool_engine.config")
    if "key" not in signature(ToolConcurrencyController.acquire).parameters:
        print("Keys are not measured: acquire() takes no key")
        return True
    limits = ConcurrencyConfig(key_limits=settings.KeyLimits(limit=2))
    controller = ToolConcurrencyController(limits)

    async def use() -> None:
        for number in range(KEYS):
            async with controller.slot(key=f"conversation-{number}"):
                pass

    size, _ = await _bytes_of(use)
    return report.budget(f"{KEYS:,} idle keys, each", size / KEYS, KEY_BUDGET, " bytes")
