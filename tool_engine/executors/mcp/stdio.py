"""How does a server run as a process of ours, so that nothing of it is left when it ends?

It starts in a session, and so in a process group, of its own, and speaks lines of JSON. A line is
bounded, what it writes to standard error is read and dropped but for its last words, and at the end
the whole group is killed before its leader is reaped, so that no number is used twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from time import monotonic, sleep
from types import TracebackType
from typing import Any, Final, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import (
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from tool_engine.executors.commands.strays import MARK, end_strays, marks_with, new_mark
from tool_engine.executors.mcp.faults import UNREADABLE, BadServerError
from tool_engine.executors.mcp.invalid import describe_unread
from tool_engine.executors.mcp.programs import explain_start
from tool_engine.forking import disown_in_child

MAX_LINE: Final = 16 * 1024 * 1024
"""The most bytes of one message."""
_INHERITED: Final = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER")
_CHUNK: Final = 64 * 1024
_LAST_WORDS: Final = 1_500
"""Characters of standard error that are kept; an error shows the end of them."""
_SECONDS_TO_END: Final = 2.0
"""Seconds that a server has after its input is closed, and again after SIGTERM."""
_ENDS: Final = 200
_ANSWER: Final = re.compile(rb'\s*{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,')
_ANSWER_BACKWARD: Final = re.compile(
    rb'"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*(\d{1,15})\s*}\s*\Z'
)
_MOST_WAITING: Final = 1_000
"""Messages that wait until the server reads, before answers to its own requests do."""
_CANCELLED: Final = "notifications/cancelled"
_POLL: Final = 0.01
_SECONDS_TO_DRAIN: Final = 0.2
"""Seconds for what an ended server has written and we have not read."""


class StdioTransport:
    """One run of a server's program, as a transport of the SDK.

    Args:
        command: The program and its arguments.
        env: Variables for it, beside those that every program needs.
        cwd: Where it runs.
    """

    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: str | None) -> None:
        self._command = list(command)
        self._mark = new_mark()
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        self._env = {**inherited, **env, MARK: marks_with(self._mark)}
        self._cwd = cwd
        self._is_foreign = False
        self._process: subprocess.Popen[bytes] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._closers: list[Any] = []
        self._connected: list[Any] = []
        """The pipes that their transports close."""
        self._errors: deque[bytes] = deque(maxlen=8)
        self._ended = asyncio.Event()
        self.fault: BadServerError | None = None
        """Why the connection ended, where the server broke a rule or ended."""

    async def __aenter__(self) -> tuple[Any, Any]:
        """Start the program.

        Raises:
            BadServerError: It cannot be started.
        """
        disown_in_child(self)
        # No task: those are all cancelled when the loop ends, and the thread would run on.
        starting = asyncio.get_running_loop().run_in_executor(None, self._start_program)
        cancelled: asyncio.CancelledError | None = None
        while not starting.done():
            try:
                await asyncio.wait([starting])
            except asyncio.CancelledError as error:
                if self._is_foreign:
                    raise  # in a forked process there is no such thread
                cancelled = error  # it cannot be stopped: what it starts ends with it
        if cancelled is not None:
            if starting.exception() is None:
                self._process = starting.result()
                await self._end_program()
            raise cancelled
        process = self._process = starting.result()
        try:
            return await self._connect_pipes(process)
        except BaseException:
            await self._end_program()
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the program and all that it has started."""
        await self._end_program()

    def disown(self, reason: str) -> None:
        """Let go of the program and of the ends of its pipes: this is a child of its owner."""
        self._is_foreign = True
        # The program would not see the end of its input while one of them is open. They are closed
        # beside their transports, which would change the selector that is the owner's too.
        process = self._process
        pipes = () if process is None else (process.stdin, process.stdout, process.stderr)
        for pipe in pipes:
            if pipe is not None:
                pipe.close()

    def last_words(self) -> str:
        """Return the end of what it wrote to standard error."""
        text = b"".join(self._errors).decode("utf-8", "replace").strip()
        end = text[-_LAST_WORDS:]
        # Of whole lines: half of a secret would not be known as one.
        return end if end == text else end.partition("\n")[2] or end

    def _start_program(self) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(  # noqa: S603 - the operator's own program, without a shell
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._env,
                cwd=self._cwd,
                start_new_session=True,
                bufsize=0,
            )
        except (OSError, ValueError) as error:
            raise self._explain_start(error) from None

    def _explain_start(self, error: OSError | ValueError) -> BadServerError:
        if isinstance(error, OSError):
            found = explain_start(self._command, self._env, self._cwd, error)
            return found or BadServerError(f"its program cannot be started: {error.strerror}")
        return BadServerError(
            "its program cannot be started: a text of its command, env or cwd holds a zero "
            "byte or half of a character, or a name of env an equals sign; remove it"
        )

    async def _connect_pipes(self, process: subprocess.Popen[bytes]) -> tuple[Any, Any]:
        loop = asyncio.get_running_loop()
        out, err = asyncio.StreamReader(limit=_CHUNK), asyncio.StreamReader(limit=_CHUNK)
        for reader, pipe in ((out, process.stdout), (err, process.stderr)):
            transport, _ = await loop.connect_read_pipe(
                partial(asyncio.StreamReaderProtocol, reader), pipe
            )
            self._closers.append(transport)
            self._connected.append(pipe)
        flow = asyncio.streams.FlowControlMixin(loop)
        writing, _ = await loop.connect_write_pipe(lambda: flow, process.stdin)
        self._connected.append(process.stdin)
        stdin = asyncio.StreamWriter(writing, flow, None, loop)
        self._closers.append(stdin)
        arriving, reads = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        leaving = _Outbox()
        self._closers += (arriving, reads, leaving)
        self._tasks = [
            loop.create_task(self._read_messages(out, arriving)),
            loop.create_task(self._write_messages(leaving, stdin, arriving)),
            loop.create_task(self._read_errors(err)),
            loop.create_task(self._watch_process(process, arriving)),
        ]
        return reads, leaving

    async def _read_messages(self, out: asyncio.StreamReader, arriving: Any) -> None:
        """Pass on each line as a message; the end, or a line too long, ends the connection."""
        pieces: list[bytes] = []
        size = 0
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            while chunk := await out.read(_CHUNK):
                *lines, rest = chunk.split(b"\n")
                for line in lines:
                    message = _read_message(b"".join((*pieces, line)))
                    try:
                        # Most are waited for: `send` would take a turn of the loop first.
                        arriving.send_nowait(message)
                    except anyio.WouldBlock:
                        await arriving.send(message)
                    pieces, size = [], 0
                pieces.append(rest)
                size += len(rest)
                if size > MAX_LINE:
                    self.fault = BadServerError(
                        f"it sent a line of more than {MAX_LINE // 2**20} MiB"
                    )
                    break
        if self.fault is None:
            # Its end is a moment away, and says why.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), _SECONDS_TO_DRAIN)
        arriving.close()

    async def _write_messages(
        self, leaving: _Outbox, stdin: asyncio.StreamWriter, arriving: Any
    ) -> None:
        with contextlib.suppress(OSError):
            while (sent := await leaving.take()) is not None:
                text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                stdin.write(text.encode() + b"\n")
                await stdin.drain()
            return
        arriving.close()

    async def _read_errors(self, err: asyncio.StreamReader) -> None:
        """Keep the last of what it writes there: a full pipe would stop it."""
        with contextlib.suppress(OSError):
            while chunk := await err.read(_CHUNK):
                self._errors.append(chunk[-_LAST_WORDS:])

    async def _watch_process(self, process: subprocess.Popen[bytes], arriving: Any) -> None:
        """End the connection with the process, whatever else holds its pipes."""
        await _wait_for_end(process.pid)
        self.fault = self.fault or BadServerError(_describe_end(process.pid))
        self._ended.set()
        await asyncio.sleep(_SECONDS_TO_DRAIN)
        arriving.close()

    async def _end_program(self) -> None:
        process = self._process
        if self._is_foreign:
            return
        for task in self._tasks:
            task.cancel()
        for each in reversed(self._closers):
            each.close()
        if process is not None:
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None and pipe not in self._connected:
                    pipe.close()
            ending = asyncio.ensure_future(asyncio.to_thread(_end_process, process, self._mark))
            try:
                await asyncio.shield(ending)
            except asyncio.CancelledError:
                await ending
                raise
        await asyncio.gather(*self._tasks, return_exceptions=True)


