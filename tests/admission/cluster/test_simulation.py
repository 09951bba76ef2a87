"""Do a coordinator and its processes keep their promises, whatever goes wrong between them?

`python -m tests.proof cluster` does the same with a thousand processes, and for longer.
"""

from __future__ import annotations

import random

import pytest

from tests.admission.cluster.cluster_world import World
from tests.admission.cluster.ledger import Ledger
from tests.admission.cluster.shared_by_a_world import random_setting
from tests.effort import IS_WHOLE
from tool_engine.admission.cluster.cluster_limits import STRATEGIES, ClusterLimits

CALLS = 500
SEEDS = range(1, 13 if IS_WHOLE else 3)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_no_breach(seed: int, strategy: str) -> None:
    """Never more than the limit, in order, no place lost, one end for each call, none starves."""
    world = World(seed, random_setting(random.Random(seed), strategy))  # noqa: S311 - a test
    world.run(CALLS)
    assert world.ledger.counts["ended"] > CALLS / 5
    faults = ("kill", "freeze", "doze", "drop", "cut", "sever", "crash")
    assert sum(world.counts[fault] for fault in faults) >= 3


def test_one_seed_is_one_run() -> None:
    """What was found once is found again."""
    runs = []
    for _ in range(2):
        world = World(3, random_setting(random.Random(3), "fair"))  # noqa: S311 - a test
        world.run(150)
        runs.append((world.counts, world.now, world.ledger.waits))
    assert runs[0] == runs[1]


@pytest.mark.parametrize(
    ("before", "out", "now_out", "allowed"),
    [(3, 3, 3, 3), (3, 3, 1, 2), (3, 1, 3, 2), (3, 0, 3, 2), (2, 3, 3, 2)],
)
def test_a_lowered_limit_and_units_on_their_way(
    before: int, out: int, now_out: int, allowed: int
) -> None:
    """What was granted under the limit of before, and no process has heard of yet, may be used."""
    used = {"bucket:ai": out}
    ledger = Ledger(ClusterLimits(1, buckets={"ai": before}), lambda: used)
    ledger.adopt(ClusterLimits(2, buckets={"ai": 2}))
    assert ledger.ceiling_of("bucket:ai") == min(before, max(2, out))
    used["bucket:ai"] = now_out
    assert ledger.ceiling_of("bucket:ai") == allowed
    used["bucket:ai"] = 3
    assert ledger.ceiling_of("bucket:ai") == allowed
