"""How is a server reached over standard input and output?"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, Self

import anyio
import mcp_types as types
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from tool_engine.access.bodies import LONGEST
from tool_engine.mcp_server.bodies import Refused, check_message

_AT_ONCE: Final = 1 << 16
"""Bytes that are read at once."""
_LAST_ANSWERS: Final = 1.0
"""Seconds for what a client has asked before it left, as one does that is a pipe."""


@asynccontextmanager
async def open_stdio() -> AsyncIterator[tuple[Any, Any]]:
    """Yield the streams of the one client; what tools print meanwhile goes to standard error."""
    with _take_input() as lines:
        guard = _LineGuard(lines)
        async with stdio_server(stdin=guard) as (read, write):  # type: ignore[arg-type]
            guard.answers = _Answers(write)
            yield read, guard.answers


class _LineGuard:
    """The lines of a client that can be read in one way; the others are answered here."""

    def __init__(self, lines: _Lines) -> None:
        self._lines = lines
        self.answers: Any = None
        """Where answers are sent, errors among them."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while line := await self._lines.read_line(LONGEST + 1):
            try:
                if len(line) > LONGEST:
                    await self._skip_rest(line)
                    raise Refused(types.INVALID_REQUEST, "Invalid request: the line is too long")
                self.answers.expect(await check_message(line))
            except Refused as refused:
                error = types.JSONRPCError.model_validate(refused.to_dict())
                # The client may have left without reading.
                with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await self.answers.send(SessionMessage(error))
                continue
            yield line
        await self.answers.wait_for_last(_LAST_ANSWERS)

    async def _skip_rest(self, line: bytes) -> None:
        while line and not line.endswith(b"\n"):
            line = await self._lines.read_line(LONGEST)


class _Answers:
    """The stream of answers, which knows what has not been answered yet."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._expected: set[Any] = set()
        self._is_done = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *exc_info: object) -> bool | None:
        closed: bool | None = await self._stream.__aexit__(*exc_info)
        return closed

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def send(self, item: Any) -> None:
        await self._stream.send(item)
        self._expected.discard(getattr(item.message, "id", None))
        if not self._expected:
            self._is_done.set()

    def expect(self, message: Any) -> None:
        """Note that a message asks for an answer, if it does."""
        if isinstance(message, dict) and "method" in message:
            request_id = message.get("id")
            if isinstance(request_id, str | int):
                self._expected.add(request_id)

    async def wait_for_last(self, seconds: float) -> None:
        """Wait until all is answered, for some time at most."""
        self._is_done.clear()
        if self._expected:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._is_done.wait()


class _Lines:
    """The lines of a file that is read when it has something to say.

    No thread waits for it: a client may keep its end open and say no more, and a thread that waits
    would keep the process from ending.
    """

    def __init__(self, file: int) -> None:
        self._file = file
        self._loop = asyncio.get_running_loop()
        self._data = bytearray()
        self._has_ended = False
        self._has_news = asyncio.Event()
        self._is_watched = False

    async def read_line(self, most: int) -> bytes:
        """Return the next line, or as many bytes of it; empty: there are no more."""
        looked_at = 0
        while True:
            end = self._data.find(b"\n", looked_at) + 1
            if end or self._has_ended or len(self._data) >= most:
                size = min(end or len(self._data), most)
                line = bytes(self._data[:size])
                del self._data[:size]
                return line
            looked_at = len(self._data)
            await self._wait_for_news()

    def close(self) -> None:
        """Read no more."""
        if self._is_watched:
            self._is_watched = False
            self._loop.remove_reader(self._file)

    async def _wait_for_news(self) -> None:
        self._has_news.clear()
        if not self._is_watched:
            try:
                self._loop.add_reader(self._file, self._read_news)
            except (OSError, NotImplementedError):
                # A file on a disk, or a system whose loop watches none.
                self._take_news(await asyncio.to_thread(os.read, self._file, _AT_ONCE))
                return
            self._is_watched = True
        await self._has_news.wait()

    def _read_news(self) -> None:
        try:
            self._take_news(os.read(self._file, _AT_ONCE))
        except OSError:
            self._take_news(b"")
        if self._has_ended or len(self._data) > LONGEST:
            # What is there is read first.
            self.close()

    def _take_news(self, data: bytes) -> None:
        self._data += data
        self._has_ended = not data
        self._has_news.set()


@contextmanager
def _take_input() -> Iterator[_Lines]:
    """Yield the lines of standard input; for all others here it has ended meanwhile."""
    kept = os.dup(0)
    try:
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a file of the system
            os.dup2(nothing.fileno(), 0)
        with contextlib.closing(_Lines(kept)) as lines:
            yield lines
    finally:
        os.dup2(kept, 0)
        os.close(kept)
