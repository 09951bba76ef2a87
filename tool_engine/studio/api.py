"""What does the HTTP API answer to the principal that is signed in?

The studio asks it in the same process, with no other way to the engine: what one may not do by the
API, one may not do here, and what the API cannot do, the studio cannot.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from tool_engine.access.principal import Principal
from tool_engine.access.problem import Problem, ProblemDetails
from tool_engine.model.json.returned_value import to_json

_KIND: Final = "urn:tool-engine:"
_UNREAD: Final = 64
"""Pieces of a stream that wait for their reader before its writer does."""
_AT_ONCE: Final = 1 << 17
"""Bytes that are read on the event loop; more in a thread."""
_read_problem: Final = msgspec.json.Decoder(ProblemDetails).decode


class API:
    """The operations of the API, for one principal.

    Args:
        app: The API, without the guard before it.
        principal: Who asks.
        is_known: Says whether the principal is still signed in.
        receive: The `receive` of the browser's request: what is asked ends when the browser leaves.
    """

    def __init__(
        self,
        app: Any,
        principal: Principal,
        is_known: Callable[[], Awaitable[bool]],
        receive: Any,
    ) -> None:
        self._app = app
        self._principal = principal
        self._is_known = is_known
        self._receive = receive

    async def get(self, path: str, *parts: str, query: Mapping[str, str] | None = None) -> Any:
        """Return what a GET answers, read from JSON.

        Args:
            path: As `/v1/tools/{}`, with a pair of braces for each part.
            parts: The texts in the places of the braces.
            query: The parameters; empty ones are left out.

        Raises:
            Problem: The API refuses it.
        """
        return await self._ask_for(self._make_scope("GET", (path, parts), query))

    async def find(
        self, path: str, *parts: str, query: Mapping[str, str] | None = None
    ) -> tuple[Any, Problem | None]:
        """Return what a GET answers, or None and why it cannot: a page does without; see `get`."""
        try:
            return await self.get(path, *parts, query=query), None
        except Problem as problem:
            if problem.status < 500:
                raise
            return None, problem

    async def download(
        self, path: str, *parts: str, query: Mapping[str, str] | None = None
    ) -> bytes:
        """Return the body of what a GET answers, as it was written; see `get`."""
        scope = self._make_scope("GET", (path, parts), query)
        return (await self._read_answer(scope)).data

    async def post(
        self,
        path: str,
        *parts: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Return what a POST answers; see `get`."""
        scope = self._make_scope("POST", (path, parts), None, body, headers)
        return await self._ask_for(scope)

    async def delete(self, path: str, *parts: str, query: Mapping[str, str] | None = None) -> Any:
        """Return what a DELETE answers; see `get`."""
        return await self._ask_for(self._make_scope("DELETE", (path, parts), query))

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *parts: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
        """Yield the events of a stream as pairs of their name and what they hold.

        Raises:
            Problem: The API refuses it, or the stream says why it cannot go on.
        """
        scope = self._make_scope(method, (path, parts), query, body, headers)
        scope["headers"].append((b"accept", b"text/event-stream"))
        scope["sent"][b"accept"] = b"text/event-stream"
        answer = _StreamedAnswer()
        work = self._app(scope, self._receive, answer.send)
        task = asyncio.create_task(work, name="tool-engine-studio-stream")
        task.add_done_callback(lambda _: answer.end())
        try:
            yield answer.read_events()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _ask_for(self, scope: dict[str, Any]) -> Any:
        answer = await self._read_answer(scope)
        data = answer.data
        if not data:
            return None
        if not answer.is_json:
            return data.decode()
        if len(data) > _AT_ONCE:
            return await asyncio.to_thread(_decode_json, data)
        return _decode_json(data)

    async def _read_answer(self, scope: dict[str, Any]) -> _Answer:
        # An answer in this process may come without a wait: a page of many would hold the loop.
        await asyncio.sleep(0)
        answer = _Answer()
        await self._app(scope, self._receive, answer.send)
        if answer.status == 0:
            raise Problem(499, "client-left", "the browser has left before the answer was there")
        if answer.status >= 400:
            raise _make_problem(answer.data)
        return answer

    def _make_scope(
        self,
        method: str,
        place: tuple[str, tuple[str, ...]],
        query: Mapping[str, str] | None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Return what the guard of the API would pass on.

        Raises:
            Problem: A text in the path is empty: there is nothing at such a path.
        """
        pattern, texts = place
        if not all(texts):
            raise Problem(404, "unknown-path", "there is nothing of that name")
        path, left = pattern.format(*texts), iter(texts)
        parts = [next(left) if part == "{}" else part for part in pattern.split("/")]
        said = {name: value for name, value in (query or {}).items() if value != ""}
        sent = {name.encode(): value.encode("latin-1") for name, value in (headers or {}).items()}
        return {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": path,
            "inner_path": path,
            "inner_parts": parts,
            "body": b"" if body is None else to_json(body),
            "root_path": "",
            "query_string": urlencode(said).encode(),
            "headers": list(sent.items()),
            "sent": sent,
            "principal": self._principal,
            "is_known": self._is_known,
        }


class _Answer:
    """An answer of the API, as it is sent."""

    def __init__(self) -> None:
        self.status = 0
        self.is_json = False
        self.pieces: list[bytes] = []

    @property
    def data(self) -> bytes:
        return b"".join(self.pieces)

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            kind = dict(message["headers"]).get(b"content-type", b"")
            self.is_json = kind.startswith(b"application/json")
        else:
            self.pieces.append(message.get("body", b""))


class _StreamedAnswer(_Answer):
    """An answer that is read while it is written."""

    def __init__(self) -> None:
        super().__init__()
        self._coming: asyncio.Queue[bytes | None] = asyncio.Queue(_UNREAD)

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start" or self.status >= 400:
            await super().send(message)
        elif message.get("body"):
            await self._coming.put(message["body"])

    def end(self) -> None:
        if self._coming.full():
            self._coming.get_nowait()  # of a reader that has gone
        self._coming.put_nowait(None)

    async def read_events(self) -> AsyncIterator[tuple[str, Any]]:
        rest = b""
        while (piece := await self._coming.get()) is not None:
            *events, rest = (rest + piece).split(b"\n\n")
            for each in events:
                name, data = _read_event(each)
                if name == "problem":
                    raise _make_problem(data)
                if data:
                    yield name, _decode_json(data)
        if self.status >= 400:
            raise _make_problem(self.data)


def _decode_json(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        # What a tool returned may hold half of a surrogate pair, which only this one reads.
        return json.loads(data)


def _read_event(text: bytes) -> tuple[str, bytes]:
    fields = dict(line.partition(b": ")[::2] for line in text.split(b"\n"))
    return fields.get(b"event", b"message").decode(), fields.get(b"data", b"")


def _make_problem(data: bytes) -> Problem:
    said = _read_problem(data)
    kind = said.type.removeprefix(_KIND)
    return Problem(said.status, kind, said.detail, retry_after=said.retry_after)
