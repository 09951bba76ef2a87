"""How does the engine talk to one worker process, and how is nothing of it left at its end?

All of it blocks: a thread that a call has for itself does it. See `guest` for the other side.
"""

from __future__ import annotations

import contextlib
import fcntl
import inspect
import os
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Callable
from time import monotonic
from typing import Any, Final

import msgspec

from tool_engine.errors import ConfigurationError, ToolExecutionError
from tool_engine.executors.commands.captured import Captured
from tool_engine.executors.commands.strays import MARK, marks_with, new_mark
from tool_engine.executors.commands.supervisor import MAX_FLOOD, Bell, end_group
from tool_engine.executors.handler import wants_context
from tool_engine.executors.lost_work import WorkerLostError
from tool_engine.executors.python import guest
from tool_engine.executors.python.children import Children, list_children
from tool_engine.executors.python.python_entry import PythonEntry

_CHUNK: Final = 64 * 1024
"""All that a pipe holds."""
_KEPT_WORDS: Final = 16 * 1024
_SHOWN_WORDS: Final = 500
_SECONDS_TO_END: Final = 1.5
"""What the guardian has to clean up, before the engine does it."""


class Finding(msgspec.Struct):
    """What a handler's types have found wrong with one argument."""

    parameter: str
    error_type: str
    message: str
    expected: Any = None
    actual: Any = None
    path: str = ""
    """Its place in the arguments; empty: it is that parameter."""


class Fault(msgspec.Struct):
    """What a handler raised."""

    type: str
    message: str
    kind: str
    """`plain`, or what it means to the engine: `execution`, `arguments`, `definition`, `timeout`,
    `memory`, `exit`.
    """
    error_type: str = ""
    """Of an `execution` what its class says; empty: nothing."""
    details: dict[str, Any] = {}
    is_final: bool = False
    findings: list[Finding] = []
    frames: str = ""
    """Where in the code it was raised, for the tool's author."""
    raised_at: str = ""
    """The line of that author's own code; empty: of none."""

    @property
    def words(self) -> str:
        """As a person would name it."""
        return f"{self.type}: {self.message}" if self.message else self.type


class Report(msgspec.Struct):
    """What a handler says of its call while it runs it."""

    message: str | None = None
    level: str | None = None
    """Of a line to be logged; None: this is about its progress."""
    done: int | float = 0
    total: int | float | None = None


class Answer(msgspec.Struct):
    """What a worker says to one request."""

    id: int
    value: Any = None
    error: Fault | None = None
    report: Report | None = None
    """Set: the answer itself is still to come."""


