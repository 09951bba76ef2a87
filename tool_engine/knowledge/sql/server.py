"""How is the PostgreSQL server of a URL connected to?

The URL says all of it: no file in somebody's home decides to which server records go, or as whom.
"""

from __future__ import annotations

import getpass
import ssl
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import msgspec

from tool_engine.knowledge.sql.failing import UnusableDatabaseError

__all__ = ["Server"]

_VERIFYING: Final = {"verify-ca": False, "verify-full": True}
_MODES: Final = ("disable", "prefer", "require", *_VERIFYING)
_PORT: Final = 5432


class Server(msgspec.Struct, frozen=True):
    """What `asyncpg.connect` is called with, one try after the other."""

    tries: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, url: str) -> Server:
        """The server of a URL without secrets to fill in. Blocks: it may read a certificate.

        Raises:
            UnusableDatabaseError: The URL is not understood; the message holds no password.
        """
        try:
            parts = urlsplit(url)
            options = dict(parse_qsl(parts.query))
            arguments = _arguments(parts, options.pop("host", None))
        except ValueError:
            raise UnusableDatabaseError(
                "the URL is not understood; write other characters than letters and digits in "
                "user and password as %XX, and the port as a number"
            ) from None
        mode, root = options.pop("sslmode", "prefer"), options.pop("sslrootcert", None)
        if options or mode not in _MODES:
            raise UnusableDatabaseError(
                f"the URL takes the options host, sslmode ({', '.join(_MODES)}) and sslrootcert"
            )
        if mode == "disable" or arguments["host"].startswith("/"):
            return cls(({**arguments, "ssl": False},))
        encrypted = {**arguments, "ssl": _context(mode, root)}
        if mode == "prefer":
            return cls((encrypted, {**arguments, "ssl": False}))
        return cls((encrypted,))


def _arguments(parts: SplitResult, host: str | None) -> dict[str, Any]:
    user = unquote(parts.username or "") or getpass.getuser()
    return {
        "host": unquote(host or parts.hostname or "localhost"),
        "port": parts.port or _PORT,
        "user": user,
        # Never None: asyncpg would look for one in a file.
        "password": unquote(parts.password or ""),
        "database": unquote(parts.path.strip("/")) or user,
    }


def _context(mode: str, root: str | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=root)
    except OSError as error:
        raise UnusableDatabaseError(f"sslrootcert: {error.strerror or error}") from None
    context.check_hostname = _VERIFYING.get(mode, False)
    if mode not in _VERIFYING and root is None:
        context.verify_mode = ssl.CERT_NONE
    return context
