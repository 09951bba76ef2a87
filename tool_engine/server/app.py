"""Which app serves an engine over HTTP?"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.routing import Route

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
OPERATIONS: Final = tuple(each for room in _ROOMS for each in room.OPERATIONS)


def create_app(engine: ToolEngine) -> Starlette:
    """Return an ASGI app that serves an engine over HTTP.

    Args:
        engine: An open engine. It stays open when the app ends.

    Raises:
        ConfigurationError: It is no engine.

    Example:
        >>> app = create_app(engine)
    """
    if not isinstance(engine, ToolEngine):
        raise ConfigurationError(f"engine must be a ToolEngine, got {engine!r}")
    served = Served(engine)
    served.description = msgspec.json.encode(describe_operations(OPERATIONS))
    engine.approvals.take_questions()
    routes = [
        Route(each.path, _Methods(each.path, served), name=each.path) for each in _first_of_paths()
    ]
    app = Starlette(routes=routes, exception_handlers={404: _refuse_path})
    app.state.served = served
    return app


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
