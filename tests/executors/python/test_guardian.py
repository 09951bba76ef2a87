"""Is nothing left of a guest, however long it takes to die?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.ray_cluster import is_alive
from tool_engine.executors.python import guardian

PROGRAM = """
import ctypes, itertools, runpy, subprocess, sys, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER, as a worker does
clock = itertools.count(0, 2)
time.monotonic = lambda: next(clock)
guardian = runpy.run_path(sys.argv[1])
guest = subprocess.Popen(
    ["sh", "-c", "setsid sleep 1000 & echo $!; wait"], stdout=subprocess.PIPE, text=True
)
print(guest.stdout.readline(), flush=True)
guardian["_reap_all"](guest.pid)
"""


def test_a_machine_on_which_all_takes_seconds() -> None:
    """Two seconds are over at each look at the clock: a child in a session of its own ends, too."""
    place = str(Path(guardian.__file__))
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, place], stdout=subprocess.PIPE, timeout=60, check=True
    )
    assert not is_alive(int(found.stdout))
