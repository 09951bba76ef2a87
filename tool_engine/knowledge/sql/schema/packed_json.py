"""How do JSON values lie in a database: whole, small, and exactly as they were?"""

from __future__ import annotations

import zlib
from typing import Any, Final

from tool_engine.errors import SessionError
from tool_engine.knowledge.frozen_session import read_in_pieces
from tool_engine.knowledge.sql.schema.damage import DAMAGE

MOST_BYTES: Final = 268_435_456
"""The most bytes of one conversation, compressed."""
KEEPING: Final = (
    "the sessions in {place} cannot be kept or read: {reason}; what was kept before stays, so try "
    "again once the database works"
)
"""The message for a reader who gets no answer."""


def pack_text(text: str, what: str) -> tuple[int, bytes]:
    """The characters of a JSON, and the bytes that are kept. Blocks: call it in a thread.

    Raises:
        SessionError: They are too many.
    """
    # Half characters too, which no database takes as a text.
    data = zlib.compress(text.encode("utf-8", "surrogatepass"), 1)
    if len(data) > MOST_BYTES:
        raise SessionError(
            f"{what} cannot be kept: it takes {len(data):,} bytes, {MOST_BYTES:,} at most; keep "
            "less of it"
        )
    return len(text), data


def unpack_value(data: bytes, what: str, session_id: str) -> Any:
    """The value that `pack_text` kept. Blocks: call it in a thread.

    Raises:
        SessionError: It is damaged.
    """
    try:
        return read_in_pieces(zlib.decompress(data).decode("utf-8", "surrogatepass"))
    except DAMAGE as error:
        raise damage_error(what, session_id, type(error).__name__) from error


def damage_error(what: str, session_id: str, why: str) -> SessionError:
    """The error of something that cannot be read, which goes with its session alone."""
    return SessionError(
        f"{what} cannot be read: what is kept of it is damaged ({why}); delete the session "
        f"{session_id!r}, or take the database from a copy"
    )
