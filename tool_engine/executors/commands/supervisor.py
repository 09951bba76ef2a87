"""How does a program run so that nothing of it is left when its run ends?

The program starts in a session, and so in a process group, of its own. Its output is read as it
arrives, and the excess is dropped. At the deadline, when the bell rings or when output floods in,
the whole group gets SIGTERM, then SIGKILL. A group is signalled only while its leader is not
reaped, so that its number cannot have been reused; the kernel kills a group at once, so that no
fork escapes.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import math
import os
import selectors
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import cache
from time import monotonic, sleep
from typing import Final

import msgspec

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.commands.captured import Captured
from tool_engine.executors.commands.strays import (
    MARK,
    end_strays,
    is_group_alive,
    marks_with,
    new_mark,
)

MAX_FLOOD: Final = 64 * 1024 * 1024
"""Bytes of output, kept or dropped, after which a program is ended."""
_GRACE: Final = 1.0
"""The most seconds between SIGTERM and SIGKILL."""
_CHUNK: Final = 64 * 1024
LARGE: Final = 512 * 1024
"""Bytes of output whose decoding takes long; the default keeps little more."""
_DRAIN_READS: Final = 32
"""More than a pipe holds; bounded, as an escaped process may keep writing."""
_SECONDS_TO_VANISH: Final = 1.0


class End(Enum):
    ITSELF = "itself"
    TIMEOUT = "timeout"
    FLOOD = "flood"
    STOPPED = "stopped"


class Command(msgspec.Struct, frozen=True):
    program: str
    argv: Sequence[str]
    """Its first item is the name that the program sees as its own."""
    env: Mapping[str, str]
    cwd: str | None = None
    max_output: int = _CHUNK


class Finished(msgspec.Struct, frozen=True):
    exit_code: int | None
    """Negative: the number of the signal that ended it; None: another part of this process reaped
    it."""
    stdout: Captured
    stderr: Captured
    end: End

    @property
    def is_large(self) -> bool:
        return self.stdout.kept + self.stderr.kept > LARGE


class Bell:
    """A thread-safe signal that asks a supervisor to end its program."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._file = -1
        self.rings = 0
        """Number of rings that `listen` has received."""

    def open(self) -> None:
        """Open its pipe; raise `OSError` when this process has no descriptor left."""
        self._file = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def close(self) -> None:
        with self._lock:
            file, self._file = self._file, -1
            if file >= 0:
                os.close(file)

    def ring(self) -> None:
        """Ask for the end; the second time, for SIGKILL. After `close`, do nothing."""
        with self._lock:
            if self._file >= 0:
                os.eventfd_write(self._file, 1)

    def fileno(self) -> int:
        return self._file

    def listen(self) -> bool:
        with contextlib.suppress(BlockingIOError):
            self.rings += os.eventfd_read(self._file)
        return self.rings > 0


