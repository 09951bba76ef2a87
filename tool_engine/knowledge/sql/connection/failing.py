"""What can go wrong with the database, as far as it matters for what is done about it?"""

from __future__ import annotations

from typing import Final

__all__ = ["READING", "BadRowsError", "BusyError", "UnusableDatabaseError"]

READING: Final = "the records in {place} cannot be read: {reason}"
"""What somebody is told who gets no answer."""


class UnusableDatabaseError(Exception):
    """Waiting does not help: somebody has to change the setting or the database."""


class BusyError(Exception):
    """Somebody else holds the database locked; the next try may succeed."""


class BadRowsError(Exception):
    """The database took none of these rows, because it refuses one of them."""
