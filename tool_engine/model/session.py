"""What is known of a stored conversation without reading all of it?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from tool_engine.errors import SessionError
from tool_engine.model.checks.bounds import check_count
from tool_engine.model.json.data import Data

_MOST: Final = 2**31 - 1
_REVISION: Final = re.compile(r"[0-9A-Za-z._-]{1,64}")

LONGEST_SESSION_ID: Final = 512
"""Characters that an index of every database accepts."""


class SessionInfo(msgspec.Struct, Data, frozen=True, kw_only=True):
    """One stored conversation."""

    session_id: str
    created_at: datetime
    """When it was saved first, UTC."""
    updated_at: datetime
    """When it was saved last, UTC."""
    size: int
    """Characters of its stored JSON."""
    pending_approvals: int = 0
    """Requests for approval that have no answer yet."""


def check_session_id(session_id: object) -> str:
    """Return the id of a session if every storage can keep it unambiguously.

    Raises:
        SessionError: It is no text, empty, too long, or holds NUL or half a character.
    """
    if not isinstance(session_id, str) or not 0 < len(session_id) <= LONGEST_SESSION_ID:
        got = f"{len(session_id)} characters" if isinstance(session_id, str) else repr(session_id)
        raise SessionError(
            f"the id of a session must be a text of 1 to {LONGEST_SESSION_ID} characters, got {got}"
        )
    if "\0" in session_id or any("\ud800" <= each <= "\udfff" for each in session_id):
        raise SessionError(
            f"the id of a session may not hold NUL or half a character, got {session_id!r}"
        )
    return session_id


def revision_of(data: Mapping[str, Any]) -> str:
    """Return the `revision` of a conversation's data; empty: not given."""
    found = data.get("revision")
    return found if isinstance(found, str) and _REVISION.fullmatch(found) else ""


def check_page(limit: object, offset: object) -> None:
    """Raise `ConfigurationError` unless both are whole numbers of 0 or more."""
    check_count("limit", limit, maximum=_MOST)
    check_count("offset", offset, maximum=_MOST)
