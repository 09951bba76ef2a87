"""Who is behind the request of a client?"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context, ContextVar
from inspect import iscoroutinefunction
from typing import Any, Final, NamedTuple

from mcp.server.auth.middleware.auth_context import get_access_token

from tool_engine.errors import ConfigurationError

_ALL: Final = ("*",)
sees_tasks: Final[ContextVar[bool]] = ContextVar("sees_tasks", default=True)
"""Whether the client of this request sees the tools that run only as a task."""
_patterns: Final[ContextVar[tuple[str, ...] | None]] = ContextVar("patterns", default=None)
"""In place of those of a token, where no request is behind a look at a list."""


def connection_of(session: Any) -> Any:
    """Return what lives as long as an older client; None: it is not known.

    The SDK makes a session for each request, and keeps the connection to itself.
    """
    return getattr(session, "_connection", None)


def find_patterns() -> tuple[str, ...]:
    """Return the patterns of the tools that the owner of the request's token may use."""
    given = _patterns.get()
    return getattr(get_access_token(), "tools", _ALL) if given is None else given


class View(NamedTuple):
    """What decides which lists a client sees."""

    patterns: tuple[str, ...]
    sees_tasks: bool

    @classmethod
    def of_request(cls) -> View:
        """Return the view of the client of this request."""
        return cls(find_patterns(), sees_tasks.get())

    def run_as_client(self, read: Callable[[], Any]) -> Any:
        """Return what a function reads as for a request of such a client."""
        return Context().run(self._run_here, read)

    def _run_here(self, read: Callable[[], Any]) -> Any:
        _patterns.set(self.patterns)
        sees_tasks.set(self.sees_tasks)
        return read()


Principal = str | Callable[[Any], str | None] | None
"""A text, a function of the SDK's request context, or None."""


def check_principal(principal: Any) -> None:
    """Raise `ConfigurationError` for what is no principal."""
    if iscoroutinefunction(principal):
        raise ConfigurationError(
            "principal must be a plain function: it is asked for each request; look up beforehand "
            "what takes time"
        )
    if principal is not None and not callable(principal) and not isinstance(principal, str):
        raise ConfigurationError(
            f"principal must be a text, a function of the request, or None, got {principal!r:.80}"
        )


def find_principal(principal: Principal, ctx: Any) -> str | None:
    """Return who is behind a request; None: it is not known.

    What a client says of itself is no proof, so only a verified token counts.
    """
    if callable(principal):
        found = principal(ctx)
        if found is not None and not isinstance(found, str):
            raise ConfigurationError(
                f"the function principal must return a text or None, got {type(found).__name__}"
            )
        return found
    if principal is not None:
        return principal
    token = get_access_token()
    return None if token is None else token.subject or token.client_id
