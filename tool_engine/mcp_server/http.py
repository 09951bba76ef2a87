"""What does the SDK's app learn of a request over HTTP, and which bodies does it see?"""

from __future__ import annotations

from time import monotonic
from typing import Any, Final

from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.responses import JSONResponse

from tool_engine.access.principal import Principal
from tool_engine.access.problem import Problem, send_problem
from tool_engine.access.streams import answer_while_known
from tool_engine.mcp_server.bodies import Refused, check_id, check_message

_SESSION: Final = b"mcp-session-id"
_MOST_SESSIONS: Final = 1_000
"""The most sessions of one principal; the SDK has room for ten times as many in all."""
_IDLE: Final = 1_800.0
"""Seconds after which the SDK ends a session of which no request is open."""


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


class _Session:
    """What is known of one session."""

    def __init__(self) -> None:
        self.open = 0
        """Its requests that are open."""
        self.used = monotonic()
        """When the last one began or ended."""


class BoundSessions:
    """An ASGI app that bounds how many sessions a principal has.

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
            await self._app(scope, receive, send_on)
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
