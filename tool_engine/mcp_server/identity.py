"""Who is behind the request of a client?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mcp.server.auth.middleware.auth_context import get_access_token

_ALL: Final = ("*",)


def connection_of(session: Any) -> Any:
    """Return what lives as long as an older client; None: it is not known.

    The SDK makes a session for each request, and keeps the connection to itself.
    """
    return getattr(session, "_connection", None)


def find_patterns() -> tuple[str, ...]:
    """Return the patterns of the tools that the owner of the request's token may use."""
    return getattr(get_access_token(), "tools", _ALL)


Principal = str | Callable[[Any], str | None] | None
"""A text, a function of the SDK's request context, or None."""


def find_principal(principal: Principal, ctx: Any) -> str | None:
    """Return who is behind a request; None: it is not known.

    What a client says of itself is no proof, so only a verified token counts.
    """
    if callable(principal):
        return principal(ctx)
    if principal is not None:
        return principal
    token = get_access_token()
    return None if token is None else token.subject or token.client_id
