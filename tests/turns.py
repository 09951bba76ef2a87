"""Which of the tests that take long does a run of all try, and which does it leave to others?

What took at most `SHARE` when it was measured is tried in every run, and so is what was not
measured yet. Of a test that took longer, one of so many cases is tried that `SHARE` is what it
takes on average. Runs differ in which: each case has its turn in at most `MOST` successive numbers.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from zlib import crc32

import pytest

from tests.effort import IS_WHOLE

__all__ = ["COSTS", "MOST", "SHARE", "TURN", "is_in_turn", "list_in_turn", "name_of", "read_costs"]

TURN = "TESTS_TURN"
"""The variable with the number of a run; without it, all is tried."""
COSTS = Path(__file__).with_name("costs.json")
"""What `python -m tests --costs` has measured: seconds of the tests that took longer than `SHARE`,
with all of their cases."""
SHARE: Final = 0.1
"""Seconds of a processor, on average over the runs."""
MOST: Final = 12
"""One in how many runs tries a case at least."""


def read_costs() -> dict[str, float]:
    """Seconds of tests, by name."""
    found: dict[str, float] = json.loads(COSTS.read_text("utf-8"))
    return found


def name_of(item: pytest.Item) -> str:
    """The name of a test, which all its cases have."""
    return item.nodeid.partition("[")[0]


def is_in_turn(name: str, position: int, seconds: float, turn: int) -> bool:
    """Whether a run tries one case of a test.

    Args:
        name: The test.
        position: Which case it is.
        seconds: What all of its cases take.
        turn: The number of the run.
    """
    every = min(MOST, max(1, math.ceil(seconds / SHARE)))
    return (position + crc32(name.encode()) + turn) % every == 0


def list_in_turn(
    items: Sequence[pytest.Item], environment: Mapping[str, str] = os.environ
) -> list[pytest.Item]:
    """Those of the tests that this run tries; all, where it has no number or the whole effort."""
    turn = environment.get(TURN)
    if not turn or IS_WHOLE:
        return list(items)
    costs, seen, tried = read_costs(), Counter[str](), []
    for item in items:
        name = name_of(item)
        if is_in_turn(name, seen[name], costs.get(name, 0.0), int(turn)):
            tried.append(item)
        seen[name] += 1
    return tried
