"""Which request headers may be sent, and which are not carried to another host?"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from tool_engine.executors.secrets import SecretScope
from tool_engine.redaction import is_secret_key

# RFC 9110, 5.6.2 and 5.5.
_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+\-.^_`|~]{1,256}", re.ASCII)
_UNSAFE: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
_MAX_VALUE: Final = 16 * 1024
_OWN: Final = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "http2-settings",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_BODY: Final = ("content-type", "content-encoding", "content-language", "content-location")


def header_problem(name: str, value: str) -> str | None:
    """Return what is wrong with a header, without its value; None if nothing.

    Headers that frame the message or name its host belong to the connection: a foreign value could
    smuggle a second request or reach another site behind the same address.
    """
    if not _TOKEN.fullmatch(name):
        return f"the header name {name[:80]!r} has characters that a header name cannot have"
    if name.lower() in _OWN:
        return f"the header {name!r} is set by the connection and cannot be sent"
    if _UNSAFE.search(value):
        return f"the value of the header {name!r} has a control character, such as a line break"
    if len(value) > _MAX_VALUE:
        return f"the value of the header {name!r} is longer than {_MAX_VALUE} characters"
    return None


def without_credentials(
    headers: Mapping[str, str], secrets: SecretScope, private: Collection[str] = ()
) -> dict[str, str]:
    """Return the headers for another host, without `secrets` and `private` (lower-case names)."""
    return {
        name: value
        for name, value in headers.items()
        if name.lower() not in private and not is_secret_key(name) and not secrets.holds(value)
    }


def without_body_headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _BODY}
