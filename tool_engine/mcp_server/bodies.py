"""Does what a client sends mean the same to all who read it?

Of a key that stands twice most readers take the last value, and some the first: a check and a call
must not see two different calls.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

import mcp_types as types
from starlette.responses import JSONResponse, Response

from tool_engine.protocols.arguments.strict_json import RefusedJSONError, read_json

LONGEST: Final = 4 << 20
"""The most bytes of one message."""
_AT_ONCE: Final = 1 << 16
"""Bytes of a message that is checked on the event loop."""
_LONGEST_WAIT: Final = 60.0
"""Seconds that a client may take to send a body."""


class Refused(Exception):  # noqa: N818 - a message for a client, not a failure of this program
    """A message that is not taken, and the JSON-RPC error that says so."""

    def __init__(self, code: int, why: str, request_id: str | int | None = None) -> None:
        super().__init__(why)
        self.code = code
        self.request_id = request_id

    def to_dict(self) -> dict[str, Any]:
        error = {"code": self.code, "message": str(self)}
        return {"jsonrpc": "2.0", "id": self.request_id, "error": error}


async def check_message(message: bytes | str) -> None:
    """Raise `Refused` unless a message is one JSON value that can be read in one way only."""
    if len(message) <= _AT_ONCE:
        _check_now(message)
    else:
        await asyncio.to_thread(_check_now, message)


def _check_now(message: bytes | str) -> None:
    try:
        read_json(message.decode() if isinstance(message, bytes) else message)
    except RefusedJSONError as error:
        request_id = _find_id(message)
        raise Refused(types.INVALID_REQUEST, f"Invalid request: {error}", request_id) from error
    except RecursionError as error:
        raise Refused(types.PARSE_ERROR, "Parse error: it nests too deep") from error
    except ValueError as error:
        raise Refused(types.PARSE_ERROR, f"Parse error: {error}") from error


def _find_id(message: bytes | str) -> str | int | None:
    """Return the id under which the client waits for an answer; None: it has none."""
    try:
        found = json.loads(message)
    except (ValueError, RecursionError):
        return None
    request_id = found.get("id") if isinstance(found, dict) else None
    is_id = isinstance(request_id, str | int) and not isinstance(request_id, bool)
    return request_id if is_id else None


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
