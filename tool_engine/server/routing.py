"""Which app answers at a path?"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any

from tool_engine.access.heads import match_path
from tool_engine.access.problem import Problem, send_problem


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
