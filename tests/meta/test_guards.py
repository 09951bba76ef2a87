"""Do the guards of tests/conftest.py find what they are there for?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

LEAKS_A_TASK = """
import asyncio

async def test_leak():
    asyncio.get_running_loop().kept = asyncio.create_task(asyncio.sleep(60))
"""

LEAKS_A_THREAD = """
import threading

async def test_leak():
    threading.Thread(target=threading.Event().wait, args=(10,), daemon=True).start()
"""

# Compiled under a name inside the package: blocking counts where the package is on the stack.
BLOCKS_THE_LOOP = """
import time
import tool_engine.errors

async def test_block():
    code = compile("time.sleep(0)", tool_engine.errors.__file__, "exec")
    exec(code, {"time": time})
"""

KEEPS_THE_RULES = """
import asyncio
import time

async def test_fine(tmp_path):
    (tmp_path / "x").write_text("a test may open files")
    task = asyncio.create_task(asyncio.sleep(60))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.to_thread(time.sleep, 0)

def test_sync():
    time.sleep(0)
"""


@pytest.mark.parametrize(
    ("source", "outcome", "message"),
    [
        (LEAKS_A_TASK, 1, "tasks left behind"),
        (LEAKS_A_THREAD, 1, "threads left behind"),
        (BLOCKS_THE_LOOP, 1, "Blocking call to time.sleep"),
        (KEEPS_THE_RULES, 0, "2 passed"),
    ],
    ids=["task", "thread", "blocking", "fine"],
)
def test_guard(source: str, outcome: int, message: str, tmp_path: Path) -> None:
    """A leaked task, a leaked thread and a blocking call fail the test; good tests pass."""
    conftest = (ROOT / "tests" / "conftest.py").read_text(encoding="utf-8")
    (tmp_path / "conftest.py").write_text(conftest.replace("GRACE = 2.0", "GRACE = 0.05"))
    (tmp_path / "test_it.py").write_text(source)
    run = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("--rootdir", str(tmp_path), "-o", "asyncio_mode=auto", "-c", "/dev/null"),
            str(tmp_path),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert (run.returncode, message in run.stdout) == (outcome, True), run.stdout + run.stderr
