"""What does the SDK's app learn of a request over HTTP, and which bodies does it see?"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from time import monotonic
from typing import Any, Final

import mcp_types as types
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import CallNext, HandlerResult
from starlette.responses import JSONResponse

from tool_engine.access.principal import Principal
from tool_engine.access.problem import Problem, send_problem
from tool_engine.access.streams import answer_while_known
from tool_engine.mcp_server.bodies import Refused, check_id, check_message, is_id

_SESSION: Final = b"mcp-session-id"
_MOST_SESSIONS: Final = 1_000
"""The most sessions of one principal; the SDK has room for ten times as many in all."""
_IDLE: Final = 1_800.0
"""Seconds after which the SDK ends a session of which no request is open."""
_OPEN: Final = "open_request"
_STREAM_ENDS: Final = 1.0
"""Seconds for the end of a stream whose answer was sent."""
_ANSWER_PASSES: Final = 5.0
"""Seconds in which the answer for a client that has left is on its way to its stream."""


class KnownToken(AccessToken):
    """A token that was taken, with the tools that its owner may use."""

    tools: tuple[str, ...] = ("*",)


class KnownClients:
    """An ASGI app that hands the SDK who is behind a request, as its guard has found.

    Args:
        app: The SDK's, which is served to principals that may call tools.
    """

    def __init__(self, app: Any) -> None:
        self._app = AuthContextMiddleware(app)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        principal: Principal = scope["principal"]
        if not principal.may("call"):
            challenge = 'Bearer error="insufficient_scope", scope="call"'
            problem = Problem(
                403,
                "not-allowed",
                f"{principal.name!r} may not do this; it takes the scope 'call'",
                headers={"www-authenticate": challenge},
            )
            await send_problem(problem, send)
            return
        # The token itself goes no further than its guard.
        known = KnownToken(
            token="",
            client_id=principal.name,
            subject=principal.name,
            scopes=[],
            tools=principal.tools,
        )
        known_scope = {**scope, "user": AuthenticatedUser(known)}
        await answer_while_known(self._app, known_scope, receive, send)


class _OpenRequest:
    def __init__(self) -> None:
        self.runs = False
        """Whether its answer is still to come."""
        self.left: float | None = None
        """Since when nothing waits for its answer, or would get it."""
        self.over = asyncio.Event()
        """Set when its exchange over HTTP has ended."""


class _OpenIds:
    """The ids of the open requests of one session: also of those whose client has left.

    The SDK finds the stream of an answer by the id of its request. Of two that are open under one
    id, the second would get the answer of the first, and the first would wait for ever.
    """

    def __init__(self) -> None:
        self._open: dict[str, _OpenRequest] = {}

    async def run(self, app: Any, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request.

        Raises:
            Refused: Another one of its id is open.
        """
        message = scope.get("message")
        if not (isinstance(message, dict) and "method" in message and is_id(message.get("id"))):
            await app(scope, receive, send)
            return
        # As the SDK knows them: 1 and "1" are one.
        key = str(message["id"])
        await self._wait_for_stream(key)
        self._forget_left()
        if key in self._open:
            why = f"Invalid request: a request with the id {key[:80]!r} is open in this session"
            raise Refused(types.INVALID_REQUEST, f"{why}; give each its own", message["id"])
        mine = self._open[key] = _OpenRequest()
        is_whole = False

        async def send_on(said: Any) -> None:
            nonlocal is_whole
            await send(said)
            is_whole = said["type"] == "http.response.body" and not said.get("more_body")

        try:
            await app({**scope, _OPEN: mine}, receive, send_on)
        finally:
            mine.over.set()
            if is_whole:
                del self._open[key]
            else:
                mine.left = monotonic()

    async def _wait_for_stream(self, key: str) -> None:
        """Wait for the end of a stream whose answer the client has read already."""
        other = self._open.get(key)
        if other is not None and not other.runs:
            with suppress(TimeoutError):
                async with asyncio.timeout(_STREAM_ENDS):
                    await other.over.wait()

    def _forget_left(self) -> None:
        for key, each in list(self._open.items()):
            is_left = each.left is not None and not each.runs
            if is_left and monotonic() >= (each.left or 0.0) + _ANSWER_PASSES:
                del self._open[key]


