"""What a conversation survives: processes that are killed at random moments while they save it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.effort import IS_WHOLE
from tests.warm import ROOT, run

ROUNDS = 12 if IS_WHOLE else 4


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_killed(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """What is left is the state that was acknowledged last, or the whole next one."""
    url = f"sqlite:///{tmp_path}/calls.db"
    if kind == "postgresql":
        url = request.getfixturevalue("postgres_server").fresh_database()
    words = ["-m", "tests.knowledge.sql.sessions_killed", url, str(ROUNDS)]
    done = run(words, cwd=ROOT, timeout=55)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [True] * ROUNDS