class WorkerStoppedError(Exception):
    """The worker had to be stopped, for its call is over: `reason` is `deadline` or `bell`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class UnreadError(ToolExecutionError):
    """The worker died before it had read all of a request, so nothing of the call has run."""


_decoder: Final = msgspec.json.Decoder(Answer)


class Worker:
    """One worker process, which is started at once.

    Args:
        entry: What it runs, and within which limits.

    Raises:
        ToolExecutionError: It cannot be started.
    """

    is_shared = False
    """Whether it may run several calls at once."""
    _words_behind: tuple[str, ...] = ()
    """What the guest is started with, beside its files."""

    def __init__(self, entry: PythonEntry) -> None:
        self.entry = entry
        self.is_ready = False
        """Whether it has imported the handler."""
        self.words = Captured(_KEPT_WORDS)
        """What it has written to stdout and stderr."""
        self._mark = new_mark()
        self._number = 0
        self._wants_context = False
        self._received = bytearray()
        self._files: list[int] = []
        self._code: int | None = None
        self._guest, self._guest_handle = 0, -1
        self._guardian_handle = -1
        self._children: Children | None = None
        self._ends = select.poll()
        try:
            self._requests, self._answers, self._out = self._start_process()
            self._handle = os.pidfd_open(self._process.pid)
            self._files.append(self._handle)
            self._ends.register(self._handle, select.POLLIN)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self._close_files()
            raise ToolExecutionError(
                f"the worker process of {entry.place} cannot be started: {error}"
            ) from None

    def __repr__(self) -> str:
        return f"Worker({self.entry.place}, pid={self._process.pid})"

    @property
    def is_alive(self) -> bool:
        """Whether it may take another call: it runs, and nothing else does that it started."""
        children = self._children
        return children is not None and not self._has_ended() and children.are_as_expected()

    def prepare(self, deadline: float | None, bell: Bell) -> Answer:
        """Lets it import the handler.

        Returns:
            What its handler takes, or what the import raised.

        Raises:
            ToolExecutionError: It ended.
            WorkerStoppedError: The deadline passed, or the bell rang.
        """
        entry = self.entry
        answer = self._exchange_message(
            msgspec.json.encode(
                {
                    "path": sys.path,
                    "module": entry.module,
                    "name": entry.name,
                    "approved": entry.approved,
                    "parameters": entry.parameters,
                    "memory": entry.memory,
                    "cpu": entry.cpu,
                    "is_shared": self.is_shared,
                }
            ),
            deadline,
            bell,
        )
        guardian = self._find_guardian()
        self._guest = next(iter(list_children(guardian)), 0)
        with contextlib.suppress(OSError):
            self._guardian_handle = os.pidfd_open(guardian)
            self._files.append(self._guardian_handle)
            self._guest_handle = os.pidfd_open(self._guest)
            self._files.append(self._guest_handle)
            self._ends.register(self._guest_handle, select.POLLIN)
            self._children = Children(guardian, self._guest)
        self.is_ready = answer.error is None
        if self.is_ready:
            signature = signature_of(answer.value)
            self._wants_context = signature is not None and wants_context(signature)
        return answer

    def call(
        self,
        params: dict[str, Any],
        context: dict[str, Any],
        deadline: float | None,
        bell: Bell,
        trace: dict[str, str] | None = None,
        hear: Callable[[Report], object] | None = None,
    ) -> Answer:
        """Lets it call the handler; `hear` takes what that reports meanwhile.

        Raises:
            UnreadError: It ended, and has not begun with the call.
            ToolExecutionError: It ended, or the arguments cannot be sent.
            WorkerStoppedError: The deadline passed, or the bell rang.
        """
        self._number += 1
        self.forget_words()
        request = {
            "id": self._number,
            "params": params,
            "context": context if self._wants_context else None,
            "seconds": None if deadline is None else deadline - monotonic(),
            "trace": trace or {},
        }
        return self._exchange_message(write_request(request), deadline, bell, hear)

    def forget_words(self) -> None:
        """Forgets what earlier calls have written, in the pipe, too: the next may not see it."""
        _read_file(self._out)
        self.words = Captured(_KEPT_WORDS)

    def end(self) -> int | None:
        """Ends the process and all that it has started. Blocks.

        Returns:
            Its exit code, negative for a signal.
        """
        if not self._files:
            return self._code
        os.close(self._requests)  # the guardian takes it for the end of the engine
        self._files.remove(self._requests)
        # The guardian may stand behind what was started and be at its work when that has ended: to
        # kill it then, by its mark, leaves what it has not ended, should this process die now.
        for file in (self._handle, self._guardian_handle):
            if file >= 0:
                waiting = select.poll()
                waiting.register(file, select.POLLIN)
                waiting.poll(_SECONDS_TO_END * 1000)
        try:
            self._code = end_group(self._process, self._mark, is_complete=True)
            return self._code
        finally:
            self._close_files()

    def ended(self) -> ToolExecutionError:
        """Ends it, and says in words how it died; to be raised."""
        self._read_words()
        how = _describe_death(self.end(), self.entry)
        words = self.words.text().strip()
        if len(words) > _SHOWN_WORDS:
            # Whole lines only: half of a secret would not be known as one, and so be shown.
            words = words[-_SHOWN_WORDS:].partition("\n")[2]
        lost = self._code is None or self._code != -signal.SIGXCPU
        made = WorkerLostError if lost else ToolExecutionError
        return made(
            f"the worker process of {self.entry.place} {how}{f': {words}' if words else ''}"
        )

    @property
    def was_killed(self) -> bool:
        """Whether a signal has ended it that is no limit of its entry: others have, or memory."""
        return self._code is not None and self._code < 0 and self._code != -signal.SIGXCPU

    def _start_process(self) -> tuple[int, int, int]:
        pipes: list[int] = []
        with contextlib.ExitStack() as theirs:
            for _ in range(3):
                pipes += os.pipe()
            requests_in, requests, answers, answers_in, out, out_in = pipes
            self._files += [requests, answers, out]
            for file in (requests_in, answers_in, out_in):
                theirs.callback(os.close, file)
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter, our script
                [
                    *_INTERPRETER,
                    guest.__file__,
                    str(requests_in),
                    str(answers_in),
                    *self._words_behind,
                ],
                stdin=subprocess.DEVNULL,
                stdout=out_in,
                stderr=out_in,
                pass_fds=(requests_in, answers_in),
                env={**os.environ, MARK: marks_with(self._mark)},
                start_new_session=True,
            )
        for file in (requests, answers, out):
            os.set_blocking(file, False)
        return requests, answers, out

    def _exchange_message(
        self,
        data: bytes,
        deadline: float | None,
        bell: Bell,
        hear: Callable[[Report], object] | None = None,
    ) -> Answer:
        """Sends a message and waits for its answer, whatever the worker does."""
        left = memoryview(len(data).to_bytes(4, "big") + data)
        waiting = select.poll()
        for file in (self._answers, self._out, self._handle, bell.fileno()):
            waiting.register(file, select.POLLIN)
        waiting.register(self._requests, select.POLLOUT)
        while True:
            ready = _wait_for_files(waiting, deadline, bell)
            if self._requests in ready:
                sent = self._send_bytes(left)
                left = left[sent or 0 :]
                if sent is None or not left:
                    waiting.unregister(self._requests)
            if self._out in ready and not self._read_words():
                waiting.unregister(self._out)
            if self._answers in ready and not self._receive_bytes():
                waiting.unregister(self._answers)
            while (answer := self._take_message(hear)) is not None:
                if answer.report is None:
                    return answer
            if self._handle in ready:
                # What it has not read is in the pipe still.
                unread = left or any(fcntl.ioctl(self._requests, termios.FIONREAD, bytes(4)))
                ended = self.ended()
                raise UnreadError(str(ended)) if unread else ended

    def _send_bytes(self, left: memoryview) -> int | None:
        """How many bytes of a message could be sent; None: it has ended."""
        try:
            return os.write(self._requests, left)
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            return None

    def _receive_bytes(self) -> bool:
        """Takes what it has sent; false when it will send no more."""
        piece = _read_file(self._answers)
        self._received += piece or b""
        return piece != b""

    def _take_message(self, hear: Callable[[Report], object] | None) -> Answer | None:
        """The next report, or the answer, once it is complete."""
        size = int.from_bytes(self._received[:4], "big")
        if len(self._received) < 4 or (
            size <= guest.MAX_MESSAGE and len(self._received) < size + 4
        ):
            return None
        answer = None
        with contextlib.suppress(msgspec.DecodeError, RecursionError, ConfigurationError):
            read = _decoder.decode(self._received[4 : size + 4])
            if read.report is not None and hear is not None:
                hear(read.report)
            answer = read
        del self._received[: size + 4]
        is_more = self._received and (answer is None or answer.report is None)
        if answer is None or answer.id != self._number or is_more:
            self.end()
            raise ToolExecutionError(
                f"the worker process of {self.entry.place} sent something that is no answer, and "
                "was stopped; write to stdout or stderr, not to other open files"
            )
        return answer

    def _read_words(self) -> bool:
        """Reads what it has written; false at the end. One that writes without end is stopped."""
        piece = _read_file(self._out)
        self.words.feed(piece or b"")
        if self.words.size > MAX_FLOOD:
            self.end()
            raise ToolExecutionError(
                f"{self.entry.place} wrote more than {MAX_FLOOD // 2**20} MiB and was stopped"
            )
        return piece != b""

    def _has_ended(self) -> bool:
        """Whether the guest or its guardian has, which outlives it by a moment."""
        return self._guest_handle < 0 or bool(self._ends.poll(0))

    def _find_guardian(self) -> int:
        """The process id of the guest's guardian."""
        return self._process.pid

    def _close_files(self) -> None:
        if self._children is not None:
            self._children.close()
        files, self._files = self._files, []
        for file in files:
            os.close(file)


