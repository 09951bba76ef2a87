"""How is a server reached over standard input and output?"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, Self

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage
from pydantic_core import PydanticSerializationError, ValidationError

from tool_engine.access.bodies import LONGEST
from tool_engine.errors import ConfigurationError
from tool_engine.mcp_server.bodies import Refused, check_message
from tool_engine.mcp_server.long_answers import LongValues

_AT_ONCE: Final = 1 << 16
"""Bytes that are read at once."""
_MOST_WRITTEN: Final = 1 << 20
"""Bytes that are written before others have their turn."""
_ENDS: Final = 512
"""Bytes at both ends of a line that is too long, in which the id of a request is looked for."""
_ID: Final = rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\]{0,200}")\s*'
_TEXT: Final = rb'"[^"\\]{0,100}"\s*'
_HEAD: Final = rb'\s*{\s*(?:"jsonrpc"\s*:\s*' + _TEXT + rb",\s*)?"
_BEGINS: Final = (
    re.compile(_HEAD + _ID + rb',\s*"method"\s*:'),
    re.compile(_HEAD + rb'"method"\s*:\s*' + _TEXT + rb",\s*" + _ID + b","),
)
_BEGINS_WITH_METHOD: Final = re.compile(_HEAD + rb'"method"\s*:')
_ENDS_WITH_ID: Final = re.compile(
    rb"[\]}]\s*,\s*(?:\"jsonrpc\"\s*:\s*" + _TEXT + rb",\s*)?" + _ID + rb"}\s*\Z"
)
_LAST_ANSWERS: Final = 1.0
"""Seconds for what a client has asked before it left, as one does that is a pipe."""


@asynccontextmanager
async def open_stdio() -> AsyncIterator[tuple[Any, Any]]:
    """Yield the streams of the one client; what tools print meanwhile goes to standard error."""
    with (
        _take_files() as (given, taken),
        contextlib.closing(_Lines(given)) as lines,
        contextlib.closing(_Output(taken)) as output,
        LongValues.carry() as values,
    ):
        answers = _Answers(output, values)
        yield _Questions(lines, answers), answers


class _Stream:
    """What the SDK's loop wants of both ends: it closes them when it is done."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Do nothing: the files are given back later."""


class _Questions(_Stream):
    """The messages of a client; the lines that are none are answered here."""

    def __init__(self, lines: _Lines, answers: _Answers) -> None:
        self._lines = lines
        self._answers = answers

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        while line := await self._lines.read_line(LONGEST + 1):
            try:
                return await self._read_message(line)
            except Refused as refused:
                error = types.JSONRPCError.model_validate(refused.to_dict())
                # The client may have left without reading.
                with contextlib.suppress(anyio.BrokenResourceError):
                    await self._answers.send(SessionMessage(error))
        await self._answers.wait_for_last(_LAST_ANSWERS)
        raise StopAsyncIteration

    async def receive(self) -> SessionMessage:
        """Return the next message."""
        try:
            return await anext(self)
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    async def _read_message(self, line: bytes) -> SessionMessage:
        if len(line) > LONGEST:
            request_id = _find_id(line[:_ENDS], await self._skip_rest(line))
            why = f"the line is too long: it may have {LONGEST >> 20} MiB; send less"
            raise Refused(types.INVALID_REQUEST, f"Invalid request: {why}", request_id)
        message = _make_message(await check_message(line))
        if isinstance(message, types.JSONRPCRequest):
            self._answers.expect(message.id)
        return SessionMessage(message)

    async def _skip_rest(self, line: bytes) -> bytes:
        """Pass over the rest of a line, and return its end."""
        end = line[-_ENDS:]
        while line and not line.endswith(b"\n"):
            line = await self._lines.read_line(LONGEST)
            end = (end + line[-_ENDS:])[-_ENDS:]
        return end


def _find_id(begin: bytes, end: bytes) -> str | int | None:
    """Return the id of a request of which only the ends are known: its client waits for an answer.

    Clients write it in front, or behind all else.
    """
    found = next(filter(None, (each.match(begin) for each in _BEGINS)), None)
    if found is None and _BEGINS_WITH_METHOD.match(begin):
        found = _ENDS_WITH_ID.search(end)
    try:
        said: str | int | None = None if found is None else json.loads(found[1])
    except ValueError:
        return None
    return said


