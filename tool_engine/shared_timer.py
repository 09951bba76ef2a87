"""Which of many deadlines of a loop has come?

A timer of the loop for each would cost more than what it is for: asyncio compares timers in Python,
and keeps those that were cancelled among the others for a while. So all that ends at deadlines for
one reason shares one timer, which is set to the earliest.
"""

from __future__ import annotations

import asyncio
from collections import deque
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

    __slots__ = ("_at", "_early", "_entries", "_expire", "_is_open", "_most", "_timer", "loop")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        is_open: Callable[[Item], bool],
        expire: Callable[[Item], object],
    ) -> None:
        self.loop = loop
        self._is_open = is_open
        self._expire = expire
        self._entries: deque[tuple[float, Item]] = deque()
        """Deadlines in order; where they are the same, the smaller item comes first. Most are later
        than all before them, as most of what one timer is for may last equally long."""
        self._early: list[tuple[float, Item]] = []
        """A heap of those that are not."""
        self._most = _SPARE
        """How many there may be until all are tidied up."""
        self._at = inf
        """When the timer ends, on the loop's clock; infinity: there is none."""
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Return how many deadlines are kept, also of some items that have ended."""
        return len(self._entries) + len(self._early)

    @property
    def is_set(self) -> bool:
        """Whether the loop has a timer for these."""
        return self._timer is not None

    def add(self, due: float, item: Item) -> None:
        """Have an item expire at `due` on the loop's clock, if it is open then."""
        entries, is_open, entry = self._entries, self._is_open, (due, item)
        # What has ended goes at once where it can: it keeps alive all that its call had, which the
        # garbage collector would look through again and again.
        while entries and not is_open(entries[0][1]):
            entries.popleft()
        if len(entries) + len(self._early) >= self._most:
            self._tidy_up()
        if not entries or entries[-1] < entry:
            entries.append(entry)
        else:
            heappush(self._early, entry)
        # It stays set for an item that ends before: mostly the next deadline is a later one.
        if due < self._at:
            self._set_timer(due)

    def stop(self) -> None:
        """Forget all deadlines."""
        self._entries.clear()
        self._early.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._at, self._timer = inf, None

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._at, self._timer = at, self.loop.call_at(at, self._expire_due)

    def _tidy_up(self) -> None:
        entries, early, is_open = self._entries, self._early, self._is_open
        for kept in (entries, early):
            still_open = [each for each in kept if is_open(each[1])]
            kept.clear()
            kept.extend(still_open)
        heapify(early)
        self._most = 2 * len(self) + _SPARE

    def _find_first(self) -> tuple[float, Item] | None:
        """Return the earliest deadline that is kept."""
        entries, early = self._entries, self._early
        if early and (not entries or early[0] < entries[0]):
            return early[0]
        return entries[0] if entries else None

    def _expire_due(self) -> None:
        entries, early, is_open = self._entries, self._early, self._is_open
        # A loop calls up to the resolution of its clock too early, and would do so again.
        now = max(self._at, self.loop.time())
        self._at, self._timer = inf, None
        left = _AT_ONCE
        try:
            while left and (first := self._find_first()) is not None:
                due, item = first
                if due > now and is_open(item):
                    break
                if early and first is early[0]:
                    heappop(early)
                else:
                    entries.popleft()
                if is_open(item):
                    left -= 1
                    self._expire(item)
        finally:
            # Also where what an item waits for raises when it is cancelled.
            if (first := self._find_first()) is not None:
                self._set_timer(first[0])
