"""May one more call start now, at so many calls per period?"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from tool_engine.model.settings.concurrency import ToolRate


class Throttle:
    """A rate, asked without waiting: a sliding window over the last starts.

    Only the head waiter of a line asks: once when it could run, and once when the answer has
    changed. It knows no clock: every `now` is a reading of one monotonic clock of the caller's.

    Args:
        rate: How many calls may start in which period.
        starts: When the last ones started, in order.
    """

    __slots__ = ("_period", "_starts", "rate")

    def __init__(self, rate: ToolRate, starts: Iterable[float] = ()) -> None:
        self.rate = rate
        self._starts = deque(starts, rate.calls)
        self._period = rate.period

    def configure(self, rate: ToolRate) -> None:
        """Goes on under another rate; what has started counts."""
        # Neither fewer nor for less long than before: what is changed may be changed back.
        self.rate, self._period = rate, max(self._period, rate.period)
        if rate.calls > (self._starts.maxlen or 0):
            self._starts = deque(self._starts, rate.calls)

    def copy(self) -> Throttle:
        """One that goes on from here, apart from this one."""
        return Throttle(self.rate, self._starts)

    def delay(self, now: float) -> float:
        """Seconds from `now` until one more call may start; 0.0 for at once."""
        starts, (calls, period) = self._starts, (self.rate.calls, self.rate.period)
        if len(starts) < calls or now - starts[-calls] >= period:
            return 0.0
        return starts[-calls] + period - now

    def count(self, now: float) -> None:
        """Counts a call that starts at `now`."""
        starts = self._starts
        while starts and now - starts[0] >= self._period:
            starts.popleft()
        starts.append(now)
