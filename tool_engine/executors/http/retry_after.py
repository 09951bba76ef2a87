"""For how long does a server ask not to be called?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

__all__ = ["pause_asked_for"]

_STATUS: Final = frozenset({429, 503})
# RFC 9110, 10.2.3 knows whole seconds; some servers send fractions.
_MOST: Final = 1e9
"""Seconds; a number with hundreds of digits would be an infinity, which nobody can wait for."""
_SECONDS: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?", re.ASCII)


def pause_asked_for(status: int, headers: Mapping[str, str]) -> float | None:
    """The seconds that `Retry-After` names in an answer 429 or 503; None: it asks for no pause.

    A date counts from the server's own `Date`, so that it does not matter whose clock is right.
    What cannot be read, and what is not in the future, is no pause.
    """
    if status not in _STATUS:
        return None
    value = headers.get("Retry-After", "").strip()
    if _SECONDS.fullmatch(value):
        seconds = min(float(value), _MOST)
    else:
        until = _date(value)
        if until is None:
            return None
        now = _date(headers.get("Date", "")) or datetime.now(UTC)
        seconds = (until - now).total_seconds()
    return seconds if seconds > 0 else None


def _date(value: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(value)
        return date if date.tzinfo is not None else date.replace(tzinfo=UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