class Supervisor:
    """Runs one command; the calling thread must not be used for anything afterwards."""

    def __init__(self, command: Command, deadline: float | None, bell: Bell) -> None:
        self._command = command
        self._bell = bell
        seconds = math.inf if deadline is None else max(deadline - monotonic(), 0.0)
        # The caller's deadline covers the whole run: reserve time to end the group.
        self._grace = min(_GRACE, seconds / 10)
        self._kill_at = monotonic() + seconds - min(_GRACE / 4, seconds / 20)
        self._end_at = self._kill_at - self._grace
        self._end = End.ITSELF
        self._streams: dict[int, Captured] = {}

    def run(self) -> Finished:
        """Run the command to its end; raise `ToolExecutionError` if it cannot start. Blocks."""
        if self._bell.listen():
            raise ToolExecutionError("the call ended before its program was started")
        mark = new_mark()
        give_up_privileges()
        process = self._start_program(mark)
        try:
            try:
                self._watch_process(process)
            finally:
                exit_code = end_group(process, mark, is_complete=self._end is not End.ITSELF)
            for stream in self._streams:
                self._drain_stream(stream)
        finally:
            for stream in self._streams:
                os.close(stream)
        stdout, stderr = self._streams.values()
        return Finished(exit_code, stdout, stderr, self._end)

    def _start_program(self, mark: str) -> subprocess.Popen[bytes]:
        command = self._command
        written_to: list[int] = []
        try:
            for _ in ("stdout", "stderr"):
                reads, writes = os.pipe()
                self._streams[reads] = Captured(command.max_output)
                written_to.append(writes)
                os.set_blocking(reads, False)
            return subprocess.Popen(  # noqa: S603 - the definition names the program
                command.argv,
                executable=command.program,
                cwd=command.cwd,
                env={**command.env, MARK: marks_with(mark)},
                stdin=subprocess.DEVNULL,
                stdout=written_to[0],
                stderr=written_to[1],
                start_new_session=True,
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            for stream in self._streams:
                os.close(stream)
            raise ToolExecutionError(_start_problem(error, command)) from None
        finally:
            for stream in written_to:
                os.close(stream)

    def _watch_process(self, process: subprocess.Popen[bytes]) -> None:
        try:
            handle = os.pidfd_open(process.pid)
        except ProcessLookupError:
            return  # it has ended, and another part of this process has reaped it
        try:
            with selectors.PollSelector() as selector:
                for source in (handle, self._bell.fileno(), *self._streams):
                    selector.register(source, selectors.EVENT_READ)
                while True:
                    ready = {key.fd for key, _ in selector.select(self._seconds_to_look())}
                    for stream in ready & self._streams.keys():
                        if not self._read_stream(stream):
                            selector.unregister(stream)
                    if handle in ready:
                        return
                    self._bell.listen()
                    if self._end is End.ITSELF and self._must_end():
                        _signal_group(process, signal.SIGTERM)
                        self._kill_at = min(self._kill_at, monotonic() + self._grace)
                    if self._bell.rings > 1 or monotonic() >= self._kill_at:
                        return
        finally:
            os.close(handle)

    def _seconds_to_look(self) -> float | None:
        moment = self._end_at if self._end is End.ITSELF else self._kill_at
        return None if moment == math.inf else max(moment - monotonic(), 0.0)

    def _must_end(self) -> bool:
        if self._bell.rings:
            self._end = End.STOPPED
        elif monotonic() >= self._end_at:
            self._end = End.TIMEOUT
        elif sum(captured.size for captured in self._streams.values()) > MAX_FLOOD:
            self._end = End.FLOOD
        return self._end is not End.ITSELF

    def _read_stream(self, stream: int) -> bool:
        try:
            data = os.read(stream, _CHUNK)
        except BlockingIOError:
            return True
        self._streams[stream].feed(data)
        return bool(data)

    def _drain_stream(self, stream: int) -> None:
        """Read what is left in the pipe, without waiting for its end."""
        for _ in range(_DRAIN_READS):
            before = self._streams[stream].size
            self._read_stream(stream)
            if self._streams[stream].size == before:
                return


def _start_problem(error: Exception, command: Command) -> str:
    reason = getattr(error, "strerror", None) or str(error)
    if command.cwd is not None and getattr(error, "filename", None) == command.cwd:
        return f"the command cannot run in the folder {command.cwd}: {reason}; correct entry.cwd"
    if isinstance(error, OSError) and error.errno == errno.E2BIG:
        return "the arguments are too long for this system when put together; pass fewer"
    return f"the program {command.program} cannot be started: {reason}"


def end_group(process: subprocess.Popen[bytes], mark: str, *, is_complete: bool) -> int | None:
    """Kill what is left of the command; return its exit code.

    `is_complete` means to look for `mark` in every process of the machine.
    """
    _signal_group(process, signal.SIGKILL)
    exit_code = _reap_program(process)
    end_strays(mark, 0 if is_complete else process.pid)
    _wait_for_group(process.pid)
    return exit_code


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    try:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        # Reaped by another part of this process: the number may be another group's by now.
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _reap_program(process: subprocess.Popen[bytes]) -> int | None:
    """Wait for the program; `Popen.wait` would return 0 for a lost exit code."""
    code: int | None = None
    with contextlib.suppress(ChildProcessError):
        ended = os.waitid(os.P_PID, process.pid, os.WEXITED)
        if ended is not None:
            code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
    process.returncode = code or 0
    return code


def _wait_for_group(group: int) -> None:
    """Wait until the kernel has ended the killed processes."""
    give_up_at = monotonic() + _SECONDS_TO_VANISH
    while monotonic() < give_up_at:
        # Orphans must be reaped here where this process is the first of its container.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-group, os.WNOHANG)
        try:
            os.killpg(group, 0)
        except (ProcessLookupError, PermissionError):
            return
        # A zombie may wait long for its parent to reap it; it does nothing any more.
        if not is_group_alive(group):
            return
        sleep(0.001)


_PR_SET_NO_NEW_PRIVS: Final = 38


def give_up_privileges() -> None:
    """Make this thread and its children gain nothing from setuid programs.

    A program that became another user, such as `sudo`, could not be killed by this process. The
    change is permanent for the calling thread: use one that starts a single command. See prctl(2),
    PR_SET_NO_NEW_PRIVS.
    """
    _load_libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


@cache
def _load_libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)
