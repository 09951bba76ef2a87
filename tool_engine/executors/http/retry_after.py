"""How long a pause does a server ask for?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

OVERLOADED: Final = frozenset({429, 503})
"""Answers of a service that has no room now."""
# RFC 9110, 10.2.3 knows whole seconds; some servers send fractions.
_MOST: Final = 1e9
"""Seconds; a number with hundreds of digits would be infinite."""
_SECONDS: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?", re.ASCII)


def pause_asked_for(status: int, headers: Mapping[str, str]) -> float | None:
    """Return the `Retry-After` seconds of an answer 429 or 503, or None.

    A date counts from the server's own `Date`, which makes the clocks irrelevant. What cannot be
    read, and what is not in the future, is no pause.
    """
    if status not in OVERLOADED:
        return None
    value = headers.get("Retry-After", "").strip()
    if _SECONDS.fullmatch(value):
        seconds = min(float(value), _MOST)
    else:
        until = _parse_date(value)
        if until is None:
            return None
        now = _parse_date(headers.get("Date", "")) or datetime.now(UTC)
        seconds = (until - now).total_seconds()
    return seconds if seconds > 0 else None


def _parse_date(value: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(value)
        return date if date.tzinfo is not None else date.replace(tzinfo=UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
