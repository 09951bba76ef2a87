"""Is each process seen that a guest has left, whichever of its threads has started it?"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tool_engine.executors.python.children import Children, list_children

GUEST = """
import subprocess, sys, threading
def start(): started.append(subprocess.Popen(["sleep", "1000"]))
started, gate = [], threading.Event()
for line in sys.stdin:
    word = line.strip()
    if word == "thread": threading.Thread(target=gate.wait, daemon=True).start()
    if word == "start": start()
    if word == "start in a thread":
        starting = threading.Thread(target=lambda: (start(), done.set(), gate.wait()), daemon=True)
        done = threading.Event()
        starting.start()
        done.wait()
    if word == "end": started[-1].kill(); started.pop().wait()
    print(word, flush=True)
"""
GUARDIAN = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"


class Guest:
    """A process below a guardian, which starts others when it is asked to."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", GUARDIAN, GUEST],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.do("begin")
        self.guardian = self.process.pid
        (self.pid,) = list_children(self.guardian)

    def do(self, word: str) -> None:
        """Returns when it has done that."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(word, file=self.process.stdin, flush=True)
        assert self.process.stdout.readline().strip() == word


@pytest.fixture
def guest() -> Iterator[Guest]:
    made = Guest()
    try:
        yield made
    finally:
        made.process.communicate()


@pytest.mark.parametrize("start", ["start", "start in a thread"])
@pytest.mark.parametrize("threads", [0, 1])
def test_a_process_of_a_guest(guest: Guest, start: str, threads: int) -> None:
    """Seen while it is there, and no longer; with threads, and without any."""
    watched = Children(guest.guardian, guest.pid)
    for _ in range(threads):
        guest.do("thread")
    assert watched.are_as_expected()
    guest.do(start)
    assert not watched.are_as_expected()
    guest.do("end")
    assert watched.are_as_expected()
    watched.close()


def test_a_guest_that_has_ended(guest: Guest) -> None:
    """It has nothing that is as expected, and cannot be watched anew."""
    watched = Children(guest.guardian, guest.pid)
    guest.process.communicate()
    assert not watched.are_as_expected()
    watched.close()
    assert not watched.are_as_expected()
    with pytest.raises(OSError, match="No such file"):
        Children(guest.guardian, guest.pid)
