"""How is a server reached over standard input and output?"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from queue import SimpleQueue
from typing import Any, TextIO

import anyio
import mcp_types as types
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from tool_engine.mcp_server.bodies import LONGEST, Refused, check_message


@asynccontextmanager
async def open_stdio() -> AsyncIterator[tuple[Any, Any]]:
    """Yield the streams of the one client; what tools print meanwhile goes to standard error."""
    with _take_input() as lines:
        guard = _LineGuard(lines)
        async with stdio_server(stdin=guard) as (read, write):  # type: ignore[arg-type]
            guard.answers = write
            yield read, write


class _LineGuard:
    """The lines of a client that can be read in one way; the others are answered here."""

    def __init__(self, lines: _Lines) -> None:
        self._lines = lines
        self.answers: Any = None
        """Where errors are sent."""

    async def __aiter__(self) -> AsyncIterator[str]:
        while line := await self._lines.read_line(LONGEST + 1):
            try:
                if len(line) > LONGEST:
                    await self._skip_rest(line)
                    raise Refused(types.INVALID_REQUEST, "Invalid request: the line is too long")
                await check_message(line)
            except Refused as refused:
                error = types.JSONRPCError.model_validate(refused.to_dict())
                # The client may have left without reading.
                with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await self.answers.send(SessionMessage(error))
                continue
            yield line

    async def _skip_rest(self, line: str) -> None:
        while line and not line.endswith("\n"):
            line = await self._lines.read_line(LONGEST)


class _Lines:
    """The lines of a file, read in a thread that does not keep the process from ending.

    A client may keep its end open and say no more: reading cannot be broken off.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._wanted: SimpleQueue[tuple[asyncio.Future[str], int] | None] = SimpleQueue()
        threading.Thread(target=self._read_wanted, name="mcp-stdin", daemon=True).start()

    async def read_line(self, most: int) -> str:
        """Return the next line, or as many characters of it; empty: there are no more."""
        line: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._wanted.put((line, most))
        return await line

    def close(self) -> None:
        self._wanted.put(None)

    def _read_wanted(self) -> None:
        while (wanted := self._wanted.get()) is not None:
            future, most = wanted
            try:
                line = self._file.readline(most)
            except (OSError, ValueError):
                line = ""
            # The loop has ended meanwhile.
            with contextlib.suppress(RuntimeError):
                future.get_loop().call_soon_threadsafe(_set_line, future, line)


def _set_line(future: asyncio.Future[str], line: str) -> None:
    if not future.done():
        future.set_result(line)


@contextmanager
def _take_input() -> Iterator[_Lines]:
    """Yield the lines of standard input; for all others here it has ended meanwhile."""
    kept = os.dup(0)
    lines = None
    try:
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a file of the system
            os.dup2(nothing.fileno(), 0)
        # Not closed with it: the thread may still wait for a line when the server ends.
        raw = os.fdopen(kept, "rb", closefd=False)
        lines = _Lines(io.TextIOWrapper(raw, encoding="utf-8", errors="replace"))
        yield lines
    finally:
        if lines is not None:
            lines.close()
        os.dup2(kept, 0)
