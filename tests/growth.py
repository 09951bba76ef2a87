"""How does the time of a piece of work grow with its input, however busy the machine is?

What is counted is the processor time of this thread, so that others do not matter. The inputs
double until the work takes a while. Of the last doublings the one that cost least counts: what is
steep is so at each, and a step where a reader goes another way is not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import msgspec

from tests.effort import IS_WHOLE

__all__ = ["Growth", "growth_of"]

ENOUGH = 0.01 if IS_WHOLE else 0.004
"""Seconds; what takes less is measured with a larger input."""
TRIES = 3 if IS_WHOLE else 1
"""The lowest counts: a collection of garbage only ever adds, and what looks steep has more."""
MORE_TRIES = 5
DOUBTFUL = 1.25
"""An exponent from which on chance is excluded by more tries."""


class Growth(msgspec.Struct, frozen=True):
    """What was measured."""

    exponent: float
    """1 where twice the input takes twice the time, 2 where it takes four times as much."""
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]


def seconds_of(work: Callable[[Any], object], given: Any) -> float:
    """Gives the processor time of one piece of work."""
    began = time.thread_time()
    work(given)
    return time.thread_time() - began


def growth_of(
    work: Callable[[Any], object],
    make: Callable[[int], Any],
    *,
    start: int = 100,
    most: int,
    at_first: int = TRIES,
) -> Growth:
    """Measures `work(make(n))` for n that double, up to `most`.

    Args:
        work: What is measured.
        make: Makes an input of a size; its own time does not count.
        start: The smallest size.
        most: The largest size.
        at_first: How often each size is measured, if nothing looks steep.
    """
    size = start
    while size * 8 <= most and seconds_of(work, make(size * 4)) < ENOUGH:
        size *= 2
    sizes: tuple[int, ...] = (size, size * 2, size * 4)
    tries: list[list[float]] = []
    exponent = math.inf
    for more in (at_first, MORE_TRIES):
        if exponent > DOUBTFUL:
            # In turns, so that a slow moment of the machine hits all sizes.
            tries += [[seconds_of(work, make(each)) for each in sizes] for _ in range(more)]
            seconds = tuple(max(min(of_size), 1e-6) for of_size in zip(*tries, strict=True))
            exponent = math.log2(min(seconds[2] / seconds[1], seconds[1] / seconds[0]))
    if exponent > DOUBTFUL:
        # The step to another way may take two doublings; what is steep is so at the next, too.
        last = min(seconds_of(work, make(size * 8)) for _ in range(MORE_TRIES))
        sizes, seconds = (*sizes, size * 8), (*seconds, max(last, 1e-6))
        exponent = min(exponent, math.log2(seconds[3] / seconds[2]))
    return Growth(exponent, sizes, seconds)
