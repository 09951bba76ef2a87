"""How are all tests run, in as little time as two processors allow? Run by `make test`."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORKERS = max(4, os.cpu_count() or 1)
"""More than processors: half of the time of many tests is waiting for processes and sockets."""


def run(*words: str) -> int:
    """Runs pytest, and gives what it ended with."""
    command = [sys.executable, "-m", "pytest", *words]
    # One seed for all workers: they must collect the same tests, in the same order.
    seed = os.environ.get("PYTHONHASHSEED") or str(secrets.randbelow(2**32))
    print(f"PYTHONHASHSEED={seed}", flush=True)
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    return abs(subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode)


def main() -> int:
    """Runs everything with coverage, a file in one worker; then what coverage slows down."""
    # A worker that a test has killed would be replaced, and run that test again, ten times over.
    spread = ("-n", str(WORKERS), "--dist", "loadfile", "--max-worker-restart=0")
    measured = ("--cov", "--cov-branch", "--cov-report=term-missing:skip-covered")
    everything = run("tests", *spread, *measured)
    # These bound how long the event loop is held up.
    heartbeats = run("tests/security", "-k", "heart or beats", "--no-cov")
    return max(everything, heartbeats)


if __name__ == "__main__":
    sys.exit(main())
