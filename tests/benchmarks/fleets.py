"""What does a call on a fleet cost, beside bare actors of the same Ray?

A process of its own, which starts a local Ray, calls the bare actors; both take turns.
`python -m tests.benchmarks.fleets` measures nothing else. Needs Ray: `make ray`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from tests.benchmarks import report
from tool_engine import ConcurrencyConfig, ToolEngine, ToolEngineConfig, ToolExecutionContext

__all__ = ["BATCH", "BATCHES", "ENGINE", "Turn", "fleets", "open_callers", "size_of"]

BATCHES, ALL_AT_ONCE = "batches of 100", "batches of 100, all at once"
BUDGETS = {"one by one": 1.3, "100 in flight": 1 / 0.85, BATCHES: 1 / 0.9, ALL_AT_ONCE: 1 / 0.9}
"""Times as long as bare actors take; in batches, those get lists of numbers. Beside these, by the
same budget, a pool by hand whose callers each have a place, a deadline and a result of their own,
as the calls here have."""
PROGRESS_BUDGET = 1_000
"""Lines a second that reach the listener while their call runs, at least."""
IN_FLIGHT, BATCH, ACTORS = 100, 100, 2
CALLS = {"one by one": 100, "100 in flight": 1_000, BATCHES: 10_000, ALL_AT_ONCE: 10_000}
"""For each turn."""
TOGETHER = {"one by one": 1, "100 in flight": IN_FLIGHT, BATCHES: 2 * ACTORS * BATCH}
"""How many of them are on their way at a time, else all: in batches, one runs in each actor, and
the next one is on its way there."""
ROUNDS = 9
LINES = 2_000
BARE, ENGINE, LOCAL = "bare actors of Ray", "tool-engine, isolation: ray", "tool-engine, local"
PLAIN = "a bare actor without coroutines"
"""Cheaper, and no place for an async handler: one call at a time."""
BY_HAND = "a pool of them by hand, one call each"
POOL = "Ray's own ActorPool, lists of 100"
"""What its users write first: lists, and one of them in each actor at a time."""
HANDLERS = """
import asyncio
async def noop(x): return x
async def talk(x, context):
    for number in range(x):
        context.log(f"line {number}")
        if number % 50 == 49: await asyncio.sleep(0.02)
    return x