class _Outbox:
    """Messages that wait until the server reads; one that is given up meanwhile is taken out.

    So a call that ends never waits for a server that does not read, whose pipe is full, and when it
    reads again it is not kept busy with what nothing waits for any more.
    """

    def __init__(self) -> None:
        self._waiting: dict[object, SessionMessage] = {}
        self._has_news = asyncio.Event()
        self._has_room = asyncio.Event()
        self._is_closed = False

    async def send(self, item: SessionMessage) -> None:
        """Have a message sent, after those before it.

        Raises:
            anyio.ClosedResourceError: No more are.
        """
        message = item.message
        key: object = object()
        if isinstance(message, JSONRPCRequest):
            key = message.id
        elif not (isinstance(message, JSONRPCNotification) and message.method == _CANCELLED):
            while len(self._waiting) >= _MOST_WAITING and not self._is_closed:
                self._has_room.clear()
                await self._has_room.wait()
        elif self._waiting.pop((message.params or {}).get("requestId"), None) is not None:
            return
        if self._is_closed:
            raise anyio.ClosedResourceError
        self._waiting[key] = item
        self._has_news.set()

    async def take(self) -> SessionMessage | None:
        """Return the next message, once there is one; None: there are no more."""
        while not self._waiting:
            if self._is_closed:
                return None
            self._has_news.clear()
            await self._has_news.wait()
        self._has_room.set()
        return self._waiting.pop(next(iter(self._waiting)))

    def close(self) -> None:
        """Take no more messages."""
        self._is_closed = True
        self._has_news.set()
        self._has_room.set()

    async def aclose(self) -> None:
        """Take no more messages."""
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.close()


