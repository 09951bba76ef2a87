"""Do a thousand processes of one cluster keep its limits, through all that can go wrong?

A small part of the run has a second opinion on each grant; the large one adds up what is in use,
and so do those of twenty processes that are ended, replaced and limited anew all the time.
"""

from __future__ import annotations

import dataclasses
import random
import time

from tests.admission.cluster.cluster_world import World
from tests.admission.cluster.shared_by_a_world import Setting, random_setting
from tests.admission.cluster.watching_grants import BreachError
from tool_engine.admission.cluster.cluster_limits import STRATEGIES, ClusterLimits

PROCESSES = 1_000
SMALL_WORLDS = 40
SMALL_CALLS = 700
RESTLESS_PROCESSES = 20
RESTLESS_CALLS = 5_000
SHARED_BUCKETS = 40


def large_setting(processes: int = PROCESSES) -> Setting:
    """Most calls are in a bucket of their process's own, the others in forty that all share."""
    shared = {f"shared {number}": 6 for number in range(SHARED_BUCKETS)}
    own = {f"of p{number}": 4 for number in range(1, 2 * processes)}
    return Setting(
        ClusterLimits(1, buckets=shared | own, aging=1.0),
        processes=processes,
        pace=4.0,
        length=0.05,
        faults=2.0,
        ttl=10.0,
        is_thorough=False,
        nests=0.02,
        idle_time=5.0,
        calm_every=200_000,
        buckets=tuple(f"bucket:{name}" for name in shared),
        local=0.7,
    )


def restless_setting() -> Setting:
    """A few processes that have little to share, and a fault every quarter of a second."""
    return dataclasses.replace(
        large_setting(RESTLESS_PROCESSES), faults=4.0, local=0.9, calm_every=2_000, ttl=3.0
    )


def show(world: World, name: str, seconds: float) -> None:
    """Prints what a world has seen."""
    waits = sorted(world.ledger.waits) or [0.0]
    middle, late = waits[len(waits) // 2], waits[int(len(waits) * 0.99)]
    calls, counts = world.counts["calls"], world.counts
    faults = ("kill", "freeze", "doze", "drop", "cut", "sever", "crash")
    print(
        f"{name}: {calls:,} calls, {counts['steps']:,} steps, "
        f"{(counts['statements'] - counts['statements of calm']) / calls:.2f} statements and "
        f"{counts['notes'] / calls:.2f} notes a "
        f"call, {counts['started at once'] / calls:.0%} started without a statement, "
        f"waits p50 {middle * 1000:.1f} ms and p99 {late * 1000:.0f} ms, "
        f"{world.ledger.counts['lost']} lost; "
        + ", ".join(f"{counts[fault]} {fault}" for fault in faults)
        + f"; {seconds:.0f} s",
        flush=True,
    )


def try_world(world: World, calls: int, name: str) -> bool:
    """Runs one world; whether it kept its promises."""
    began = time.monotonic()
    try:
        world.run(calls)
    except BreachError as breach:
        print(f"{name}: BREACH after {world.counts['steps']:,} steps: {str(breach)[:2000]}")
        return False
    show(world, name, time.monotonic() - began)
    return True


async def prove(operations: int, seed: int) -> bool:
    """Runs small worlds of each strategy, and a large one of so many calls."""
    breaches = 0
    for number in range(seed, seed + SMALL_WORLDS):
        for strategy in STRATEGIES:
            setting = random_setting(random.Random(number), strategy)  # noqa: S311 - a test
            name = f"cluster, seed {number}, {strategy}"
            breaches += not try_world(World(number, setting), SMALL_CALLS, name)
        restless, name = World(number, restless_setting()), f"restless cluster, seed {number}"
        breaches += not try_world(restless, RESTLESS_CALLS, name)
    large = World(seed, large_setting())
    breaches += not try_world(large, operations, f"cluster of {PROCESSES} processes, seed {seed}")
    print(f"cluster: {breaches} breaches", flush=True)
    return not breaches
