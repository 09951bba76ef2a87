"""May one more call start now, at so many calls per period?"""

from __future__ import annotations

from collections.abc import Iterable

from asyncio_throttle.throttler import Throttler

from tool_engine.model.concurrency import ToolRate

__all__ = ["Throttle"]


class Throttle(Throttler):
    """A rate, asked without waiting.

    asyncio-throttle keeps the times of the last starts. Its own `acquire` polls; here only the
    head waiter of a lane asks, once when it could run and once when the answer has changed.
    """

    def __init__(self, rate: ToolRate, starts: Iterable[float] = ()) -> None:
        super().__init__(rate_limit=rate.calls, period=rate.period)
        self.rate = rate
        self._task_logs.extend(starts)

    def copy(self, rate: ToolRate | None = None) -> Throttle:
        """One that goes on from here, apart from this one, under another rate if one is given."""
        return Throttle(self.rate if rate is None else rate, self._task_logs)

    def delay(self, now: float) -> float:
        """Seconds from `now` (the monotonic clock) until one more call may start; 0.0 for at once.

        Starts at the same instant as the end of the period still count, as in asyncio-throttle.
        """
        starts = self._task_logs
        while starts and now - starts[0] >= self.period:
            starts.popleft()
        if len(starts) < self.rate_limit:
            return 0.0
        return float(starts[len(starts) - self.rate_limit] + self.period - now)

    def count(self, now: float) -> None:
        """Counts a call that starts at `now`."""
        self._task_logs.append(now)
