"""Which app serves an engine over HTTP?"""

from __future__ import annotations

from collections.abc import Awaitable, Collection
from functools import partial
from importlib import import_module
from typing import Any, Final

import msgspec

from tool_engine.access.guard import Guard, Verifier
from tool_engine.access.heads import find_path
from tool_engine.access.open_requests import MOST, OpenRequests
from tool_engine.access.problem import Problem, send_problem
from tool_engine.access.rates import Rates
from tool_engine.access.tokens import TokenFile
from tool_engine.engine import ToolEngine
from tool_engine.errors import ConfigurationError
from tool_engine.model.checks.setting_kinds import check_switch
from tool_engine.server import (
    admission,
    approvals,
    calls,
    events,
    fleet,
    health,
    long_work,
    made_calls,
    operating,
    records,
    replies,
    sessions,
    tools,
)
from tool_engine.server.definitions import definition, locking, own_tests
from tool_engine.server.endpoint import Endpoint
from tool_engine.server.openapi import describe_operations
from tool_engine.server.problems import make_draining
from tool_engine.server.routing import Router, check_root_path
from tool_engine.server.served import Served
from tool_engine.server.wishes import wants_page

_ROOMS: Final = (
    calls,
    made_calls,
    tools,
    definition,
    own_tests,
    long_work,
    records,
    sessions,
    admission,
    events,
    approvals,
    operating,
    fleet,
    locking,
    replies,
    health,
)
MCP_PATH: Final = "/mcp"
STUDIO_PATH: Final = "/studio"
_PUBLIC: Final = frozenset(("/healthz", "/readyz", "/openapi.json"))
OPERATIONS: Final = tuple(each for room in _ROOMS for each in room.OPERATIONS)


