"""Which changed files have been left alone for long enough that they can be read?"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple

from tool_engine.catalog.definition_files import FileStamp

__all__ = ["GONE", "Arrivals"]

GONE: Final = FileStamp(-1, -1, -1, -1)
"""The state of a file that is not there."""

_SHRUNK_TIME: Final = 0.2
"""Seconds for which a file must rest that became shorter in place: most likely it is written anew,
from its beginning."""
_EMPTY_TIME: Final = 0.5
"""Seconds for which a file must rest that is empty: most likely its writer has just begun."""
_LONG_AGO: Final = 60.0


class _Arrival(NamedTuple):
    stamp: FileStamp | None
    since: float


class Arrivals:
    """The states of files that nobody has read yet, and since when each file has been in it."""

    def __init__(self) -> None:
        self.is_open: Callable[[str], bool] = _is_open_nowhere
        """Whether somebody is known to have a file open for writing; such a file never rests."""
        self._by_path: dict[str, _Arrival] = {}

    def __contains__(self, path: str) -> bool:
        return path in self._by_path

    def paths(self) -> set[str]:
        """The files that have not been read in their present state."""
        return set(self._by_path)

    def stamp(self, path: str) -> FileStamp | None:
        """The state in which a file was last seen."""
        return self._by_path[path].stamp

    def note(self, path: str, stamp: FileStamp | None, *, trusts_age: bool = False) -> None:
        """Notes that a file is in a state; its rest begins anew when that is another one.

        Args:
            path: The file.
            stamp: Its state; None for what cannot be looked at.
            trusts_age: Counts the time since the file's last change as rest.
        """
        if path in self._by_path and self._by_path[path].stamp == stamp:
            return
        since = time.monotonic()
        if trusts_age and stamp is not None:
            since -= min(max(stamp.age(), 0.0), _LONG_AGO)
        self._by_path[path] = _Arrival(stamp, since)

    def note_at_rest(self, path: str, stamp: FileStamp | None) -> None:
        """Notes that a file is in a state of which it is known that nobody is making it."""
        self._by_path[path] = _Arrival(stamp, time.monotonic() - _LONG_AGO)

    def drop(self, path: str) -> None:
        """Forgets a file: it has been read, or is as it was when it was read."""
        self._by_path.pop(path, None)

    def time_left(self, path: str, settle: float, read: FileStamp | None) -> float:
        """Seconds until a file will have rested for long enough.

        Args:
            path: The file.
            settle: Seconds for which any file must rest.
            read: The state in which it was last read, if its becoming shorter is a reason to wait.
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
    """Whether the same file is shorter than it was; another file of the name came whole."""
    is_same = (before.device, before.inode) == (now.device, now.inode)
    return is_same and now.size < before.size


def _is_open_nowhere(path: str) -> bool:
    del path
    return False
