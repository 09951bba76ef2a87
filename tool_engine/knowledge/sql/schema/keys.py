"""Which number identifies a record, and what does it mean?

A key begins with the time at which the call ended, so that rows lie in order of time and a range of
time is a range of keys. The record's id is made of the key.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta
from typing import Final

KEY_STEP: Final = 1_024
"""Keys per microsecond: few processes end calls in the same one."""
SLACK: Final = 60_000_000
"""Microseconds by which a key may be ahead of its row's time."""
_SAME_TIME: Final = 30_000_000 * KEY_STEP
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_LARGEST: Final = 2**53 - 2 * SLACK
_ID: Final = re.compile(r"7001ca11-([0-9a-f]{4})-8([0-9a-f]{3})-8([0-9a-f]{3})-([0-9a-f]{12})")


def microseconds_of(date: datetime) -> int:
    return (date - _EPOCH) // _MICROSECOND


def date_of(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def key_of_time(time: int) -> int:
    """Return the smallest key of a time in microseconds; clamped to valid keys."""
    return max(-_LARGEST, min(time, _LARGEST)) * KEY_STEP


def record_id_of(key: int) -> str:
    """Return the record id of a key, in the form of a UUID."""
    # 64 bits in a UUID of version 8, around the bits that say so.
    digits = f"{key + 2**63:016x}"
    return f"7001ca11-{digits[:4]}-8{digits[4:7]}-8{digits[7:10]}-{digits[10:]}000000"


def key_of_id(record_id: str) -> int | None:
    """Return the key behind an id; None for an id made elsewhere."""
    found = _ID.fullmatch(record_id)
    if found is None or not record_id.endswith("000000"):
        return None
    return int("".join(found.groups())[:16], 16) - 2**63


class KeyMaker:
    """Gives keys to the rows of this process, in order of arrival."""

    def __init__(self) -> None:
        self._mark = int.from_bytes(os.urandom(2), "big") % KEY_STEP
        self._last = -(2**63)

    def key(self, time: int) -> int:
        """Return a key for a call that ended at `time` in microseconds."""
        if not -_LARGEST < time < _LARGEST:
            time = key_of_time(time) // KEY_STEP
        key = time * KEY_STEP + self._mark
        if key <= self._last and self._last - key < _SAME_TIME:
            # Two in one microsecond, or a clock that was set back a little.
            key = self._last + KEY_STEP
        self._last = key
        return key
