"""What a record survives: engines that are killed at random moments, for each durability.

`make proof` kills each a hundred times.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.effort import IS_WHOLE
from tests.warm import ROOT, run

ROUNDS = (
    {"call": 12, "batch": 6, "buffered": 5} if IS_WHOLE else {"call": 5, "batch": 3, "buffered": 3}
)


@pytest.mark.parametrize("mode", ROUNDS)
def test_killed(mode: str, tmp_path: Path) -> None:
    """Nothing that was acknowledged is lost beyond the documented bound; the file always opens."""
    words = ["-m", "tests.knowledge.sql.killed", mode, str(ROUNDS[mode]), str(tmp_path)]
    done = run(words, cwd=ROOT, timeout=55)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["rounds"] == ROUNDS[mode]
    assert found["states"] == ["ok"]
    assert found["lost"] == 0
    assert found["unacknowledged"] == 0
    assert found["acknowledged"] > ROUNDS[mode]
