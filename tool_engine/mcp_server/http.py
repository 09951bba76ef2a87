"""How is a server reached over HTTP, and by whom?"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Any, Final

import uvicorn
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.responses import JSONResponse, Response

from tool_engine.errors import ConfigurationError
from tool_engine.mcp_server.bodies import LONGEST, Refused, check_message
from tool_engine.mcp_server.tokens import TokenFile

_SCHEME: Final = "bearer "
_LONGEST_WAIT: Final = 60.0
"""Seconds that a client may take to send a body."""
_GRACE: Final = 5
"""Seconds that open requests get when the server ends."""
_LONGEST_END: Final = _GRACE + 2.0


class TokenGuard:
    """An ASGI app that takes the requests of known tokens only.

    Args:
        app: What is guarded.
        tokens: The known ones.
    """

    def __init__(self, app: Any, tokens: TokenFile) -> None:
        self._app = AuthContextMiddleware(app)
        self._tokens = tokens

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        name = await self._find_caller(scope)
        if name is None:
            refusal = JSONResponse(
                {"error": "invalid_token", "error_description": "send a known bearer token"},
                401,
                {"WWW-Authenticate": 'Bearer error="invalid_token"'},
            )
            await refusal(scope, receive, send)
            return
        # The token itself goes no further than here.
        known = AccessToken(token="", client_id=name, subject=name, scopes=[])
        await self._app({**scope, "user": AuthenticatedUser(known)}, receive, send)

    async def _find_caller(self, scope: Any) -> str | None:
        sent = [value for key, value in scope["headers"] if key == b"authorization"]
        if len(sent) != 1:
            return None
        text = sent[0].decode("latin-1")
        if text[: len(_SCHEME)].lower() != _SCHEME:
            return None
        return await self._tokens.find_name(text[len(_SCHEME) :].strip())


class BodyGuard:
    """An ASGI app that passes on only the bodies that can be read in one way.

    Args:
        app: What is guarded.
    """

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        try:
            async with asyncio.timeout(_LONGEST_WAIT):
                body = await _read_body(receive)
        except TimeoutError:
            await Response("the body did not come in time", 408)(scope, receive, send)
            return
        if body is None:
            return
        if len(body) > LONGEST:
            await Response("the body is too large", 413)(scope, receive, send)
            return
        try:
            await check_message(body)
        except Refused as refused:
            await JSONResponse(refused.to_dict(), 400)(scope, receive, send)
            return
        await self._app(scope, _replay_body(body, receive), send)


async def serve_app(
    app: Any, host: str, port: int, on_ready: Callable[[str], object] | None, path: str
) -> None:
    """Serve an ASGI app until this is cancelled.

    Raises:
        ConfigurationError: The address cannot be served at.
    """
    listener = _open_listener(host, port)
    config = uvicorn.Config(
        app, log_config=None, access_log=False, timeout_graceful_shutdown=_GRACE, lifespan="on"
    )
    server = _Server(config)
    try:
        if on_ready is not None:
            bound = listener.getsockname()
            shown = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
            on_ready(f"http://{shown}:{bound[1]}{path}")
        await _run_until_cancelled(server, listener)
    finally:
        listener.close()


async def _run_until_cancelled(server: uvicorn.Server, listener: socket.socket) -> None:
    """Serve; when this is cancelled, open requests get a moment to end."""
    serving = asyncio.get_running_loop().create_task(server.serve(sockets=[listener]))
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        server.should_exit = True
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([serving], timeout=_LONGEST_END)
        serving.cancel()
        await asyncio.wait([serving])
        raise


class _Server(uvicorn.Server):
    """A server that leaves the signals of the process to the program."""

    def capture_signals(self) -> Any:
        return contextlib.nullcontext()


def _open_listener(host: str, port: int) -> socket.socket:
    name = "127.0.0.1" if host == "localhost" else host
    family = socket.AF_INET6 if ":" in name else socket.AF_INET
    # The protocol is named so that asyncio sends small answers at once (TCP_NODELAY).
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((name, port))
        listener.listen(1_024)
    except OSError as error:
        listener.close()
        raise ConfigurationError(
            f"cannot serve at {host}:{port}: {error.strerror or error}; name an address of this "
            "machine and a free port, or 0 for any"
        ) from error
    listener.setblocking(False)
    return listener


async def _read_body(receive: Any) -> bytes | None:
    """Return a body, or as much as is too much; None: the client has left."""
    parts, size = [], 0
    while size <= LONGEST:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if not message.get("more_body", False):
            break
    return b"".join(parts)


def _replay_body(body: bytes, receive: Any) -> Any:
    left = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Any:
        return left.pop() if left else await receive()

    return receive_again
