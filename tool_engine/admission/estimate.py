"""How long do calls hold their slots, judging by those before them?"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from math import fsum, inf, log, sqrt
from random import Random
from typing import Final

NINE_TENTHS: Final = 1.2816
"""Standard deviations above the mean below which nine tenths of a normal distribution lie."""
_STEPS: Final = 100
_EXPONENTIAL: Final = [-log(1.0 - (step + 0.5) / _STEPS) for step in range(_STEPS)]
"""Times of calls of which only the mean is known, as shares of it: most are short, few long."""


def percentile(values: Iterable[float], share: float) -> float | None:
    """The value below which `share` of the values lie; None when there are none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


class ServiceTimes:
    """Seconds for which calls of one bucket hold their slots.

    Args:
        observed: Those of the last calls.
        mean: That of all calls, for when there are none of the last; None: nothing is known.
        unknown: What to take for them then.
    """

    __slots__ = ("_ordered", "mean", "spread")
    mean: float
    spread: float
    """The standard deviation."""

    def __init__(self, observed: Sequence[float], mean: float | None, unknown: float = inf) -> None:
        if not observed:
            observed = [unknown] if mean is None else [mean * share for share in _EXPONENTIAL]
        self._ordered = sorted(observed)
        first, last = self._ordered[0], self._ordered[-1]
        self.mean, self.spread = first, 0.0
        if first != last:
            self.mean = fsum(observed) / len(observed)
            squares = fsum((each - self.mean) ** 2 for each in observed)
            self.spread = sqrt(squares / len(observed))

    def whole(self, luck: Random | None) -> float:
        """How long a call runs: as long as some call did, or the mean without `luck`."""
        return self.mean if luck is None else luck.choice(self._ordered)

    def error_of_sum(self, count: int) -> float:
        """The standard deviation of what `count` calls take together, as a share of it.

        Part of it is that the mean is only known from those that were observed.
        """
        if self.spread == 0:
            return 0.0
        return self.spread / self.mean * sqrt(1 / count + 1 / len(self._ordered))

    def rest(self, age: float, luck: Random | None) -> float:
        """How much longer a call runs that has run for `age` seconds.

        As long as some call did that ran as long; without `luck`, as the median of those. One that
        has outrun all others is taken to go on for as long as it has outrun them.
        """
        ordered = self._ordered
        first, end = bisect_right(ordered, age), len(ordered)
        if first == end:
            return age - ordered[-1]
        return ordered[(first + end) // 2 if luck is None else luck.randrange(first, end)] - age
