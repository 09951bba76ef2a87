"""A program that ends without `close()` keeps its records; each runs as a process of its own."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests import warm

BOUND = 60.0
PROGRAM = """
import asyncio, os, sys, warnings
from tool_engine import *
warnings.simplefilter("always")
folder, durability, end = sys.argv[1:]
engine = ToolEngine(ToolEngineConfig(
    tools_directory=folder, records=f"sqlite:///{folder}/c.db", durability=durability))
@engine.tool(description="Echoes.")
async def ok(number: int) -> int:
    return number
async def main():
    await engine.load()
    for number in range(500):
        assert (await engine.execute("ok", {"number": number})).is_success
    if end == "locked":
        import sqlite3
        global holder
        await engine.store.storage.flush()
        holder = sqlite3.connect(f"{folder}/c.db", isolation_level=None)
        holder.execute("BEGIN EXCLUSIVE")
        assert (await engine.execute("ok", {"number": 500})).is_success
    if end == "closed":
        await engine.close()
    if end == "refused":
        await engine.close()
        result = await engine.execute("ok", {"number": 500})
        assert result.error_type == "engine_closed", result
    if end == "exit":
        sys.exit(0)
    if end == "raise":
        raise LookupError("as it happens")
asyncio.run(main())
if end == "fork":
    if not os.fork():
        sys.exit(0)  # the child has nothing to write
    os.wait()
"""


def run(folder: Path, durability: str, end: str) -> tuple[int, str]:
    """How many rows there are, and what was said."""
    done = warm.run(["-c", PROGRAM, str(folder), durability, end], timeout=BOUND)
    assert done.returncode == (1 if end == "raise" else 0), done.stderr
    with closing(sqlite3.connect(folder / "c.db")) as connection:
        return connection.execute("SELECT count(*) FROM tool_calls").fetchone()[0], done.stderr


@pytest.mark.parametrize(
    ("durability", "end"),
    [
        *(("buffered", end) for end in ("return", "exit", "raise", "fork")),
        *((durability, "return") for durability in ("batch", "call")),
    ],
)
def test_all_records_are_written(tmp_path: Path, durability: str, end: str) -> None:
    """However an orderly program ends; and Python says what was not closed."""
    rows, said = run(tmp_path, durability, end)
    assert rows == 500
    assert said.count("ResourceWarning: <RecordWriter") == 1
    assert "records_dropped" not in said


@pytest.mark.parametrize("end", ["closed", "refused"])
def test_what_was_closed_is_not_told(tmp_path: Path, end: str) -> None:
    """Neither a warning, nor an error about the call that came after the end."""
    rows, said = run(tmp_path, "buffered", end)
    assert rows == 500
    assert "ResourceWarning: <RecordWriter" not in said
    assert "records_dropped" not in said


def test_the_last_second_is_bounded(tmp_path: Path) -> None:
    """A database that takes nothing holds up the end no longer, and what is lost is told."""
    began = time.monotonic()
    rows, said = run(tmp_path, "buffered", "locked")
    assert rows == 500
    assert "records_dropped" in said
    assert time.monotonic() - began < BOUND / 2


COLLECTED_LAST = """
import asyncio, gc, sys
from tool_engine import ToolEngine, ToolEngineConfig
folder = sys.argv[1]
async def wait():
    await asyncio.sleep(60)
async def main():
    engine = ToolEngine(ToolEngineConfig(tools_directory=folder, records=f"sqlite:///{folder}/c.db"))
    engine.register_tool({"name": "wait", "description": "Waits."}, wait)
    await engine.load()
    call = engine.execute("wait")
    call.send(None)
    kept = [call]
    kept.append(kept)
    gc.disable()
asyncio.run(main())
"""


def test_a_call_that_is_collected_with_the_interpreter(tmp_path: Path) -> None:
    """It is broken off when no thread begins any more: the program ends all the same."""
    done = subprocess.run(
        [sys.executable, "-c", COLLECTED_LAST, str(tmp_path)],
        timeout=BOUND,
        check=True,
        capture_output=True,
    )
    assert b"Traceback" not in done.stderr
