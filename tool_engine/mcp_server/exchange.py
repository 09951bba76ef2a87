"""How is a request of 2026-07-28 answered over HTTP?

The SDK makes two tasks, a stream and a timer for each. Most calls end without having waited, and
need none of it: the first step of each is taken in the task of the request itself.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Mapping
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple

import anyio
import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.lowlevel.server import Server
from mcp.server.runner import modern_error_data, serve_one
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    InboundModernRoute,
    classify_inbound_request,
)
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from starlette.requests import Request

from tool_engine.access.stepping import go_on
from tool_engine.mcp_server.bodies import is_id
from tool_engine.mcp_server.long_answers import LongValues

_PING: Final = 15.0
"""Seconds of silence after which a client hears that its call goes on."""
_KIND: Final = "streamable-http"
_STREAM: Final = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),
]
_encode: Final = json.JSONEncoder(separators=(",", ":")).encode


class _Asked(NamedTuple):
    message: dict[str, Any]
    route: InboundModernRoute
    headers: dict[str, str]


class ModernRequests:
    """An ASGI app that answers the requests of 2026-07-28, and leaves the others to the SDK's.

    What is wrong with a request the SDK says, and streams of notices are its own.

    Args:
        server: What answers, as on each other way.
        path: Where clients find it.
        app: The SDK's, behind a guard and `CheckedMessages`.
    """

    def __init__(self, server: Server[Any], path: str, app: Any) -> None:
        self._server = server
        self._path = path
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        asked = None if scope["type"] == "lifespan" else self._read_request(scope)
        if asked is None:
            await self._app(scope, receive, send)
            return
        with LongValues.carry() as values:
            exchange = _Exchange(asked, scope, send, values)
            await exchange.run(exchange.answer(self._server), receive)

    def _read_request(self, scope: Any) -> _Asked | None:
        """Return what is asked; None: it is the SDK's to answer."""
        message = scope.get("message")
        if scope["inner_path"] != self._path or not _is_request(message):
            return None
        if message["method"] == "subscriptions/listen":
            return None
        sent: Mapping[bytes, bytes] = scope["sent"]
        # Of a header that stands twice, what is in front may have gone by one of them.
        if len(sent) < len(scope["headers"]) or not _takes_both(sent.get(b"accept", b"")):
            return None
        headers = {name.decode("latin-1"): text.decode("latin-1") for name, text in sent.items()}
        route = classify_inbound_request(message, headers=headers)
        if not isinstance(route, InboundModernRoute):
            return None
        return _Asked(message, route, headers)


def _is_request(message: Any) -> bool:
    return (
        isinstance(message, dict)
        and message.get("jsonrpc") == "2.0"
        and isinstance(message.get("method"), str)
        and is_id(message.get("id"))
        and isinstance(message.get("params"), dict)
    )


@lru_cache(64)
def _takes_both(accept: bytes) -> bool:
    """Return True if a client takes an answer as JSON and as a stream, by their names."""
    kinds = {each.partition(b";")[0].strip().lower() for each in accept.split(b",")}
    return {b"application/json", b"text/event-stream"} <= kinds


