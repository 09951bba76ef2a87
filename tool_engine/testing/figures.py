"""How long did many calls wait, how many were refused, how busy were the slots?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from tool_engine.testing.trace import TraceCall

NO_BUCKET: Final = "__default__"
"""How a call without a bucket is listed, as in `get_bucket_metrics()`."""
_MOST_JITTER: Final = 0.001
"""Shorter overlaps in seconds are not certain: records are dated to the millisecond."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of many calls, in seconds; waits of those that ran."""

    calls: int
    ran: int
    rejected: dict[str, int]
    """Calls that never had a slot, by error type, most frequent first."""
    wait_mean: float
    wait_p50: float
    wait_p90: float
    wait_p95: float
    wait_p99: float
    wait_max: float
    makespan: float
    """Seconds from the first call's request for a slot to the last call's end."""
    slot_seconds: float
    """Seconds for which slots were in use, a call of weight 2 counting twice."""
    slots: int
    """The number of slots. Of recorded calls, whose limits are not known: the peak."""
    utilisation: float
    """`slot_seconds` as a share of the capacity of `slots` during `makespan`."""
    peak: int
    """The most slots in use at once."""
    longest_queue: int
    """The most calls that waited at once."""

    @classmethod
    def of(
        cls,
        calls: Sequence[TraceCall],
        slots: int | None = None,
        unlimited: frozenset[str] = frozenset(),
    ) -> Figures:
        """Return the figures of `calls`.

        Args:
            calls: Those that ran and those that were refused.
            slots: The number of slots; None: as many as were in use at once, for recorded
                calls, whose times are known to the millisecond.
            unlimited: Caller types that need no slot.
        """
        waits = sorted(call.wait for call in calls if call.started_at is not None)
        refused = Counter(call.error_type or "unknown" for call in calls if call.started_at is None)
        held = [
            (call.started_at, call.ended_at, call.weight)
            for call in calls
            if call.started_at is not None and call.caller_type not in unlimited
        ]
        start = min((call.enqueued_at for call in calls), default=0.0)
        makespan = max((call.ended_at for call in calls), default=0.0) - start
        peak = most_at_once(held, 0.0 if slots is not None else _MOST_JITTER)
        used = math.fsum((end - begin) * weight for begin, end, weight in held)
        available = (peak if slots is None else slots) * makespan
        return cls(
            calls=len(calls),
            ran=len(waits),
            rejected=dict(refused.most_common()),
            wait_mean=_round_seconds(math.fsum(waits) / len(waits) if waits else 0.0),
            wait_p50=_find_percentile(waits, 0.5),
            wait_p90=_find_percentile(waits, 0.9),
            wait_p95=_find_percentile(waits, 0.95),
            wait_p99=_find_percentile(waits, 0.99),
            wait_max=waits[-1] if waits else 0.0,
            makespan=_round_seconds(makespan),
            slot_seconds=_round_seconds(used),
            slots=peak if slots is None else slots,
            utilisation=round(used / available, 4) if available else 0.0,
            peak=peak,
            longest_queue=most_at_once(
                [(call.enqueued_at, call.enqueued_at + call.wait, 1) for call in calls if call.wait]
            ),
        )


class RunFigures(msgspec.Struct, frozen=True):
    """The figures of one run: of all calls, and by bucket."""

    total: Figures
    buckets: dict[str, Figures]

    @classmethod
    def of(
        cls,
        calls: Sequence[TraceCall],
        slots_of: Callable[[str | None], int] | None = None,
        unlimited: frozenset[str] = frozenset(),
    ) -> RunFigures:
        """Return the figures of a run.

        Args:
            calls: Those that ran and those that were refused.
            slots_of: Returns the slots of a bucket; of None: those of all. Not given for
                recorded calls, whose limits are not known.
            unlimited: Caller types that need no slot.
        """
        by_bucket: dict[str, list[TraceCall]] = {}
        for call in calls:
            by_bucket.setdefault(call.bucket or NO_BUCKET, []).append(call)
        return cls(
            Figures.of(calls, slots_of and slots_of(None), unlimited),
            {
                bucket: Figures.of(each, slots_of and slots_of(bucket), unlimited)
                for bucket, each in sorted(by_bucket.items())
            },
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        values: dict[str, Any] = msgspec.to_builtins(self)
        return values


def make_curve(intervals: Iterable[tuple[float, float, int]]) -> list[tuple[float, int]]:
    """Return the amount over time: `(time, amount)`, one per change.

    Args:
        intervals: Begin, end and amount of each; the end itself is excluded.
    """
    changes: dict[float, int] = {}
    for begin, end, amount in intervals:
        changes[begin] = changes.get(begin, 0) + amount
        changes[end] = changes.get(end, 0) - amount
    level = 0
    steps = []
    for time in sorted(changes):
        if changes[time]:
            level += changes[time]
            steps.append((time, level))
    return steps


def most_at_once(intervals: Iterable[tuple[float, float, int]], jitter: float = 0.0) -> int:
    """Return the largest amount at any time, without overlaps up to `jitter`."""
    shortened = [
        (begin, max(end - jitter, begin + (end - begin) / 2), amount)
        for begin, end, amount in intervals
    ]
    return max((level for _, level in make_curve(shortened)), default=0)


def _find_percentile(ordered: Sequence[float], share: float) -> float:
    """Return the least value that `share` of all do not exceed (nearest rank)."""
    return ordered[max(math.ceil(share * len(ordered)), 1) - 1] if ordered else 0.0


def _round_seconds(seconds: float) -> float:
    return round(seconds, 6)
