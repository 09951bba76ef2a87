"""How is a long answer sent without holding up other clients?

The SDK checks and writes an answer on the event loop, several times over. So it gets a mark in the
place of each long value, and what writes to the client puts the value back: as JSON, which was made
in a thread.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Final

from tool_engine.mcp_server.sendable import encode_json
from tool_engine.model.json.weighing import pack_small, write_in_pieces

LONG: Final = 1 << 16
"""Bytes of what is written on the event loop."""
_PIECE: Final = 1 << 18
"""Letters that are sent at once."""
_SECRET: Final = secrets.token_hex(16)
"""No tool can know it, so none can write a mark."""
_MARK: Final = re.compile(rb'\{?"(%s-\d+)"(?::0\})?' % _SECRET.encode())
_here: Final[ContextVar[LongValues | None]] = ContextVar("mcp_long_values", default=None)


class LongValues:
    """The long values of answers that are on their way to one client, by their marks."""

    def __init__(self) -> None:
        self._values: dict[bytes, list[bytes]] = {}
        self._count = 0

    @staticmethod
    @contextmanager
    def carry() -> Iterator[LongValues]:
        """Yield the values that answers of here may leave."""
        before = _here.set(values := LongValues())
        try:
            yield values
        finally:
            _here.reset(before)

    def leave(self, pieces: list[bytes]) -> str:
        """Return the mark of a value, which is written as these pieces."""
        self._count += 1
        mark = f"{_SECRET}-{self._count}"
        self._values[mark.encode()] = pieces
        return mark

    def fill(self, body: bytes) -> list[bytes]:
        """Return the pieces of an answer, with the values in the place of their marks."""
        if not self._values:
            return [body]
        pieces, end = [], 0
        for found in _MARK.finditer(body):
            pieces.append(body[end : found.start()])
            pieces += self._values.pop(found[1], [found[0]])
            end = found.end()
        return [*pieces, body[end:]]


def is_long(output: Mapping[str, Any]) -> bool:
    """Return True if an output takes long to write."""
    letters = sum(len(each) for each in output.values() if type(each) is str)
    return letters > LONG or pack_small(output, LONG) is None


async def write_long(write: Callable[[], Any]) -> Any:
    """Return what a function returns, which runs in a thread, with marks for its long values."""
    return await asyncio.to_thread(lambda: _leave_long(write(), _here.get()))


def _leave_long(written: Any, values: LongValues | None) -> Any:
    if values is None:
        # What carries the answer, such as a stream in this process, takes it as it is.
        return written
    if isinstance(written, str):
        return values.leave(_write_value(written)) if len(written) > LONG else written
    if isinstance(written, list):
        return [_leave_long(each, values) for each in written]
    if isinstance(written, dict):
        return {
            key: {values.leave(_write_value(each)): 0}
            if key == "structuredContent"
            else _leave_long(each, values)
            for key, each in written.items()
        }
    return written


def _write_value(value: Any) -> list[bytes]:
    pieces: list[bytes] = []
    text: list[str] = []
    size = 0
    for piece in write_in_pieces(value, partial(json.dumps, ensure_ascii=False)):
        text.append(piece)
        size += len(piece)
        if size > _PIECE:
            pieces.append(encode_json("".join(text)))
            text, size = [], 0
    return [*pieces, encode_json("".join(text))]


class LongAnswers:
    """An ASGI app that sends the long values of answers.

    Args:
        app: The SDK's, whose answers have marks in their place.
    """

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with LongValues.carry() as values:
            await self._app(scope, receive, _Sender(values, send).send)


class _Sender:
    """What an app sends with, for one request."""

    def __init__(self, values: LongValues, send: Any) -> None:
        self._values = values
        self._send = send
        self._start: Mapping[str, Any] | None = None
        """The head of an answer that says how long it is."""

    async def send(self, message: Mapping[str, Any]) -> None:
        if message["type"] != "http.response.body":
            names = [name for name, _ in message.get("headers", ())]
            if b"content-length" in names:
                self._start = message
            else:
                await self._send(message)
            return
        pieces = self._values.fill(message.get("body", b""))
        if self._start is not None:
            await self._send(_correct_length(self._start, sum(map(len, pieces))))
            self._start = None
        for piece in pieces[:-1]:
            await self._send({"type": message["type"], "body": piece, "more_body": True})
        await self._send({**message, "body": pieces[-1]})


def _correct_length(start: Mapping[str, Any], length: int) -> dict[str, Any]:
    headers = [
        (name, str(length).encode() if name == b"content-length" else value)
        for name, value in start["headers"]
    ]
    return {**start, "headers": headers}