def create_app(
    engine: ToolEngine,
    *,
    auth: Verifier | str | None = None,
    allowed_hosts: Collection[str] = (),
    allowed_origins: Collection[str] = (),
    rate: str | None = "1000/s",
    max_open: int | None = MOST,
    mcp: bool = False,
    studio: bool = False,
    root_path: str = "",
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
        max_open: How many requests a principal may have open at once, such as streams of events,
            waits and calls; None: any number.
        mcp: Whether clients of the Model Context Protocol are served at `/mcp`.
        studio: Whether people can see and try it in a browser, at `/studio`.
        root_path: The path below which a proxy shows it, such as `/tools`; whether the proxy cuts
            that off or not makes no difference.

    Raises:
        ConfigurationError: An argument is not right, or the token file cannot be read.
        MissingExtraError: The libraries for `mcp` or `studio` are not installed.

    Example:
        >>> app = create_app(engine, auth="tokens.yaml", allowed_hosts=["tools.example"])
    """
    _check_kinds(engine, mcp=mcp, studio=studio)
    known = _take_verifier(auth)
    bounds: dict[str, Any] = {"rates": _take_rates(rate), "open_requests": OpenRequests(max_open)}
    served = Served(engine)
    served.description = msgspec.json.encode(describe_operations(OPERATIONS))
    engine.approvals.take_questions()
    paths: dict[str, Any] = {each.path: None for each in OPERATIONS}
    paths = {path: _Methods(path, served) for path in paths}
    api = Router(dict(paths))
    inner = _make_mcp_app(engine) if mcp else None
    if inner is not None:
        paths[MCP_PATH] = partial(_pass_unless_draining, inner, served)
    guarded = Guard(
        Router(paths),
        auth=known,
        allowed_hosts=allowed_hosts,
        allowed_origins=allowed_origins,
        public=_PUBLIC,
        **bounds,
    )
    pages = _make_studio(api, known, allowed_hosts, bounds) if studio else None
    root = check_root_path(root_path, (*paths, MCP_PATH, STUDIO_PATH))
    return App(guarded, served, inner, pages, root)


def _check_kinds(engine: object, **switches: object) -> None:
    if not isinstance(engine, ToolEngine):
        raise ConfigurationError(f"engine must be a ToolEngine, got {engine!r}")
    for name, value in switches.items():
        check_switch(name, value)


def _take_verifier(auth: Any) -> Verifier | None:
    known = TokenFile(auth) if isinstance(auth, str) else auth
    if known is not None and not callable(getattr(known, "find_principal", None)):
        raise ConfigurationError(
            f"auth must be a token file or have find_principal, got {auth!r}; see JWTVerifier"
        )
    return known


def _take_rates(rate: str | None) -> Rates | None:
    try:
        return None if rate is None else Rates(rate)
    except ValueError as error:
        raise ConfigurationError(f"rate: {error}") from error


class App:
    """An ASGI app that serves an engine.

    Args:
        guarded: Answers requests.
        served: What they share.
        beside: What has to live as long as the server; None: nothing has.
        studio: Answers requests of browsers for pages; None: there are no pages.
        root: The path below which clients reach it; empty: what its server says.
    """

    def __init__(
        self, guarded: Guard, served: Served, beside: Any, studio: Any, root: str = ""
    ) -> None:
        self._root = root
        self._guarded = guarded
        self._served = served
        self._beside = beside
        self.studio = studio
        """The pages for people, whose `make_link()` is where one signs in; None: there are none."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._root:
            scope = {**scope, "root_path": self._root}
        if scope["type"] == "http" and self.studio is not None and _is_of_studio(scope):
            await self.studio(scope, receive, send)
        elif self.studio is not None and _is_first_of_browser(scope):
            await _lead_to_studio(scope, send)
        elif scope["type"] != "lifespan":
            await self._guarded(scope, receive, send)
        elif self._beside is not None:
            await self._beside(scope, receive, send)
        else:
            await _live_on(receive, send)

    def __repr__(self) -> str:
        return f"<App of {self._served.engine!r}>"

    def end(self) -> None:
        """Take no more calls, and end the streams of events: the server is about to end."""
        self._served.end()


def _is_of_studio(scope: Any) -> bool:
    path = find_path(scope)
    return path == STUDIO_PATH or path.startswith(STUDIO_PATH + "/")


def _is_first_of_browser(scope: Any) -> bool:
    """Return True if a person has typed the bare address of the server."""
    if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
        return False
    accept = dict(scope["headers"]).get(b"accept", b"").decode("latin-1")
    return find_path(scope) == "/" and wants_page(accept)


async def _lead_to_studio(scope: Any, send: Any) -> None:
    """Send a browser to the studio, which looks at its Host and at who it is."""
    address = f"{scope.get('root_path', '').rstrip('/')}{STUDIO_PATH}/"
    headers = [
        (b"location", address.encode("latin-1")),
        (b"vary", b"accept"),
        (b"cache-control", b"no-store"),
        (b"content-length", b"0"),
    ]
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def _live_on(receive: Any, send: Any) -> None:
    """Say that the app is ready, and that it has ended, when a server asks."""
    for stage in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{stage}.complete"})


def _make_mcp_app(engine: ToolEngine) -> Any:
    # Loaded by name: most servers speak to no client of MCP.
    made = import_module("tool_engine.mcp_server").MCPServer(engine)
    return made.guarded_app(MCP_PATH)


async def _pass_unless_draining(
    inner: Any, served: Served, scope: Any, receive: Any, send: Any
) -> None:
    """Pass a message of a client on, but no more calls while none are taken."""
    if served.is_draining and _read_method(scope.get("body", b"")) == "tools/call":
        await send_problem(make_draining(), send)
    else:
        await inner(scope, receive, send)


class _Message(msgspec.Struct):
    method: str = ""


def _read_method(body: bytes) -> str:
    """Return the method that a client asks for; empty: its message is no request."""
    try:
        return msgspec.json.decode(body, type=_Message).method
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ""


def _make_studio(
    api: Router, auth: Verifier | None, allowed_hosts: Collection[str], bounds: dict[str, Any]
) -> Any:
    # Loaded by name: most servers show no pages.
    made = import_module("tool_engine.studio").Studio
    return made(api, auth, allowed_hosts=allowed_hosts, mount=STUDIO_PATH, **bounds)


class _Methods:
    """An ASGI app for one path: each method is an operation of its own."""

    def __init__(self, path: str, served: Served) -> None:
        found = [each for each in OPERATIONS if each.path == path]
        self._endpoints = {each.method: Endpoint(each, served) for each in found}
        methods = {*self._endpoints, *(("HEAD",) if "GET" in self._endpoints else ())}
        self._allowed = ", ".join(sorted(methods))

    def __call__(self, scope: Any, receive: Any, send: Any) -> Awaitable[None]:
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        endpoint = self._endpoints.get(method)
        if endpoint is None:
            detail = f"{scope['method']} is not done here; use {self._allowed}"
            problem = Problem(405, "no-such-method", detail, headers={"allow": self._allowed})
            return send_problem(problem, send)
        return endpoint(scope, receive, send)
