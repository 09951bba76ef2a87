"""Which of many deadlines of a loop has come?

A timer of the loop for each would cost more than what it is for: asyncio compares timers in Python,
and keeps those that were cancelled among the others for a while. So all that ends at deadlines for
one reason shares one timer, which is set to the earliest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final, Generic, TypeVar

Item = TypeVar("Item")

_SPARE: Final = 64
"""Deadlines of what has ended that are kept beside twice as many as have not."""
_AT_ONCE: Final = 1_000
"""Items that are ended in one turn of the loop."""


class SharedTimer(Generic[Item]):
    """The deadlines of many items on one loop, which share a timer; a smaller item is an older one.

    Args:
        loop: The loop.
        is_open: Whether an item has not ended; those that have are forgotten.
        expire: Called for each item that is open at its deadline, the earliest first.
    """

    __slots__ = ("_at", "_entries", "_expire", "_is_open", "_most", "_timer", "loop")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        is_open: Callable[[Item], bool],
        expire: Callable[[Item], object],
    ) -> None:
        self.loop = loop
        self._is_open = is_open
        self._expire = expire
        self._entries: list[tuple[float, Item]] = []
        """A heap of deadlines; where they are the same, the smaller item comes first."""
        self._most = _SPARE
        """How long the heap grows until it is tidied up."""
        self._at = inf
        """When the timer ends, on the loop's clock; infinity: there is none."""
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Return how many deadlines are kept, also of some items that have ended."""
        return len(self._entries)

    @property
    def is_set(self) -> bool:
        """Whether the loop has a timer for these."""
        return self._timer is not None

    def add(self, due: float, item: Item) -> None:
        """Have an item expire at `due` on the loop's clock, if it is open then."""
        entries = self._entries
        if len(entries) >= self._most:
            self._tidy_up()
        heappush(entries, (due, item))
        # It stays set for an item that ends before: mostly the next deadline is a later one.
        if due < self._at:
            self._set_timer(due)

    def stop(self) -> None:
        """Forget all deadlines."""
        self._entries.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._at, self._timer = inf, None

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._at, self._timer = at, self.loop.call_at(at, self._expire_due)

    def _tidy_up(self) -> None:
        entries, is_open = self._entries, self._is_open
        entries[:] = [each for each in entries if is_open(each[1])]
        heapify(entries)
        self._most = 2 * len(entries) + _SPARE

    def _expire_due(self) -> None:
        entries, is_open = self._entries, self._is_open
        # A loop calls up to the resolution of its clock too early, and would do so again.
        now = max(self._at, self.loop.time())
        self._at, self._timer = inf, None
        left = _AT_ONCE
        try:
            while entries and left and (entries[0][0] <= now or not is_open(entries[0][1])):
                item = heappop(entries)[1]
                if is_open(item):
                    left -= 1
                    self._expire(item)
        finally:
            # Also where what an item waits for raises when it is cancelled.
            if entries:
                self._set_timer(entries[0][0])
