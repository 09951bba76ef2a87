"""What does the head of a request say?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from tool_engine.access.problem import Problem

_ONCE: Final = frozenset(
    (
        b"authorization",
        b"content-length",
        b"content-type",
        b"host",
        b"idempotency-key",
        b"last-event-id",
        b"mcp-session-id",
        b"origin",
        b"sec-fetch-site",
        b"transfer-encoding",
    )
)
"""Headers that decide: of two of them one reader takes the first, and another the last."""
_SECRETS: Final = frozenset(("access_token", "api_key", "apikey", "authorization", "key", "token"))
"""Parameters of an address that would end up in logs."""
_MOST_PARAMETERS: Final = 100
_SCHEME: Final = b"bearer "
_WHOLE: Final = re.compile(rb"(?i:https?)://([^/@?#]+)(/.*)?")
"""A request target with its host, as clients of proxies send it."""


def read_target(scope: Any) -> Any:
    """Return a request whose target names a host, too, as one with a path and that `Host`.

    RFC 9112 (3.2.2) has a server take such a target, and heed no other `Host` beside it.
    """
    found = _WHOLE.fullmatch(scope["raw_path"])
    if found is None:
        return scope
    raw = found[2] or b"/"
    headers = [each for each in scope["headers"] if each[0] != b"host"]
    headers.append((b"host", found[1]))
    return {**scope, "path": unquote(raw.decode("latin-1")), "raw_path": raw, "headers": headers}


def read_headers(raw: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Return the headers of a request by name.

    Raises:
        Problem: One that decides stands twice.
    """
    sent = dict(raw)
    if len(sent) == len(raw):
        return sent
    sent = {}
    for name, value in raw:
        if name in sent and name in _ONCE:
            raise Problem(400, "repeated-header", f"{name.decode()!r} stands twice; send it once")
        # What stands on several lines is a list, as RFC 9110 says.
        sent[name] = sent[name] + b", " + value if name in sent else value
    return sent


def read_token(sent: Mapping[bytes, bytes]) -> str | None:
    """Return the bearer token of a request; None: it has none."""
    value = sent.get(b"authorization", b"")
    if value[: len(_SCHEME)].lower() != _SCHEME:
        return None
    return value[len(_SCHEME) :].strip().decode("latin-1")


def check_address(query: bytes) -> None:
    """Check that no secret stands in the address of a request.

    Raises:
        Problem: One does, or there is more in it than is looked at.
    """
    if not query:
        return
    text = query.decode("latin-1")
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
    except ValueError:
        detail = f"an address may have {_MOST_PARAMETERS} parameters; send fewer"
        raise Problem(400, "invalid-request", detail) from None
    for name, _ in pairs:
        if name.lower() in _SECRETS:
            raise Problem(
                400,
                "secret-in-address",
                f"{name[:40]!r} in the address would end up in logs; send the header "
                "Authorization: Bearer",
            )


def find_path(scope: Any) -> str:
    """Return the path of a request below that at which its app is mounted."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "").rstrip("/")
    return path.removeprefix(root) if path.startswith(root + "/") else path


def split_path(scope: Any) -> list[str]:
    """Return the parts of the path that `find_path` gives; `%2F` in one is a slash of its own."""
    path = find_path(scope)
    raw: bytes = scope.get("raw_path") or b""
    if b"%2f" not in raw.lower():
        return path.split("/")
    parts = [unquote(part) for part in raw.decode("latin-1").split("/")]
    if "/".join(parts) != scope["path"]:
        return path.split("/")  # of another server's making
    return ["", *parts[scope["path"].removesuffix(path).count("/") + 1 :]]


def match_path(pattern: Sequence[str], parts: Sequence[str]) -> dict[str, str] | None:
    """Return what stands in the places of a pattern; None: the path is another one.

    Args:
        pattern: The parts of a pattern, of which one in braces, such as `{name}`, is a place.
        parts: The parts of a path; an empty one fits no place.
    """
    if len(pattern) != len(parts):
        return None
    named = {}
    for known, part in zip(pattern, parts, strict=True):
        if known[:1] == "{" and part:
            named[known[1:-1]] = part
        elif known != part:
            return None
    return named
