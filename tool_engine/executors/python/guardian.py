"""How is nothing left of a guest, and of what it has started, when it or the engine ends?

This file imports nothing of the engine: a worker process loads it by its path.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import time
from typing import Final, NoReturn

_SECONDS_TO_DIE: Final = 30.0
"""One with much memory, or on a busy machine, takes seconds; what the system holds never dies."""
_PAUSE: Final = 0.001


def step_back(files: tuple[int, ...]) -> int:
    """Go on in a child of a child; return a handle of what is left in front, which ends as it does.

    Ray kills the children of a worker that ends, and at times theirs: a guardian must be neither.
    """
    in_front = os.pidfd_open(os.getpid())
    for _ in range(2):
        child = os.fork()
        if child:
            for file in files:
                os.close(file)
            _end_like(os.waitpid(child, 0)[1])
        os.setsid()
    return in_front


def guard_guest(guest: int, requests: int, in_front: int | None = None) -> NoReturn:
    """Wait for an end, clean up, and end in the same way."""
    waiting = select.poll()
    waiting.register(requests, 0)  # no data, only the end of the engine
    if in_front is not None:
        waiting.register(in_front, select.POLLIN)
    waiting.register(os.pidfd_open(guest), select.POLLIN)
    waiting.poll()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(guest, signal.SIGKILL)
    _end_like(_reap_all(guest))


def _end_like(status: int) -> NoReturn:
    if os.WIFSIGNALED(status):
        _die_by(os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


def _reap_all(guest: int) -> int:
    """End and reap all children of this process; return the guest's status."""
    status = 0
    give_up_at = time.monotonic() + _SECONDS_TO_DIE
    while True:
        for child in _list_children():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        try:
            ended, ended_with = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if ended == guest:
            status = ended_with
        if ended:
            # What it had started is a child of this process from now on.
            give_up_at = time.monotonic() + _SECONDS_TO_DIE
        elif time.monotonic() < give_up_at:
            time.sleep(_PAUSE)
        else:
            break
    return status


def _list_children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:  # noqa: PTH123 - see below
            # A path object would need an import, which costs more than the rest.
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def _die_by(number: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
