"""Which calls wait to be written, and which are dropped when too many do?

The oldest are dropped, as in memory: after a long outage an operator looks for what happened last.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import Final

from tool_engine.model.record import CallEntry, KeptCall

MOST_ENTRIES: Final = 100_000
"""The most calls that wait."""
MOST_BYTES: Final = 134_217_728
"""About the most bytes that their arguments and outputs take."""
_LARGE: Final = 4_096
"""Bytes from which a snapshot counts against `MOST_BYTES`."""


class RecordBuffer:
    """Takes calls at the cost of an append, and returns them in order.

    Calls come from any thread, and go to one.

    Args:
        attend: Called with the first call after `rest`, and whenever another `look_every` wait.
        most_entries: Calls that wait at most.
        most_bytes: About the most bytes that they take.
    """

    look_every: Final = 1_000

    def __init__(
        self,
        attend: Callable[[], None],
        most_entries: int = MOST_ENTRIES,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.most_entries = most_entries
        self.most_bytes = most_bytes
        self.added = 0
        """Calls ever taken: the number of the newest."""
        self._given = 0
        self._done = 0
        self._dropped = 0
        # Never held while adding: `append` does not change what was taken.
        self._lock = Lock()
        self._attend = attend
        # Beyond its length a deque drops the oldest by itself.
        self._waiting: deque[KeptCall] = deque(maxlen=most_entries)
        self._append = self._waiting.append
        self._look_at = 0
        self._unweighed = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def waiting(self) -> int:
        with self._lock:
            return len(self._waiting) + self._given - self._done

    @property
    def dropped(self) -> int:
        with self._lock:
            return self._count_dropped()

    @property
    def passed(self) -> int:
        """The number of the newest call that was taken or dropped: all later ones wait."""
        with self._lock:
            return self._given + self._count_dropped()

    def add(self, kept: KeptCall) -> None:
        """Take one call; never waits, never raises."""
        self._append(kept)
        self.added += 1
        # A dict's length is its number of keys: only an entry's snapshots ever count as large.
        if (
            self.added >= self._look_at
            or len(kept.result) > _LARGE
            or len(kept.params) > _LARGE
            or kept.whole is not None
        ):
            self._weigh_call(kept)

    def rest(self) -> None:
        """Let the next call that comes run `attend`."""
        self._look_at = 0

    def take(self, most: int, most_bytes: int) -> list[KeptCall]:
        """Return the oldest calls: at most `most`, and no more after `most_bytes`."""
        taken: list[KeptCall] = []
        size = 0
        with self._lock:
            # Adding may drop some meanwhile, or all of them.
            with suppress(IndexError):
                while len(taken) < most and size < most_bytes:
                    taken.append(self._waiting.popleft())
                    size += size_of(taken[-1])
            self._given += len(taken)
        return taken

    def done(self, count: int) -> None:
        """Remove so many of the taken calls from those that wait."""
        with self._lock:
            self._done += count

    def clear(self) -> int:
        """Drop all that wait; return how many were taken and not done."""
        self._waiting.clear()
        with self._lock:
            left, self._done = self._given - self._done, self._given
            return left

    def _count_dropped(self) -> int:
        # One that is being added may be there, and not counted yet.
        found = self.added - self._given - len(self._waiting)
        self._dropped = max(self._dropped, found)
        return self._dropped

    def _weigh_call(self, kept: KeptCall) -> None:
        size = size_of(kept)
        if size > _LARGE:
            self._unweighed += size
            # All are weighed now and then: the bound may be passed by a sixteenth.
            if self._unweighed > self.most_bytes // 16:
                self._unweighed = 0
                self._make_room()
        if self.added >= self._look_at:
            # When so many wait, however many came before the writer had its rest.
            self._look_at = self.added + self.look_every - len(self._waiting) % self.look_every
            self._attend()

    def _make_room(self) -> None:
        # A copy: the other side takes meanwhile.
        surplus = sum(map(size_of, self._waiting.copy())) - self.most_bytes
        with suppress(IndexError):
            while surplus > 0:
                surplus -= size_of(self._waiting.popleft())


def size_of(kept: KeptCall) -> int:
    """Return about the bytes of a call; a record made elsewhere counts as small."""
    if type(kept) is not CallEntry:
        return 0
    size = len(kept.params) + len(kept.result)
    return size if kept.whole is None else size + len(kept.whole)
