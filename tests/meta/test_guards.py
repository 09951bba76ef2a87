"""Do the guards of tests/conftest.py find what they are there for?"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from tests import warm

ROOT = Path(__file__).parents[2]

TESTS = """
import asyncio
import threading
import time
import tool_engine.errors

# Compiled under a name inside the package: blocking counts where the package is on the stack.
BLOCKS = compile("time.sleep(0)", tool_engine.errors.__file__, "exec")

async def blocking():
    exec(BLOCKS, {"time": time})

async def test_that_leaks_a_task():
    asyncio.get_running_loop().kept = asyncio.create_task(asyncio.sleep(60))

async def test_that_leaks_a_thread():
    threading.Thread(target=threading.Event().wait, args=(10,), daemon=True).start()

async def test_that_blocks():
    await blocking()

async def test_fine(tmp_path):
    (tmp_path / "x").write_text("a test may open files")
    task = asyncio.create_task(asyncio.sleep(60))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.to_thread(time.sleep, 0)

def test_sync():
    time.sleep(0)
    asyncio.run(blocking())  # a test that is not async makes its own rules

async def test_that_blocks_later():
    await blocking()
"""

ENDS = {
    "test_that_leaks_a_task": "tasks left behind",
    "test_that_leaks_a_thread": "threads left behind",
    "test_that_blocks": "Blocking call to time.sleep",
    "test_that_blocks_later": "Blocking call to time.sleep",
}
"""What is said of each test that fails; an error in what comes after a test is one more."""

HANGS = """
import asyncio

async def wait_for_what_never_comes():
    await asyncio.Event().wait()

async def test_that_hangs():
    await asyncio.create_task(wait_for_what_never_comes(), name="forgotten")
"""


def run(source: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs tests that stand beside a copy of the project's conftest.py."""
    conftest = (ROOT / "tests" / "conftest.py").read_text(encoding="utf-8")
    brief = re.sub(r"^GRACE = .*$", "GRACE = 0.05", conftest, flags=re.MULTILINE)
    (folder / "conftest.py").write_text(brief)
    (folder / "test_it.py").write_text(source)
    return warm.run(
        [
            *("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:langsmith_plugin", *words),
            *("--rootdir", str(folder), "-o", "asyncio_mode=auto", "-c", "/dev/null"),
            str(folder),
        ],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "300"},  # the summary has one line for each test
        timeout=50,
    )


def test_guards(tmp_path: Path) -> None:
    """A leaked task, a leaked thread and a blocking call fail the test; good tests pass."""
    ended = run(TESTS, tmp_path)
    said = dict(re.findall(r"^(?:FAILED|ERROR) \S+::(\w+) - (.*)$", ended.stdout, re.MULTILINE))
    assert said.keys() == ENDS.keys(), ended.stdout + ended.stderr
    assert [name for name, text in ENDS.items() if text not in said[name]] == [], said
    assert ended.returncode == 1


def test_hanging_is_ended(tmp_path: Path) -> None:
    """A test past its time ends its process, which names it and where each task waits."""
    ended = run(HANGS, tmp_path, "--timeout=0.2", "--timeout-method=thread")
    assert ended.returncode == 1
    assert "Timeout" in ended.stdout, ended.stdout + ended.stderr
    assert re.search(r"^ERROR \S*::test_that_hangs had not", ended.stdout, re.MULTILINE)
    assert re.search(r"^forgotten\n  \S+:5 wait_for_what_never_comes$", ended.stdout, re.MULTILINE)
