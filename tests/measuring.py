"""What does each test cost? A plugin of pytest, which `python -m tests --costs` asks of each part.

A test that waits leaves the processors to others, but no more than a few wait at a time: so the
time that it takes counts for a part.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.turns import COSTS, SHARE, name_of

__all__ = ["FOLDER", "write_costs"]

FOLDER = "TESTS_COSTS"
"""The variable with the folder into which each process writes what it has measured."""
WAITED = 4
"""So many seconds of waiting count as one of a processor."""

_seconds: defaultdict[str, float] = defaultdict(float)


def _read_processor() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Measures a test with what it sets up."""
    used, began = _read_processor(), time.monotonic()
    try:
        return (yield)
    finally:
        waited = (time.monotonic() - began) / WAITED
        _seconds[name_of(item)] += max(_read_processor() - used, waited)


def pytest_unconfigure() -> None:
    """Writes down what was measured."""
    Path(os.environ[FOLDER], f"{os.getpid()}.json").write_text(json.dumps(_seconds), "utf-8")


def write_costs(folder: Path) -> None:
    """Puts together what the processes have written, and keeps what takes turns from now on."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for file in folder.glob("*.json"):
        for name, took in json.loads(file.read_text("utf-8")).items():
            seconds[name] += took
    kept = {name: round(took, 2) for name, took in sorted(seconds.items()) if took > SHARE}
    assert kept, "no test was measured"
    COSTS.write_text(json.dumps(kept, indent=0) + "\n", "utf-8")