def _make_message(value: Any) -> types.JSONRPCMessage:
    """Return a message of JSON-RPC.

    Raises:
        Refused: It is none. The SDK would drop it, and its client wait for ever.
    """
    # The models ignore keys that they do not have: a request with a bad id is no notification.
    is_request = isinstance(value, dict) and "method" in value and "id" in value
    try:
        if is_request:
            return types.JSONRPCRequest.model_validate(value, by_name=False)
        return types.jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValidationError as error:
        why = "it is no request, notification or answer of JSON-RPC"
        request_id = None
        if is_request:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            wrong = "id" if first["loc"][0] == "id" else ".".join(map(str, first["loc"]))
            why = f"{wrong!r} is not as JSON-RPC has it"
            request_id = None if wrong == "id" else value["id"]
        raise Refused(types.INVALID_REQUEST, f"Invalid request: {why}", request_id) from error


class _Answers(_Stream):
    """The stream of answers, which knows what has not been answered yet."""

    def __init__(self, output: _Output, values: LongValues) -> None:
        self._output = output
        self._values = values
        self._expected: set[Any] = set()
        self._is_done = asyncio.Event()

    async def send(self, item: SessionMessage) -> None:
        """Write one message, after those before it.

        Raises:
            anyio.BrokenResourceError: The client reads no more.
        """
        line = _write_line(item.message)
        await self._output.write([*self._values.fill(line), b"\n"])
        self._expected.discard(getattr(item.message, "id", None))
        if not self._expected:
            self._is_done.set()

    def expect(self, request_id: str | int) -> None:
        """Note that a request wants an answer."""
        self._expected.add(request_id)

    async def wait_for_last(self, seconds: float) -> None:
        """Wait until all is answered, for some time at most."""
        self._is_done.clear()
        if self._expected:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._is_done.wait()


def _write_line(message: types.JSONRPCMessage) -> bytes:
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    except PydanticSerializationError:
        # Half of a surrogate pair, which JSON has as an escape and UTF-8 not at all.
        return json.dumps(message.model_dump(by_alias=True, exclude_unset=True)).encode()


class _Output:
    """A file that is written to when it takes something.

    No thread waits for a client that does not read: it would keep the process from ending.
    """

    def __init__(self, file: int) -> None:
        self._file = file
        self._loop = asyncio.get_running_loop()
        self._left: deque[memoryview] = deque()
        self._is_free = asyncio.Event()
        self._is_broken = False

    async def write(self, pieces: Iterable[bytes]) -> None:
        """Write the pieces in one go; one that gives up waiting leaves none half written."""
        is_first = not self._left
        self._left += map(memoryview, pieces)
        if is_first:
            self._is_free.clear()
            self._write_more()
        while self._left:
            await self._is_free.wait()
        if self._is_broken:
            raise anyio.BrokenResourceError

    def close(self) -> None:
        """Write no more."""
        self._left.clear()
        self._loop.remove_writer(self._file)

    def _write_more(self) -> None:
        self._loop.remove_writer(self._file)
        written = 0
        try:
            while self._left and written < _MOST_WRITTEN:
                size = os.write(self._file, self._left[0][:_MOST_WRITTEN])
                written += size
                self._left[0] = self._left[0][size:]
                if not self._left[0]:
                    self._left.popleft()
        except BlockingIOError:
            self._loop.add_writer(self._file, self._write_more)
            return
        except OSError:
            self._is_broken = True
            self._left.clear()
        if self._left:
            self._loop.call_soon(self._write_more)
        else:
            self._is_free.set()


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
        except BlockingIOError:
            return
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
def _take_files() -> Iterator[tuple[int, int]]:
    """Yield standard input and output, for this server alone.

    For all others here the input has ended meanwhile, and the output goes to standard error.

    Raises:
        ConfigurationError: One of them is closed.
    """
    if sys.__stdin__ is None or sys.__stdout__ is None:
        # By now the number may stand for something else, such as what the loop waits with.
        raise ConfigurationError("standard input or output is closed, so there is no client")
    given, taken = os.dup(0), os.dup(1)
    could_wait = os.get_blocking(taken)
    try:
        with open(os.devnull, "r+b", 0) as nothing:  # noqa: PTH123 - a file of the system
            os.dup2(nothing.fileno(), 0)
            os.dup2(nothing.fileno(), 1)
        with contextlib.suppress(OSError):
            # Some close it.
            os.dup2(2, 1)
        os.set_blocking(taken, False)
        yield given, taken
    finally:
        # What a tool has printed, and is not written yet, is no answer either.
        with contextlib.suppress(AttributeError, OSError, ValueError):
            sys.stdout.flush()
        os.set_blocking(taken, could_wait)
        for kept, file in ((given, 0), (taken, 1)):
            os.dup2(kept, file)
            os.close(kept)
