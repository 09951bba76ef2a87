"""Which app serves an engine over HTTP?"""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.routing import Route

from tool_engine.access.guard import Guard, Verifier
from tool_engine.access.rates import Rates
from tool_engine.access.tokens import TokenFile
from tool_engine.engine import ToolEngine
from tool_engine.errors import ConfigurationError
from tool_engine.server import (
    admission,
    approvals,
    calls,
    events,
    health,
    operating,
    records,
    replies,
    tools,
)
from tool_engine.server.endpoint import Endpoint
from tool_engine.server.openapi import describe_operations
from tool_engine.server.problems import Problem
from tool_engine.server.served import Served

_ROOMS: Final = (calls, tools, records, admission, events, approvals, operating, replies, health)
MCP_PATH: Final = "/mcp"
_PUBLIC: Final = frozenset(("/healthz", "/readyz", "/openapi.json"))
OPERATIONS: Final = tuple(each for room in _ROOMS for each in room.OPERATIONS)


def create_app(
    engine: ToolEngine,
    *,
    auth: Verifier | str | None = None,
    allowed_hosts: Collection[str] = (),
    allowed_origins: Collection[str] = (),
    rate: str | None = "1000/s",
    mcp: bool = False,
) -> App:
    """Return an ASGI app that serves an engine over HTTP.

    Args:
        engine: An open engine. It stays open when the app ends.
        auth: Whose requests are taken: a token file, a `JWTVerifier`, or another object with
            `find_principal`. None: no tokens are asked for, and only this machine is heard.
        allowed_hosts: The names under which it may be reached, as `HOST` or `HOST:PORT`, beside
            those of this machine.
        allowed_origins: The origins of pages that may use it, beside its own.
        rate: How many requests a principal may send; None: any number.
        mcp: Whether clients of the Model Context Protocol are served at `/mcp`.

    Raises:
        ConfigurationError: An argument is not right, or the token file cannot be read.
        MissingExtraError: The libraries for `mcp` are not installed.

    Example:
        >>> app = create_app(engine, auth="tokens.yaml", allowed_hosts=["tools.example"])
    """
    if not isinstance(engine, ToolEngine):
        raise ConfigurationError(f"engine must be a ToolEngine, got {engine!r}")
    known = TokenFile(auth) if isinstance(auth, str) else auth
    if known is not None and not callable(getattr(known, "find_principal", None)):
        raise ConfigurationError(
            f"auth must be a token file or have find_principal, got {auth!r}; see JWTVerifier"
        )
    try:
        rates = None if rate is None else Rates(rate)
    except ValueError as error:
        raise ConfigurationError(f"rate: {error}") from error
    served = Served(engine)
    served.description = msgspec.json.encode(describe_operations(OPERATIONS))
    engine.approvals.take_questions()
    routes = [
        Route(each.path, _Methods(each.path, served), name=each.path) for each in _first_of_paths()
    ]
    inner = _make_mcp_app(engine, allowed_hosts) if mcp else None
    if inner is not None:
        routes.append(Route(MCP_PATH, inner))
    app = Starlette(routes=routes, exception_handlers={404: _refuse_path})
    guarded = Guard(
        app,
        auth=known,
        allowed_hosts=allowed_hosts,
        allowed_origins=allowed_origins,
        refuse=_write_refusal,
        public=_PUBLIC,
        rates=rates,
    )
    return App(guarded, served, inner)


class App:
    """An ASGI app that serves an engine.

    Args:
        guarded: Answers requests.
        served: What they share.
        beside: What has to live as long as the server; None: nothing has.
    """

    def __init__(self, guarded: Guard, served: Served, beside: Any) -> None:
        self._guarded = guarded
        self._served = served
        self._beside = beside

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        is_life = scope["type"] == "lifespan" and self._beside is not None
        await (self._beside if is_life else self._guarded)(scope, receive, send)

    def __repr__(self) -> str:
        return f"<App of {self._served.engine!r}>"

    def end(self) -> None:
        """Take no more calls, and end the streams of events: the server is about to end."""
        self._served.end()


def _make_mcp_app(engine: ToolEngine, allowed_hosts: Collection[str]) -> Any:
    # Loaded by name: most servers speak to no client of MCP.
    made = import_module("tool_engine.mcp_server").MCPServer(engine)
    known = import_module("tool_engine.mcp_server.http").KnownClients
    return known(made.app(MCP_PATH, allowed_hosts=list(allowed_hosts)))


def _write_refusal(
    status: int, kind: str, detail: str, headers: dict[str, str]
) -> tuple[int, bytes, dict[str, str]]:
    return Problem(status, kind, detail, headers=headers).write()


def _first_of_paths() -> list[Any]:
    return list({each.path: each for each in OPERATIONS}.values())


class _Methods:
    """An ASGI app for one path: each method is an operation of its own."""

    def __init__(self, path: str, served: Served) -> None:
        found = [each for each in OPERATIONS if each.path == path]
        self._endpoints = {each.method: Endpoint(each, served) for each in found}
        self._allowed = ", ".join(sorted(self._endpoints))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        endpoint = self._endpoints.get(method)
        if endpoint is None:
            detail = f"{scope['method']} is not done here; use {self._allowed}"
            problem = Problem(405, "no-such-method", detail, headers={"allow": self._allowed})
            await _send_problem(problem, send)
            return
        await endpoint(scope, receive, send)


async def _send_problem(problem: Problem, send: Any) -> None:
    status, body, headers = problem.write()
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


async def _refuse_path(request: Any, error: Exception) -> Any:
    from starlette.responses import Response

    del error
    status, body, headers = Problem(
        404, "unknown-path", f"there is nothing at {request.url.path[:200]!r}; see /openapi.json"
    ).write()
    return Response(body, status, headers)
