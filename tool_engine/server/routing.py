"""Which app answers at a path, and below which one may they all be?"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Collection, Mapping
from typing import Any, Final

from tool_engine.access.heads import match_path
from tool_engine.access.problem import Problem, send_problem
from tool_engine.errors import ConfigurationError

_WHOLE: Final = b"DELETE, GET, HEAD, OPTIONS, POST"
"""What the server as a whole does, as RFC 9110 (9.3.7) has it asked with `OPTIONS *`."""
_ROOT: Final = re.compile(r"(?:/[A-Za-z0-9._~-]+)*")


class Router:
    """An ASGI app, for behind a guard, that hands each request to the app of its path.

    Args:
        paths: Apps by path; a part in braces stands for any text, whose slashes are sent as
            `%2F`, which its app finds in `scope["path_params"]`.
    """

    def __init__(self, paths: Mapping[str, Any]) -> None:
        self._fixed = {path: app for path, app in paths.items() if "{" not in path}
        self._open = [(path.split("/"), app) for path, app in paths.items() if "{" in path]

    def __call__(self, scope: Any, receive: Any, send: Any) -> Awaitable[None]:
        path: str = scope["inner_path"]
        parts: list[str] = scope["inner_parts"]
        named: dict[str, str] = {}
        # A part that has a slash of its own is a name, whatever the whole looks like.
        app = self._fixed.get(path) if len(parts) == path.count("/") + 1 else None
        if app is None:
            app, named = self._find_open(parts)
        if app is None and (scope["method"], path) == ("OPTIONS", "*"):
            return _list_methods(send)
        if app is None:
            detail = f"there is nothing at {path[:200]!r}; see /openapi.json"
            return send_problem(Problem(404, "unknown-path", detail), send)
        scope["path_params"] = named
        answer: Awaitable[None] = app(scope, receive, send)
        return answer

    def _find_open(self, parts: list[str]) -> tuple[Any, dict[str, str]]:
        for pattern, app in self._open:
            named = match_path(pattern, parts)
            if named is not None:
                return app, named
        return None, {}


async def _list_methods(send: Any) -> None:
    headers = [(b"allow", _WHOLE)]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def check_root_path(root_path: object, paths: Collection[str]) -> str:
    """Return a path below which an app is reached.

    A proxy may cut it off or leave it: so no path of the app may begin as it does.

    Args:
        root_path: The path; empty: none.
        paths: Those of the app.

    Raises:
        ConfigurationError: It is none.
    """
    if not isinstance(root_path, str) or not _ROOT.fullmatch(root_path):
        raise ConfigurationError(
            f"root_path must be a path such as '/tools', of letters, digits and . _ ~ -, without a "
            f"slash at its end, got {root_path!r:.80}"
        )
    parts = root_path.split("/")[1:]
    if parts and parts[0] in {each.split("/")[1] for each in paths}:
        raise ConfigurationError(
            f"root_path {root_path!r:.80} begins as paths of the server itself do; choose another "
            "one, such as '/tools'"
        )
    if {".", ".."} & set(parts):
        raise ConfigurationError(f"root_path {root_path!r:.80} has dots as a part; leave them out")
    return root_path
