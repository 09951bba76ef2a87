"""What does the SDK's app learn of a request over HTTP, and which bodies does it see?"""

from __future__ import annotations

from typing import Any

from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.responses import JSONResponse

from tool_engine.access.bodies import read_body, replay_body
from tool_engine.access.principal import Principal
from tool_engine.access.problem import Problem, send_problem
from tool_engine.access.streams import answer_while_known
from tool_engine.mcp_server.bodies import Refused, check_id, check_message


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


class CheckedMessages:
    """An ASGI app that passes on only the messages that can be read in one way.

    Args:
        app: The SDK's, behind a guard.
    """

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            body = await read_body(receive)
            if body is None:
                return  # its client has left
            try:
                check_id(await check_message(body))
            except Refused as refused:
                await JSONResponse(refused.to_dict(), 400)(scope, receive, send)
                return
            receive = replay_body(body, receive)
        await self._app(scope, receive, send)
