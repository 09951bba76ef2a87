"""What a record survives: engines that are killed at random moments, for each durability.

`make proof` kills each a hundred times.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROUNDS = {"call": 12, "batch": 6, "buffered": 5}


@pytest.mark.parametrize("mode", ROUNDS)
def test_killed(mode: str, tmp_path: Path) -> None:
    """Nothing that was acknowledged is lost beyond the documented bound; the file always opens."""
    command = [sys.executable, "-m", "tests.knowledge.sql.killed", mode, str(ROUNDS[mode])]
    run = subprocess.run(
        [*command, str(tmp_path)], capture_output=True, text=True, timeout=55, check=False
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["rounds"] == ROUNDS[mode]
    assert found["states"] == ["ok"]
    assert found["lost"] == 0
    assert found["unacknowledged"] == 0
    assert found["acknowledged"] > ROUNDS[mode]
