"""Which runs of a loop are ended next, and when?

A timer of the loop for each run would cost as much as the rest of a short wait: asyncio compares
timers in Python, and keeps those that were cancelled among the others for a while. So all runs of
a loop share one, which is set to the earliest deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from heapq import heapify, heappop
from math import inf
from typing import Final, Protocol

TIMED_OUT: Final = "timed out"
"""The end reason of a run whose deadline has passed."""
_SPARE: Final = 64
"""Deadlines of runs that have ended which are kept beside twice as many as there are runs."""
_AT_ONCE: Final = 1_000
"""Runs that are ended in one turn of the loop."""


class Endable(Protocol):
    """A run, as an alarm sees it."""

    def end(self, reason: str) -> None:
        """Cancel the tool and let the caller continue."""


class Alarm:
    """Ends the runs of one loop at their deadlines.

    Args:
        loop: The loop.
        running: The runs that have not ended, by number.
    """

    __slots__ = ("_running", "_timer", "at", "due", "loop", "most")

    def __init__(self, loop: asyncio.AbstractEventLoop, running: Mapping[int, Endable]) -> None:
        self.loop = loop
        self._running = running
        self.due: list[tuple[float, int]] = []
        """A heap of deadlines and numbers of runs, also of some that have ended."""
        self.most = _SPARE
        """How long the heap grows until it is tidied up."""
        self.at = inf
        """When it rings, on the loop's clock."""
        self._timer: asyncio.TimerHandle | None = None

    def stop(self) -> None:
        """End no more runs."""
        self.due.clear()
        self.at = inf
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def tidy_up(self) -> None:
        """Forget runs that have ended."""
        due, running = self.due, self._running
        due[:] = [each for each in due if each[1] in running]
        heapify(due)
        self.most = 2 * len(due) + _SPARE

    def set(self, at: float) -> None:
        """Look at `at` on the loop's clock which runs are due, and not before."""
        if self._timer is not None:
            self._timer.cancel()
        self.at, self._timer = at, self.loop.call_at(at, self._end_due)

    def _end_due(self) -> None:
        due, running = self.due, self._running
        # A loop calls up to the resolution of its clock too early, and would do so again.
        now = max(self.at, self.loop.time())
        self.at, self._timer = inf, None
        left = _AT_ONCE
        try:
            while due and left and (due[0][0] <= now or due[0][1] not in running):
                run = running.get(heappop(due)[1])
                if run is not None:
                    left -= 1
                    run.end(TIMED_OUT)
        finally:
            # Also where what a tool waits for raises when it is cancelled.
            if due:
                self.set(due[0][0])
