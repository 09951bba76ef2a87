"""What a conversation survives: processes that are killed at random moments while they save it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROUNDS = 12


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_killed(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """What is left is the state that was acknowledged last, or the whole next one."""
    url = f"sqlite:///{tmp_path}/calls.db"
    if kind == "postgresql":
        url = request.getfixturevalue("postgres_server").fresh_database()
    command = [sys.executable, "-m", "tests.knowledge.sql.sessions_killed", url, str(ROUNDS)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=55, check=False)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == [True] * ROUNDS