class _Exchange:
    """One request and its answer, as the SDK wants to know them: its `DispatchContext`."""

    can_send_request: Final = False

    def __init__(self, asked: _Asked, scope: Any, send: Any, values: LongValues) -> None:
        message, self._route, headers = asked
        self.request_id: types.RequestId = message["id"]
        self.transport = TransportContext(kind=_KIND, can_send_request=False, headers=headers)
        self.message_metadata = ServerMessageMetadata(request_context=Request(scope))
        self._method: str = message["method"]
        self._params: dict[str, Any] = message["params"]
        self._progress_token = progress_token_from_params(self._params)
        self._send = send
        self._values = values
        self._turn = asyncio.Lock()
        self._is_stream = False
        self._is_over = False
        self._has_left = False
        self._timer: asyncio.TimerHandle | None = None
        self._pinging: asyncio.Task[None] | None = None

    @cached_property
    def cancel_requested(self) -> anyio.Event:
        """Never set: a client gives a request up by leaving."""
        return anyio.Event()

    async def send_raw_request(self, method: str, params: Any, opts: Any = None) -> dict[str, Any]:
        """Refuse: clients of 2026-07-28 are not asked."""
        raise NoBackChannelError(method)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: Any = None) -> None:
        """Send a notice, ahead of the answer."""
        await self._send_event({"jsonrpc": "2.0", "method": method, "params": dict(params or {})})

    async def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Send how far the request has come, if its client wants to know."""
        if self._progress_token is None:
            return
        said = {"progressToken": self._progress_token, "progress": progress}
        more = {"total": total, "message": message}
        said |= {name: value for name, value in more.items() if value is not None}
        await self.notify("notifications/progress", said)

    async def answer(self, server: Server[Any]) -> None:
        """Answer the request, whatever becomes of it."""
        route = self._route
        connection = Connection.from_envelope(
            route.protocol_version, route.client_info, route.client_capabilities
        )
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": self.request_id}
        status = 200
        try:
            answer["result"] = await serve_one(
                server, self, self._method, self._params, connection=connection, lifespan_state=None
            )
        except Exception as failure:  # noqa: BLE001 - the SDK turns each into an error
            error = modern_error_data(failure)
            answer["error"] = error.model_dump(mode="json", by_alias=True, exclude_none=True)
            status = ERROR_CODE_HTTP_STATUS.get(error.code, 200)
        async with self._turn:
            self._is_over = True
            await self._send_answer(status, _encode(answer).encode())

    async def run(self, answering: Coroutine[Any, Any, None], receive: Any) -> None:
        """Run what answers, until it is done or the client leaves."""
        try:
            waited_for = answering.send(None)
        except StopIteration:
            return
        working = asyncio.current_task()
        assert working is not None  # noqa: S101 - this is a coroutine
        watching = working.get_loop().create_task(self._watch_client(receive, working))
        self._time_ping()
        try:
            await go_on(answering, waited_for)
        except asyncio.CancelledError:
            if not self._has_left or working.cancelling() > 1:
                raise
        finally:
            watching.cancel()
            self._end_pings()
            if self._has_left:
                # Also where the work has gone on: the caller must not take it for cancelled.
                working.uncancel()

    async def _watch_client(self, receive: Any, working: asyncio.Task[Any]) -> None:
        """Cancel the work when its client leaves."""
        while (await receive())["type"] != "http.disconnect":
            pass
        # An answer that says how long it is goes out whole.
        if self._is_stream or not self._is_over:
            self._has_left = True
            self._end_pings()
            working.cancel()

    def _time_ping(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_PING, self._begin_ping)

    def _begin_ping(self) -> None:
        """Let the client hear that its call goes on, unless something is on its way to it."""
        # A task of its own: a client that does not read must not hold up what watches it.
        if not self._turn.locked():
            sending = self._send_piece(b": ping\r\n\r\n")
            self._pinging = asyncio.get_running_loop().create_task(sending)
        self._time_ping()

    def _end_pings(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._pinging is not None:
            self._pinging.cancel()

    async def _send_event(self, message: Mapping[str, Any]) -> None:
        await self._send_piece(b"event: message\r\ndata: %b\r\n\r\n" % _encode(message).encode())

    async def _send_piece(self, piece: bytes) -> None:
        """Send a piece of a stream, which begins with the first."""
        async with self._turn:
            if self._is_over:
                return
            if not self._is_stream:
                await self._send_head(200, _STREAM)
                # Only now: what sends a notice is cancelled with its call, and the answer goes on.
                self._is_stream = True
            await self._send_body(piece, more=True)

    async def _send_answer(self, status: int, body: bytes) -> None:
        pieces = self._values.fill(body)
        if self._is_stream:
            pieces = [b"event: message\r\ndata: ", *pieces, b"\r\n\r\n"]
        else:
            length = b"%d" % sum(map(len, pieces))
            head = [(b"content-length", length), (b"content-type", b"application/json")]
            await self._send_head(status, head)
        for piece in pieces[:-1]:
            await self._send_body(piece, more=True)
        await self._send_body(pieces[-1], more=False)

    async def _send_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def _send_body(self, piece: bytes, *, more: bool) -> None:
        await self._send({"type": "http.response.body", "body": piece, "more_body": more})
