"""How do many calls add up, and how long do they take?

Times are counted in bins, each 3 % wider than the one before, so that any number of calls can be
counted where they lie and the counts added up. A percentile is the largest time in its bin: the
exact nearest rank or up to 3 % more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from math import isfinite, log2
from typing import Any, Final, TypeAlias

import msgspec

from tool_engine.model.json.data import Data
from tool_engine.model.outcome import success_rate
from tool_engine.model.record import KeptCall, ToolCallRecord

BINS_PER_DOUBLING: Final = 24
_FINEST: Final = 1e-6
_PERCENTILES: Final = (50, 95, 99)
Group: TypeAlias = tuple[str, str | None]
"""A tool and a bucket."""


def time_bin(seconds: float) -> int:
    """Return the bin of a time; 0 for up to a microsecond."""
    if not seconds > _FINEST or not isfinite(seconds):
        return 0
    return int(log2(seconds / _FINEST) * BINS_PER_DOUBLING) + 1


class CallCount(msgspec.Struct, frozen=True):
    """How many calls of one tool and bucket ended in one way."""

    group: Group
    outcome: str
    error_type: str | None
    count: int
    execution_time: float
    """Seconds, the sum over all of them."""
    queue_wait: float


class TimeCount(msgspec.Struct, frozen=True):
    """How many calls of one tool and bucket took about as long."""

    group: Group
    measure: str
    """`execution_time` or `queue_wait`."""
    bin: int
    count: int
    largest: float
    """Seconds: the longest of them."""


class _Tally:
    """The sum of the counts of some groups."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.error_types: Counter[str] = Counter()
        self.seconds: dict[str, float] = {"execution_time": 0.0, "queue_wait": 0.0}
        self.bins: dict[str, dict[int, tuple[int, float]]] = {
            "execution_time": {},
            "queue_wait": {},
        }

    def add(self, counted: CallCount) -> None:
        self.outcomes[counted.outcome] += counted.count
        if counted.outcome != "succeeded":
            self.error_types[counted.error_type or "unknown"] += counted.count
        self.seconds["execution_time"] += counted.execution_time
        self.seconds["queue_wait"] += counted.queue_wait

    def add_times(self, counted: TimeCount) -> None:
        bins = self.bins[counted.measure]
        count, largest = bins.get(counted.bin, (0, 0.0))
        bins[counted.bin] = (count + counted.count, max(largest, counted.largest))

    @property
    def total(self) -> int:
        return self.outcomes.total()

    def shown(self) -> dict[str, Any]:
        total, succeeded = self.total, self.outcomes["succeeded"]
        return {
            "total": total,
            "failed": total - succeeded,
            "error_rate": round(100.0 * (total - succeeded) / total, 2),
            "outcomes": dict(self.outcomes.most_common()),
            "error_types": dict(self.error_types.most_common()),
            **{name: self.times(name) for name in self.bins},
        }

    def times(self, measure: str) -> dict[str, float]:
        """Return average, percentiles and maximum of a measure, in seconds."""
        bins, total = self.bins[measure], self.total
        shown = {"avg": self.seconds[measure] / total if total else 0.0}
        ranks = [(f"p{each}", -(-total * each // 100)) for each in _PERCENTILES]
        passed, reached = 0, 0.0
        for number in sorted(bins):
            count, reached = bins[number]
            passed += count
            while ranks and passed >= ranks[0][1]:
                shown[ranks.pop(0)[0]] = reached
        shown |= dict.fromkeys((name for name, _ in ranks), reached)
        return {**shown, "max": reached}


class CallStatistics(msgspec.Struct, frozen=True):
    """Totals of many calls; every time in seconds, every rate in percent."""

    total: int
    outcomes: dict[str, int]
    """Calls per outcome, most frequent first."""
    error_types: dict[str, int]
    """Calls that did not succeed per error type, most frequent first."""
    total_execution_time: float
    """Seconds, the sum over all calls."""
    execution_time: dict[str, float]
    """`avg`, `p50`, `p95`, `p99` and `max`."""
    queue_wait: dict[str, float]
    """The same, of the time that calls waited for a slot."""
    by_tool: dict[str, dict[str, Any]]
    """Per tool, most used first: `total`, `failed`, `error_rate`, `outcomes`, `error_types`,
    `execution_time` and `queue_wait`."""
    by_bucket: dict[str, dict[str, Any]]
    """The same per bucket; calls that reached none are left out."""

    @classmethod
    def of_records(
        cls, records: Iterable[KeptCall], shown: Callable[[str], str] = str
    ) -> CallStatistics:
        """Sum up `records`; `shown` as for `of`."""
        return cls.of(*_count_calls(records), shown)

    @classmethod
    def of(
        cls,
        calls: Iterable[CallCount],
        times: Iterable[TimeCount],
        shown: Callable[[str], str] = str,
    ) -> CallStatistics:
        """Sum up counts per tool and bucket.

        Args:
            calls: How the calls ended.
            times: How long they took.
            shown: How the name of a tool may be shown; names that are shown alike are one.
        """
        name_of = cache(shown)
        everything = _Tally()
        tools: dict[str, _Tally] = {}
        buckets: dict[str, _Tally] = {}

        def tallies(group: Group) -> Iterable[_Tally]:
            tool, bucket = group
            yield everything
            yield tools.setdefault(name_of(tool), _Tally())
            if bucket is not None:
                yield buckets.setdefault(bucket, _Tally())

        for call in calls:
            for tally in tallies(call.group):
                tally.add(call)
        for time in times:
            for tally in tallies(time.group):
                tally.add_times(time)
        return cls(
            total=everything.total,
            outcomes=dict(everything.outcomes.most_common()),
            error_types=dict(everything.error_types.most_common()),
            total_execution_time=everything.seconds["execution_time"],
            execution_time=everything.times("execution_time"),
            queue_wait=everything.times("queue_wait"),
            by_tool=_show_tallies(tools),
            by_bucket=_show_tallies(buckets),
        )


def sum_processes(
    counts: Iterable[tuple[str | None, str, int]],
) -> dict[str, dict[str, Any]]:
    """Return what each process's calls add up to, most calls first.

    Args:
        counts: Process, outcome, and how many calls had both.
    """
    tallies: dict[str, Counter[str]] = {}
    for process, outcome, count in counts:
        tallies.setdefault(process or "unknown", Counter())[outcome] += count
    ordered = sorted(tallies.items(), key=lambda item: (-item[1].total(), item[0]))
    return {
        name: {
            "total": (total := outcomes.total()),
            "failed": (failed := total - outcomes["succeeded"]),
            "error_rate": round(100.0 * failed / total, 2),
            "outcomes": dict(outcomes.most_common()),
        }
        for name, outcomes in ordered
    }


def _count_calls(
    records: Iterable[KeptCall],
) -> tuple[list[CallCount], list[TimeCount]]:
    calls: list[CallCount] = []
    times: list[TimeCount] = []
    for each in records:
        group = (each.tool_name, each.bucket)
        seconds, waited = each.execution_time, each.queue_wait
        calls.append(CallCount(group, each.outcome.value, each.error_type, 1, seconds, waited))
        times.append(TimeCount(group, "execution_time", time_bin(seconds), 1, seconds))
        times.append(TimeCount(group, "queue_wait", time_bin(waited), 1, waited))
    return calls, times


def _show_tallies(tallies: Mapping[str, _Tally]) -> dict[str, dict[str, Any]]:
    ordered = sorted(tallies.items(), key=lambda item: (-item[1].total, item[0]))
    return {name: tally.shown() for name, tally in ordered}


class RecordTotals(msgspec.Struct, frozen=True):
    """Totals of many records, without the records."""

    total: int = 0
    successful: int = 0
    execution_time: float = 0.0
    """Seconds, the sum over all records."""
    tool_usage: dict[str, int] = {}
    """Records per tool name, most used first."""
    error_types: dict[str, int] = {}
    """Failed records per error type, most frequent first."""
    dropped: int = 0
    """Records that the storage had to drop since it was opened, matching or not."""

    @classmethod
    def of(cls, records: Iterable[KeptCall], *, dropped: int = 0) -> RecordTotals:
        """Sum up `records`."""
        usage: Counter[str] = Counter()
        errors: Counter[str] = Counter()
        successful = 0
        execution_time = 0.0
        for record in records:
            usage[record.tool_name] += 1
            execution_time += record.execution_time
            if record.is_success:
                successful += 1
            else:
                errors[record.error_type or "unknown"] += 1
        return cls(
            total=usage.total(),
            successful=successful,
            execution_time=execution_time,
            tool_usage=dict(usage.most_common()),
            error_types=dict(errors.most_common()),
            dropped=dropped,
        )


class ToolCallSummary(msgspec.Struct, Data, frozen=True):
    """Totals of the calls of one conversation."""

    conversation_id: str
    total_calls: int
    successful_calls: int
    failed_calls: int
    success_rate: float
    """Percent, 100.0 when every call succeeded, 0.0 when there was none."""
    tool_usage: dict[str, int]
    """Calls per tool name."""

    @classmethod
    def of(cls, conversation_id: str, records: Iterable[ToolCallRecord]) -> ToolCallSummary:
        """Sum up `records`."""
        return cls.from_totals(conversation_id, RecordTotals.of(records))

    @classmethod
    def from_totals(cls, conversation_id: str, totals: RecordTotals) -> ToolCallSummary:
        """Return the summary of records that were already summed up."""
        return cls(
            conversation_id=conversation_id,
            total_calls=totals.total,
            successful_calls=totals.successful,
            failed_calls=totals.total - totals.successful,
            success_rate=success_rate(totals.successful, totals.total),
            tool_usage=dict(totals.tool_usage),
        )

    def to_brief(self) -> dict[str, Any]:
        """Return the form that an agent embeds in its final result as `tool_usage_summary`."""
        return {
            "total_calls": self.total_calls,
            "success_rate": self.success_rate,
            "tool_usage": dict(self.tool_usage),
            "has_errors": self.failed_calls > 0,
        }
