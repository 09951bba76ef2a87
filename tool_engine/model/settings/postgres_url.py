"""What does a PostgreSQL URL say about how to connect?

All of it is in the URL: neither `PGPASSWORD` nor a file in the user's home decides to which
server a tool speaks or records go, or as whom.
"""

from __future__ import annotations

import getpass
import ssl
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

FALLS_BACK: Final = "prefer"
"""The `sslmode` that accepts a plain connection where the server has no other."""

_OPTIONS: Final = ("host", "sslmode", "sslrootcert", "sslcert", "sslkey")
_MODES: Final = ("disable", FALLS_BACK, "require", "verify-ca", "verify-full")
_PORT: Final = 5432
_UNREADABLE: Final = (
    "its port is no number, or user and password hold a character that a URL wants as %XX; "
    "${env:NAME} and ${file:PATH} are encoded so"
)


def connect_arguments(url: str) -> tuple[dict[str, Any], str]:
    """Return the arguments of asyncpg's `connect` and the `sslmode`. Blocks: may read files.

    Raises:
        ValueError: An option or a part of the URL is not understood; the message holds no password.
        OSError: A certificate cannot be read.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        # What it says may quote the password.
        raise ValueError(_UNREADABLE) from None
    options = _parse_options(parts.query)
    mode = options.get("sslmode", FALLS_BACK)
    if mode not in _MODES:
        raise ValueError(f"sslmode must be one of {', '.join(_MODES)}, got {mode!r}")
    try:
        host, port = options.get("host") or parts.hostname or "localhost", parts.port or _PORT
    except ValueError:
        raise ValueError(_UNREADABLE) from None
    user = unquote(parts.username or "") or getpass.getuser()
    arguments = {
        "host": unquote(host),
        "port": port,
        "user": user,
        # Never None: asyncpg would look for a password in files of the user.
        "password": unquote(parts.password or ""),
        "database": unquote(parts.path.strip("/")) or user,
        "ssl": False if host.startswith("/") or mode == "disable" else _ssl_context(mode, options),
    }
    return arguments, mode


def _parse_options(query: str) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    for name in options:
        if name not in _OPTIONS:
            raise ValueError(f"it has the option {name!r}; known are {', '.join(_OPTIONS)}")
    return options


def _ssl_context(mode: str, options: Mapping[str, str]) -> ssl.SSLContext:
    root = options.get("sslrootcert")
    if root is None and mode in (FALLS_BACK, "require"):
        # It compares nothing with the certificates of the machine: to read them takes 20 ms.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    else:
        context = ssl.create_default_context(cafile=root)
    context.check_hostname = mode == "verify-full"
    if mode == FALLS_BACK or (mode == "require" and root is None):
        context.verify_mode = ssl.CERT_NONE
    if certificate := options.get("sslcert"):
        context.load_cert_chain(certificate, options.get("sslkey"))
    return context
