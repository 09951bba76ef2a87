"""How are all tests run, in as little time as two processors allow? Run by `make test`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[1]
FIRST = tuple(
    f"tests/{name}"
    for name in (
        *("agent", "approval", "catalog", "cli", "documents", "executors", "meta", "protocols"),
        *("redaction", "security"),
    )
)
"""About half of the work; the other process runs all that is not here."""


def started(folders: Sequence[str], out: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
    """Runs the tests below some folders, and measures their coverage."""
    measured = [sys.executable, "-m", "coverage", "run", "--parallel-mode", "-m", "pytest"]
    return subprocess.Popen([*measured, *folders], cwd=ROOT, stdout=out, stderr=out)


def coverage(*words: str) -> int:
    """What a command of coverage ends with."""
    return subprocess.run(
        [sys.executable, "-m", "coverage", *words], cwd=ROOT, check=False
    ).returncode


def heartbeats() -> int:
    """Runs once more what bounds how long the event loop is held up: coverage slows it down."""
    words = ["-m", "pytest", "tests/security", "-k", "heart or beats"]
    return subprocess.run([sys.executable, *words], cwd=ROOT, check=False).returncode


def main() -> int:
    """Runs both halves at once; shows the one as it goes, and what the other said after it."""
    coverage("erase")
    with tempfile.TemporaryFile() as said:
        other = started(["tests", *(f"--ignore={folder}" for folder in FIRST)], said)
        codes = [started(FIRST).wait(), other.wait()]
        said.seek(0)
        sys.stdout.write(said.read().decode("utf-8", "replace"))
        sys.stdout.flush()
    codes += [heartbeats(), coverage("combine", "--quiet"), coverage("report")]
    return max(map(abs, codes))


if __name__ == "__main__":
    sys.exit(main())
