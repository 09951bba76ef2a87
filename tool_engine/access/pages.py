"""Which pages in a browser may use a server?

A browser says of which origin a page is, and lets a page of another one read an answer only where
the answer says that it may (CORS, in the Fetch standard).
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final

from tool_engine.access.problem import Problem
from tool_engine.access.texts import require_texts
from tool_engine.errors import ConfigurationError

Send = Callable[[Any], Awaitable[None]]
_ORIGIN: Final = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*://(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?"
)
_USUAL: Final = re.compile(r"http://.*:80|https://.*:443", re.IGNORECASE)
"""Origins with a port that browsers leave out."""
_OWN_SITE: Final = (b"none", b"same-origin")
_METHODS: Final = b"GET, HEAD, POST, DELETE"
_HELD: Final = b"600"
"""Seconds for which a browser may keep what a page was allowed."""


class Pages:
    """The origins of pages that may use a server, beside its own.

    Args:
        allowed: As `https://app.example`.

    Raises:
        ConfigurationError: One of them could be no origin of a page.
    """

    def __init__(self, allowed: Collection[str]) -> None:
        origins = require_texts("allowed_origins", allowed)
        for each in origins:
            if _ORIGIN.fullmatch(each) is None or _USUAL.fullmatch(each) is not None:
                raise ConfigurationError(
                    f"allowed_origins: {each!r} is no origin; write https://HOST or "
                    "https://HOST:PORT, as browsers send it"
                )
        self._allowed = frozenset(each.lower().encode() for each in origins)

    def find_allowed(self, sent: Mapping[bytes, bytes]) -> bytes | None:
        """Return the allowed origin of a request; None: it is of no page, or of another one."""
        origin = sent.get(b"origin", b"").lower()
        return origin if origin in self._allowed else None

    def mark_answers(self, origin: bytes | None, send: Send) -> Send:
        """Return what sends answers that say which page may read them, headers and all."""
        if not self._allowed:
            return send
        said = [(b"vary", b"origin")]
        if origin is not None:
            said.append((b"access-control-allow-origin", origin))
            said.append((b"access-control-expose-headers", b"*"))

        async def send_marked(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *said]}
            await send(message)

        return send_marked


def check_own(sent: Mapping[bytes, bytes], host: str) -> None:
    """Check that a request is of no page, or of one of the server's own.

    Raises:
        Problem: It is of a page of another origin.
    """
    named, origin = host.encode("latin-1"), sent.get(b"origin")
    is_own = origin is None or origin.lower() in (b"http://" + named, b"https://" + named)
    if not is_own or sent.get(b"sec-fetch-site", b"none") not in _OWN_SITE:
        raise Problem(
            403,
            "foreign-origin",
            "pages of another origin may not use this server; name it in allowed_origins",
        )


def is_preflight(method: str, sent: Mapping[bytes, bytes]) -> bool:
    """Return True if a browser asks what a page may send."""
    return method == "OPTIONS" and b"access-control-request-method" in sent


async def answer_preflight(sent: Mapping[bytes, bytes], send: Send) -> None:
    """Say that a page may send what it wants to: what it may do, its token says."""
    headers = [
        (b"access-control-allow-methods", _METHODS),
        (b"access-control-allow-headers", sent.get(b"access-control-request-headers", b"")),
        (b"access-control-max-age", _HELD),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
