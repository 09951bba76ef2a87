"""Which failures of the database need different reactions?"""

from __future__ import annotations

from typing import Final

READING: Final = "the records in {place} cannot be read: {reason}"
"""The message for a reader who gets no answer."""


class UnusableDatabaseError(Exception):
    """A person must change the setting or the database; waiting does not help."""


class BusyError(Exception):
    """Another connection holds the database locked; the next try may succeed."""


class BadRowsError(Exception):
    """The database refused a whole batch because of one of its rows."""
