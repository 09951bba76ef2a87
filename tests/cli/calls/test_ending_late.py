"""What does a command say while something that it has begun does not end?"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

STUBBORN = """
import asyncio, contextlib, sys, time

async def swallow():
    print("begun", file=sys.stderr, flush=True)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)

def leave():
    time.sleep(60)
"""
BOUND = 30


@contextmanager
def calling(tmp_path: Path, name: str, *words: str, **keys: Any) -> Iterator[Any]:
    """Call a tool that goes on after its call; it is killed at the end."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "late.py").write_text(STUBBORN, encoding="utf-8")
    entry = {"type": "python", "handler": f"tools.late:{name}"}
    definition = {"name": "late", "description": "Goes on.", "entry": entry, **keys}
    (tools / "late.yaml").write_text(json.dumps(definition), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "tool_engine.cli", "call", "late", *words],
        cwd=tmp_path,
        env={**os.environ, "TOOL_ENGINE_RECORDS": f"sqlite:///{tmp_path}/calls.db"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_what_ctrl_c_waits_for(tmp_path: Path) -> None:
    """A tool that takes no cancelling is named after a second; a second Ctrl-C ends the command."""
    with calling(tmp_path, "swallow", timeout=100) as process:
        assert process.stderr.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        said = process.stderr.readline()
        assert said == "waiting for the call of late to end; Ctrl-C again ends it at once\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=BOUND)
    assert (process.returncode, out) == (130, "")
    assert err == "error: interrupted; the running calls were cancelled\n"


def test_a_result_that_is_known(tmp_path: Path) -> None:
    """It is printed before the wait for a thread that its tool has left, and only once."""
    with calling(tmp_path, "leave", "--json", timeout=0.2) as process:
        lines: list[str] = []
        while not lines or lines[-1] != "}\n":
            lines.append(process.stdout.readline())
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=BOUND)
    assert json.loads("".join(lines))["error_type"] == "timeout"
    assert (process.returncode, out) == (130, "")
    assert "error" not in err