def _read_message(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValidationError as error:
        answered = _ANSWER.match(line[:_ENDS]) or _ANSWER_BACKWARD.search(line[-_ENDS:])
        if answered is None:
            return error
        # Its call would wait until its deadline.
        fault = ErrorData(code=UNREADABLE, message=describe_unread(error))
        return SessionMessage(JSONRPCError(jsonrpc="2.0", id=int(answered[1]), error=fault))


async def _wait_for_end(pid: int) -> None:
    """Wait until a child has ended, without reaping it."""
    loop = asyncio.get_running_loop()
    try:
        handle = os.pidfd_open(pid)
    except (AttributeError, OSError):
        while not _has_ended(pid):  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(50 * _POLL)
        return
    ended = asyncio.Event()
    loop.add_reader(handle, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)


def _has_ended(pid: int) -> bool:
    try:
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:
        return True
    return found is not None


def _describe_end(pid: int) -> str:
    try:
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:
        found = None
    if found is None:
        return "its program ended"
    if found.si_code == os.CLD_EXITED:
        return f"its program ended with exit code {found.si_status}"
    return f"its program was ended by {signal.Signals(found.si_status).name}"


def _end_process(process: subprocess.Popen[bytes], mark: str) -> None:
    """End a program, its group and its strays. Blocks for a few seconds at most."""
    # One that is stopped sees neither the end of its input nor SIGTERM before it goes on.
    for number in (signal.SIGCONT, signal.SIGTERM):
        _signal_group(process.pid, number)
        until = monotonic() + _SECONDS_TO_END
        while not _has_ended(process.pid) and monotonic() < until:
            sleep(_POLL)
        if _has_ended(process.pid):
            break
    _signal_group(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_SECONDS_TO_END)
    end_strays(mark)


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