"""

Turn = Callable[[str], Awaitable[float]]
"""Makes the calls of one way; returns the seconds that they took."""


async def fleets(_directory: str = "") -> bool:
    """Measures calls on a fleet; whether each budget is kept."""
    if find_spec("ray") is None:
        print("calls on a fleet: not measured, for Ray is not installed: make ray")
        return True
    async with open_callers() as (engine, turns):
        kept = True
        for way, limit in BUDGETS.items():
            more = {BATCHES: [POOL, BY_HAND], ALL_AT_ONCE: [BY_HAND], "one by one": [PLAIN]}
            peers = [BARE, *more.get(way, [])]
            names = [*peers, ENGINE, LOCAL]
            times = await _time_turns(way, {name: turns[name] for name in names})
            rates = {name: CALLS[way] / median(times[name]) for name in names}
            report.rates(f"Calls on a fleet, {way}", rates)
            for peer in peers:
                pairs = zip(times[ENGINE], times[peer], strict=True)
                ratio = median(mine / its for mine, its in pairs)
                kept &= report.budget(f"{way}: {ENGINE} / {peer}", ratio, limit, "x")
        rate = await _count_lines(engine)
        print(f"Lines of a running call that were heard: {rate:,.0f} a second")
        return kept & report.budget("seconds for 1,000 lines", 1_000 / rate, 1.0, " s")


async def _time_turns(way: str, turns: dict[str, Turn]) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in turns}
    for turn in turns.values():
        await turn(way)
    for number in range(ROUNDS):
        for name in turns if number % 2 else reversed(turns):
            times[name].append(await turns[name](way))
    return times


async def _count_lines(engine: ToolEngine) -> float:
    """Return how many lines of a handler are heard in a second."""
    heard = 0

    def hear(_: object) -> None:
        nonlocal heard
        heard += 1

    engine.subscribe(hear, ["execution_logged"])
    await _call_tool(engine, "talk", 1)  # so that its worker is there
    heard, started = 0, time.perf_counter()
    await _call_tool(engine, "talk", LINES)
    seconds = time.perf_counter() - started
    return heard / seconds


@contextlib.asynccontextmanager
async def open_callers() -> AsyncIterator[tuple[ToolEngine, dict[str, Turn]]]:
    with contextlib.ExitStack() as stack:
        # Short, for sockets are in it.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="te-", dir="/tmp")))
        (folder / "handlers_of_benchmarks.py").write_text(HANDLERS)
        settings = {
            "RAY_TMPDIR": str(folder),
            "RAY_USAGE_STATS_ENABLED": "0",
            # Ray makes a token for a cluster of its own, which no other process has.
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # else it listens on more than loopback
            "RAY_worker_niceness": "0",  # as all others, for bare actors and for ours
        }
        os.environ.update(settings)
        bare = await asyncio.to_thread(
            subprocess.Popen,
            [sys.executable, "-m", "tests.benchmarks.fleets", "bare"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        stack.callback(bare.communicate)
        assert bare.stdin is not None
        assert bare.stdout is not None
        os.environ["RAY_ADDRESS"] = (await asyncio.to_thread(bare.stdout.readline)).strip()
        sys.path.insert(0, str(folder))

        async def call_bare(way: str) -> float:
            print(way, file=bare.stdin, flush=True)
            return float(await asyncio.to_thread(bare.stdout.readline))  # type: ignore[union-attr]

        engine = _make_engine(folder)
        try:

            async def call_engine(way: str) -> float:
                return await _make_calls(engine, "batched" if "batches" in way else "noop", way)

            async def call_local(way: str) -> float:
                return await _make_calls(engine, "local", way)

            async def call_pool(way: str) -> float:
                return await call_bare(f"{way}, by hand")

            async def call_plain(way: str) -> float:
                return await call_bare(f"{way}, plain")

            async def call_actor_pool(way: str) -> float:
                return await call_bare(f"{way}, ActorPool")

            turns: dict[str, Turn] = {BARE: call_bare, BY_HAND: call_pool, PLAIN: call_plain}
            yield engine, {**turns, POOL: call_actor_pool, ENGINE: call_engine, LOCAL: call_local}
        finally:
            await engine.close()
            sys.path.remove(str(folder))
            for name in (*settings, "RAY_ADDRESS"):
                os.environ.pop(name, None)


async def _call_tool(engine: ToolEngine, name: str, number: int) -> None:
    result = await engine.execute(name, {"x": number}, ToolExecutionContext(timeout=60.0))
    assert result.output == {"result": number}, result.error


async def _make_calls(engine: ToolEngine, name: str, way: str) -> float:
    count, together = size_of(way)
    return await _time_calls(lambda number: _call_tool(engine, name, number), count, together)


def size_of(way: str) -> tuple[int, int]:
    """Return how many calls are made, and how many of them at a time."""
    return CALLS[way], TOGETHER.get(way, CALLS[way])


async def _time_calls(call: Callable[[int], Awaitable[None]], count: int, together: int) -> float:
    """Return the seconds of so many calls, of which so many run at a time."""
    numbers = iter(range(count))

    async def call_next() -> None:
        for number in numbers:
            await call(number)

    started = time.perf_counter()
    await asyncio.gather(*(call_next() for _ in range(together)))
    return time.perf_counter() - started


def _make_engine(folder: Path) -> ToolEngine:
    config = ToolEngineConfig(str(folder / "none"), auto_reload=False, fleet="auto")
    most = CALLS[ALL_AT_ONCE]
    limits = ConcurrencyConfig(max_concurrent=most, queue_size=most, queue_timeout=60.0)
    engine = ToolEngine(config, concurrency=limits)
    batch = {
        "batch": {"max_size": BATCH, "max_wait": 0.01},
        "max_workers": ACTORS,
        "min_workers": ACTORS,
    }
    for name, more in {"noop": {}, "talk": {}, "batched": batch}.items():
        handler = name if name == "talk" else "noop"
        config_of_entry = {"isolation": "ray", "resources": {"cpus": 0}, **more}
        entry = {
            "type": "custom",
            "handler": f"handlers_of_benchmarks:{handler}",
            "config": config_of_entry,
        }
        engine.register_tool({**_describe_tool(name), "entry": entry})

    async def wait_once(x: int) -> int:
        await asyncio.sleep(0)
        return x

    engine.register_tool(_describe_tool("local"), wait_once)
    return engine


def _describe_tool(name: str) -> dict[str, Any]:
    number = {"name": "x", "type": "integer", "required": True, "description": "A number"}
    return {"name": name, "description": "Return what is given", "parameters": [number]}


class _PoolByHand:
    """What a careful user writes so that single calls travel together.

    Args:
        actors: Have a method `many` for lists.
    """

    def __init__(self, actors: list[Any]) -> None:
        self._actors = actors
        self._waiting: list[tuple[int, asyncio.Future[int]]] = []
        self._trips: set[asyncio.Task[None]] = set()
        self._count = 0
        self._places = asyncio.Semaphore(CALLS[ALL_AT_ONCE])
        self._on_their_way = asyncio.Semaphore(2 * len(actors))

    async def call(self, number: int) -> None:
        async with self._places, asyncio.timeout(60.0):
            answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            self._waiting.append((number, answer))
            if len(self._waiting) == BATCH:
                batch, self._waiting = self._waiting, []
                self._trips.add(trip := asyncio.ensure_future(self._send_batch(batch)))
                trip.add_done_callback(self._trips.discard)
            assert await answer == number

    async def _send_batch(self, batch: list[tuple[int, asyncio.Future[int]]]) -> None:
        async with self._on_their_way:
            self._count += 1
            actor = self._actors[self._count % len(self._actors)]
            values = await actor.many.remote([number for number, _ in batch])
        for (_, answer), value in zip(batch, values, strict=True):
            if not answer.done():
                answer.set_result(value)


async def _serve_bare() -> None:
    """Start Ray, print its address, and make the calls that the standard input names."""
    import ray

    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        object_store_memory=80 * 2**20,
        _node_ip_address="127.0.0.1",
        _temp_dir=os.environ["RAY_TMPDIR"],
    )

    class Bare:
        async def noop(self, x: int) -> int:
            return x

        async def many(self, xs: list[int]) -> list[int]:
            return xs

    class Plain:
        def noop(self, x: int) -> int:
            return x

    kind: Any = ray.remote(num_cpus=0, max_concurrency=IN_FLIGHT)(Bare)
    actors = [kind.remote() for _ in range(ACTORS)]

    async def call_one(number: int) -> None:
        assert await actors[0].noop.remote(number) == number

    plain_kind: Any = ray.remote(num_cpus=0)(Plain)
    plain = plain_kind.remote()

    async def call_plain(number: int) -> None:
        assert await plain.noop.remote(number) == number

    ways: dict[str, Callable[[], Awaitable[float]]] = {
        "one by one, plain": partial(_time_calls, call_plain, *size_of("one by one")),
        **_make_batches(actors),
    }
    for way in ("one by one", "100 in flight"):
        ways[way] = partial(_time_calls, call_one, *size_of(way))
    print(ray.get_runtime_context().gcs_address, flush=True)
    while way := (await asyncio.to_thread(sys.stdin.readline)).strip():
        seconds = await ways[way]()
        print(json.dumps(seconds), flush=True)
    ray.shutdown()


def _make_batches(actors: list[Any]) -> dict[str, Callable[[], Awaitable[float]]]:
    """Return the ways to make the calls of batches with bare actors."""
    from ray.util import ActorPool

    pool, actor_pool = _PoolByHand(actors), ActorPool(actors)

    async def send_batch(place: int) -> None:
        numbers = [*range(BATCH)]
        assert await actors[place % ACTORS].many.remote(numbers) == numbers

    def map_lists() -> float:
        lists = [[*range(BATCH)]] * (CALLS[BATCHES] // BATCH)
        started = time.perf_counter()
        assert [*actor_pool.map(lambda actor, each: actor.many.remote(each), lists)] == lists
        return time.perf_counter() - started

    ways: dict[str, Callable[[], Awaitable[float]]] = {
        f"{BATCHES}, ActorPool": partial(asyncio.to_thread, map_lists)
    }
    for way in (BATCHES, ALL_AT_ONCE):
        ways[f"{way}, by hand"] = partial(_time_calls, pool.call, *size_of(way))
        ways[way] = partial(_time_calls, send_batch, *[size // BATCH for size in size_of(way)])
    return ways


if __name__ == "__main__":
    if sys.argv[1:] == ["bare"]:
        asyncio.run(_serve_bare())
    else:
        sys.exit(0 if asyncio.run(fleets()) else 1)
