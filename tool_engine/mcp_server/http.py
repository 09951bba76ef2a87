"""Whose requests does a server take over HTTP, and which bodies?"""

from __future__ import annotations

import asyncio
from typing import Any

from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.responses import JSONResponse, Response

from tool_engine.access.bodies import LONGEST, LONGEST_WAIT, read_body, replay_body
from tool_engine.access.guard import read_token
from tool_engine.access.principal import Principal
from tool_engine.access.tokens import TokenFile
from tool_engine.mcp_server.bodies import Refused, check_message


class KnownToken(AccessToken):
    """A token that was taken, with the tools that its owner may use."""

    tools: tuple[str, ...] = ("*",)


class TokenGuard:
    """An ASGI app that takes the requests of known tokens only.

    Args:
        app: What is guarded.
        tokens: The known ones.
    """

    def __init__(self, app: Any, tokens: TokenFile) -> None:
        self._app = KnownClients(app)
        self._tokens = tokens

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        token = read_token(scope)
        principal = None if token is None else await self._tokens.find_principal(token)
        if principal is None:
            refusal = JSONResponse(
                {"error": "invalid_token", "error_description": "send a known bearer token"},
                401,
                {"WWW-Authenticate": 'Bearer error="invalid_token"'},
            )
            await refusal(scope, receive, send)
            return
        await self._app({**scope, "principal": principal}, receive, send)


class KnownClients:
    """An ASGI app that hands the SDK who is behind a request.

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
            text = "the token is not for calls of tools"
            refusal = JSONResponse(
                {"error": "insufficient_scope", "error_description": text},
                403,
                {"WWW-Authenticate": 'Bearer error="insufficient_scope", scope="call"'},
            )
            await refusal(scope, receive, send)
            return
        # The token itself goes no further than its guard.
        known = KnownToken(
            token="",
            client_id=principal.name,
            subject=principal.name,
            scopes=[],
            tools=principal.tools,
        )
        await self._app({**scope, "user": AuthenticatedUser(known)}, receive, send)


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
            async with asyncio.timeout(LONGEST_WAIT):
                body = await read_body(receive, LONGEST)
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
        await self._app(scope, replay_body(body, receive), send)
