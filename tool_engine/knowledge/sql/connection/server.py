"""How is the PostgreSQL server of a URL connected to?"""

from __future__ import annotations

from typing import Any

import msgspec

from tool_engine.knowledge.sql.connection.database_errors import UnusableDatabaseError
from tool_engine.model.settings.postgres_url import FALLS_BACK, connect_arguments


class Server(msgspec.Struct, frozen=True):
    """The arguments of `asyncpg.connect`, one set per try."""

    tries: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, url: str) -> Server:
        """Return the server of a URL without secrets to fill in.

        Blocks: it may read a certificate.

        Raises:
            UnusableDatabaseError: The URL is not understood; the message holds no password.
        """
        try:
            arguments, mode = connect_arguments(url)
        except OSError as error:
            reason = error.strerror or error
            raise UnusableDatabaseError(f"sslrootcert, sslcert or sslkey: {reason}") from None
        except ValueError as error:
            raise UnusableDatabaseError(f"the URL is not understood: {error}") from None
        if mode == FALLS_BACK and arguments["ssl"]:
            return cls((arguments, {**arguments, "ssl": False}))
        return cls((arguments,))
