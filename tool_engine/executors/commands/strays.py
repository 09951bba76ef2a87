"""Which processes did a command leave outside its process group, and how do they end?

Each command has a unique mark in its environment, which its children inherit; it finds a program
that moved to a session of its own. Only Linux shows environments, below /proc; elsewhere nothing is
found.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
from collections.abc import Iterator
from time import sleep
from typing import Final

MARK: Final = "TOOL_ENGINE_COMMAND"
_ROUNDS: Final = 50
_PAUSE: Final = 0.001
"""Seconds between two looks at a process that is about to have an environment."""
_SIZE, _END_OF_ENVIRONMENT = 20, 48
"""Places behind the state in a line of proc(5)'s stat: of memory, and the end of what is shown."""
_SECONDS_TO_DIE: Final = 1.0


def new_mark() -> str:
    return secrets.token_hex(8)


def marks_with(mark: str) -> str:
    """Return a new command's marks: its own, and those this process inherited."""
    return f"{os.environ.get(MARK, '')}:{mark}"


def end_strays(mark: str, younger_than: int = 0) -> int:
    """Kill every process with `mark` and its children; return how many. Blocks.

    Ids below `younger_than` are not examined, which saves reading each process of the machine after
    a command that ended by itself.
    """
    if _last_process() < younger_than:
        # The ids have wrapped around: a small one may be young.
        younger_than = 0
    ended = 0
    for _ in range(_ROUNDS):
        found = list(_find_marked(mark.encode(), younger_than))
        if not found:
            break
        for pid, handle in found:
            try:
                _kill_process(pid, handle)
            finally:
                os.close(handle)
        ended += len(found)
    return ended


def is_group_alive(group: int) -> bool:
    """Return True if the group has a process that is no zombie. Blocks."""
    for name in _list_processes():
        fields = _read_stat(name)
        if len(fields) > 2 and fields[2] == str(group).encode() and fields[0] not in b"ZX":
            return True
    return False


def _last_process() -> int:
    try:
        return int(_read_content("/proc/loadavg").split()[-1])
    except (ValueError, IndexError):
        return 0


def _find_marked(mark: bytes, younger_than: int) -> Iterator[tuple[int, int]]:
    """Yield the processes with `mark`, each with a handle that stays its own."""
    for name in _list_processes():
        if int(name) <= younger_than or not _has_mark(name, mark):
            continue
        with contextlib.suppress(OSError):
            handle = os.pidfd_open(int(name))
            # The id may have gone to another process before the handle existed.
            if _has_mark(name, mark):
                yield int(name), handle
            else:
                os.close(handle)


def _list_processes() -> list[str]:
    # Only names are needed: a path object for each would cost more than the rest.
    return [name for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208 - see above


def _has_mark(pid: str, mark: bytes) -> bool:
    environment = _read_environment(pid)
    if mark not in environment:
        return False
    marks = b"%s=" % MARK.encode()
    return any(mark in entry and entry.startswith(marks) for entry in environment.split(b"\0"))


def _read_environment(pid: str) -> bytes:
    """Return a process's environment; one that becomes another program has none for a moment."""
    path = f"/proc/{pid}/environ"
    for _ in range(_ROUNDS):
        if found := _read_content(path):
            return found
        if not _is_starting(pid):
            break
        sleep(_PAUSE)
    return _read_content(path)  # it may have come meanwhile


def _is_starting(pid: str) -> bool:
    """Return True if a process will have an environment, and nothing hides it from this one."""
    try:
        os.close(os.open(f"/proc/{pid}/environ", os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return False
    fields = _read_stat(pid)
    # Threads of the kernel, and what has ended, have no memory.
    return (
        len(fields) > _END_OF_ENVIRONMENT
        and fields[_SIZE] != b"0"
        and fields[_END_OF_ENVIRONMENT] == b"0"
    )


def _read_stat(pid: str) -> list[bytes]:
    """Return what the kernel says of a process, from its state on; nothing: it has ended."""
    # pid (name) state ppid pgrp ...; the name may hold anything, see proc(5).
    return _read_content(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def _read_content(path: str) -> bytes:
    """Return a file below /proc; empty for an ended process or another user's."""
    try:
        # Without the layers of `open`: this runs for each process of the machine.
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        pieces = []
        while piece := os.read(file, 1 << 16):
            pieces.append(piece)
        return b"".join(pieces)
    except OSError:
        return b""
    finally:
        os.close(file)


def _kill_process(pid: int, handle: int) -> None:
    with contextlib.suppress(OSError):
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    waiting = select.poll()
    waiting.register(handle, select.POLLIN)
    waiting.poll(_SECONDS_TO_DIE * 1000)
    # An orphan must be reaped here where this process is the first of its container.
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