async def note_answered(ctx: Any, call_next: CallNext) -> HandlerResult:
    """Note while a request is being answered: a middleware of the SDK."""
    mine = (getattr(ctx.request, "scope", None) or {}).get(_OPEN)
    if mine is None or ctx.request_id is None:
        return await call_next(ctx)
    mine.runs = True
    try:
        return await call_next(ctx)
    finally:
        mine.runs = False
        if mine.left is not None:
            mine.left = monotonic()


class _Session:
    """What is known of one session."""

    def __init__(self) -> None:
        self.open = 0
        """Its requests that are open."""
        self.used = monotonic()
        """When the last one began or ended."""
        self.ids = _OpenIds()


class BoundSessions:
    """An ASGI app that bounds how many sessions a principal has, and holds their ids apart.

    Clients of revisions before 2026-07-28 have them; each is kept until it has long been idle.

    Args:
        app: The SDK's, behind a guard.
    """

    def __init__(self, app: Any) -> None:
        self._app = app
        self._known: dict[str, dict[bytes, _Session]] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        name = scope["principal"].name
        session = self._known.get(name, {}).get(scope["sent"].get(_SESSION, b""))
        if session is None and (problem := self._find_problem(name, scope)) is not None:
            await send_problem(problem, send)
            return

        async def send_on(message: Any) -> None:
            if message["type"] == "http.response.start":
                self._note_answer(name, scope, message)
            await send(message)

        if session is None:
            await self._app(scope, receive, send_on)
            return
        session.open += 1
        try:
            await session.ids.run(self._app, scope, receive, send_on)
        except Refused as refused:
            await JSONResponse(refused.to_dict(), 400)(scope, receive, send)
        finally:
            session.open -= 1
            session.used = monotonic()

    def _find_problem(self, name: str, scope: Any) -> Problem | None:
        """Return why a request may open no session; None: it may, or would open none."""
        own = self._known.get(name, {})
        if len(own) < _MOST_SESSIONS or not _is_opening(scope.get("message")):
            return None
        now = monotonic()
        for key in [key for key, each in own.items() if not each.open and each.used + _IDLE <= now]:
            del own[key]
        if len(own) < _MOST_SESSIONS:
            return None
        ends = [each.used + _IDLE - now for each in own.values() if not each.open]
        return Problem(
            429,
            "too-many-sessions",
            f"{len(own):,} sessions of {name[:80]!r} are open, which is the most; end some with "
            f"DELETE, or let them rest for {_IDLE / 60:g} minutes",
            retry_after=min(ends, default=None),
        )

    def _note_answer(self, name: str, scope: Any, message: Any) -> None:
        sent: bytes | None = scope["sent"].get(_SESSION)
        if sent is None:
            made = dict(message.get("headers", ())).get(_SESSION)
            if made is not None and message["status"] == 200:
                self._known.setdefault(name, {})[made] = _Session()
        elif message["status"] == 404 or (scope["method"] == "DELETE" and message["status"] == 200):
            own = self._known.get(name, {})
            own.pop(sent, None)
            if not own:
                self._known.pop(name, None)


def _is_opening(message: Any) -> bool:
    return isinstance(message, dict) and message.get("method") == "initialize"


class CheckedMessages:
    """An ASGI app that passes on only the messages that can be read in one way.

    What passes has its message in `scope["message"]`.

    Args:
        app: The SDK's, behind a guard.
    """

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            try:
                message = await check_message(scope["body"])
                check_id(message)
            except Refused as refused:
                await JSONResponse(refused.to_dict(), 400)(scope, receive, send)
                return
            scope = {**scope, "message": message}
        await self._app(scope, receive, send)
