"""Which changed files have rested long enough to be read?"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple

from tool_engine.catalog.definition_files import FileStamp

GONE: Final = FileStamp(-1, -1, -1, -1)
"""The state of a file that is not there."""

_SHRUNK_TIME: Final = 0.2
"""Seconds of rest for a file that became shorter in place: it is probably being rewritten."""
_EMPTY_TIME: Final = 0.5
"""Seconds of rest for an empty file: its writer has probably just begun."""
_LONG_AGO: Final = 60.0


class _Arrival(NamedTuple):
    stamp: FileStamp | None
    since: float


class Arrivals:
    """The unread states of files, with the time of each."""

    def __init__(self) -> None:
        self.is_open: Callable[[str], bool] = _is_open_nowhere
        """True if a process has the file open for writing: it never rests."""
        self._by_path: dict[str, _Arrival] = {}

    def __contains__(self, path: str) -> bool:
        return path in self._by_path

    def paths(self) -> set[str]:
        return set(self._by_path)

    def stamp(self, path: str) -> FileStamp | None:
        return self._by_path[path].stamp

    def note(self, path: str, stamp: FileStamp | None, *, trusts_age: bool = False) -> None:
        """Note a file's state; a new one begins its rest anew.

        With `trusts_age`, the time since the file's last change counts as rest.
        """
        if path in self._by_path and self._by_path[path].stamp == stamp:
            return
        since = time.monotonic()
        if trusts_age and stamp is not None:
            since -= min(max(stamp.age(), 0.0), _LONG_AGO)
        self._by_path[path] = _Arrival(stamp, since)

    def note_at_rest(self, path: str, stamp: FileStamp | None) -> None:
        """Note a file's state as finished: no process is writing it."""
        self._by_path[path] = _Arrival(stamp, time.monotonic() - _LONG_AGO)

    def drop(self, path: str) -> None:
        """Forget a file that was read, or changed back."""
        self._by_path.pop(path, None)

    def time_left(self, path: str, settle: float, read: FileStamp | None) -> float:
        """Return the seconds until a file has rested long enough.

        `read` is its last read state, if its becoming shorter is a reason to wait.
        """
        stamp, since = self._by_path[path]
        if self.is_open(path):
            since = time.monotonic()
            self._by_path[path] = _Arrival(stamp, since)
        if stamp is not None and stamp.size == 0:
            settle = max(settle, _EMPTY_TIME)
        elif stamp is not None and read is not None and _has_shrunk(read, stamp):
            settle = max(settle, _SHRUNK_TIME)
        return since + settle - time.monotonic()


def _has_shrunk(before: FileStamp, now: FileStamp) -> bool:
    """Return True if a file shrank, but was not replaced."""
    is_same = (before.device, before.inode) == (now.device, now.inode)
    return is_same and now.size < before.size


def _is_open_nowhere(path: str) -> bool:
    del path
    return False
