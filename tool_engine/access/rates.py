"""How many requests may a principal send?

Counted by asyncio-throttle, since a request that is too early is refused, and not kept waiting. The
rates of tools are counted by `tool_engine.admission.throttle`, which goes by the clock of the loop,
takes another rate while it counts, and can be copied for a forecast: the library does none of it.
"""

from __future__ import annotations

from collections import OrderedDict
from time import monotonic
from typing import Final

from asyncio_throttle.throttler import Throttler

from tool_engine.access.problem import Problem
from tool_engine.model.settings.concurrency import ToolRate

_MOST: Final = 10_000
"""Principals that are counted at once; the one that asked longest ago is forgotten."""


class _Window(Throttler):
    """The requests of one principal within the last period."""

    def take(self) -> float | None:
        """Count a request that may be sent now; else return the seconds until one may."""
        acquiring = self.acquire()  # type: ignore[no-untyped-call] # the library has no types
        try:
            # It ends at its first step, or would look again in the loop's next turn.
            acquiring.send(None)
        except StopIteration:
            return None
        finally:
            acquiring.close()
        # It has no public word for when, and that it keeps its starts so is tested.
        left: float = self._task_logs[0] + self.period - monotonic()
        return max(left, 0.0)

    def is_idle(self) -> bool:
        """Return True if nothing of it counts any more."""
        self.flush()  # type: ignore[no-untyped-call] # as above
        return not self._task_logs


class Rates:
    """The requests of each principal, counted apart.

    What is kept of all of them is no more than one time for each request of the last period.

    Args:
        rate: As in a definition: `100/s`.

    Raises:
        ConfigurationError: It is no rate.
    """

    def __init__(self, rate: str) -> None:
        self.text = rate
        self._rate = ToolRate.parse(rate)
        self._known: OrderedDict[str, _Window] = OrderedDict()

    def check(self, name: str) -> None:
        """Count a request of a principal.

        Raises:
            Problem: It has sent too many.
        """
        wait = self.count(name)
        if wait is not None:
            raise Problem(
                429,
                "too-many-requests",
                f"more requests than {self.text} have come; send less",
                retry_after=int(wait) + 1.0,
            )

    def count(self, name: str) -> float | None:
        """Count a request that may be sent now; else return the seconds until one may."""
        window = self._known.get(name)
        if window is None:
            window = self._known[name] = _Window(self._rate.calls, self._rate.period, 0)
        self._known.move_to_end(name)
        self._forget_idle()
        return window.take()

    def _forget_idle(self) -> None:
        # Two for each one that may be new: so those that ask no more are gone soon.
        for _ in range(2):
            first = next(iter(self._known))
            if len(self._known) == 1:
                return
            if len(self._known) <= _MOST and not self._known[first].is_idle():
                return
            del self._known[first]