def write_request(request: dict[str, Any]) -> bytes:
    """Return the message that asks for a call.

    Raises:
        ToolExecutionError: Its arguments cannot be sent.
    """
    try:
        data = msgspec.json.encode(request)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ToolExecutionError(
            f"the arguments cannot be sent as JSON: {error}; send a number with so many digits as "
            "text"
        ) from None
    if len(data) <= guest.MAX_MESSAGE:
        return data
    sizes = {name: len(msgspec.json.encode(each)) for name, each in request["params"].items()}
    name = max(sizes, key=sizes.__getitem__, default="")
    largest = f", {name!r:.100} alone {sizes[name]}" if name else ""
    raise ToolExecutionError(
        f"the arguments have {len(data)} bytes{largest}, where {guest.MAX_MESSAGE} are the most; "
        "send less, or write it where the tool can read it, and send the place"
    )


def signature_of(described: Any) -> inspect.Signature | None:
    """The signature that a worker has described; None where a function in C has none."""
    parameters = described["parameters"]
    if parameters is None:
        return None
    return inspect.Signature(
        [
            inspect.Parameter(
                name,
                _KINDS[kind],
                default=None if has_default else inspect.Parameter.empty,
            )
            for name, kind, has_default in parameters
        ]
    )


_KINDS: Final = {
    int(kind): kind
    for kind in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.VAR_POSITIONAL,
        inspect.Parameter.KEYWORD_ONLY,
        inspect.Parameter.VAR_KEYWORD,
    )
}
_INTERPRETER: Final = (sys.executable, "-I", "-u")


def _wait_for_files(waiting: select.poll, deadline: float | None, bell: Bell) -> set[int]:
    """The files that are ready; raises `WorkerStoppedError` when the call is over."""
    seconds = None if deadline is None else deadline - monotonic()
    if bell.listen():
        raise WorkerStoppedError("bell")
    if seconds is not None and seconds <= 0:
        raise WorkerStoppedError("deadline")
    return {file for file, _ in waiting.poll(None if seconds is None else seconds * 1000)}


def _read_file(file: int) -> bytes | None:
    """What is there; None when there is nothing now, empty at the end."""
    try:
        return os.read(file, _CHUNK)
    except BlockingIOError:
        return None


def _describe_death(code: int | None, entry: PythonEntry) -> str:
    if code is None:
        return "has ended, and another part of this process took its exit code"
    if code >= 0:
        return f"ended with the exit code {code} in the middle of a call"
    if code == -signal.SIGXCPU and entry.cpu:
        return f"used more than {entry.cpu:g} s of processor time, its entry.config.cpu"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else "unknown"
    cause = "; the system may have run out of memory" if code == -signal.SIGKILL else ""
    return f"was ended by the signal {-code} ({name}){cause}"
