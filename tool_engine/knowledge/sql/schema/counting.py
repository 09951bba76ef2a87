"""What do rows add to the statistics kept beside them?

Statistics count calls per hour and over all hours, so that no query scans the table: how many ended
how, and how long they took, in the bins of `model.statistics`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from operator import itemgetter
from typing import Any, Final, TypeAlias

import msgspec

from tool_engine.knowledge.sql.schema.schema import COLUMNS, EVER, HOUR

COUNTED: Final = (
    *("key", "finished_at", "tool_name", "bucket", "outcome", "error_type"),
    *("execution_time", "time_bin", "queue_wait", "wait_bin"),
)
"""The columns of `tool_calls` that are counted."""

STATISTICS: Final = (
    *("hour", "tool_name", "bucket", "outcome", "error_type", "measure", "bin"),
    *("calls", "seconds", "largest", "newest"),
)
"""The columns of `tool_statistics`; no bucket and no error type are the empty text."""
Count: TypeAlias = tuple[int, str, str, str, str, str, int, int, float, float, int]
"""A row of `tool_statistics`: the hour since 1970 or `EVER`, whose calls they are, `execution_time`
or `queue_wait`, the bin; how many, their seconds together, the longest, and the greatest key."""
Row: TypeAlias = Sequence[Any]
Get: TypeAlias = Callable[[Row], Any]


class _Fields(msgspec.Struct, frozen=True):
    """The positions of the counted columns in a row."""

    key: Get
    finished_at: Get
    measures: tuple[tuple[str, Get, Get], ...]
    """Name; tool, bucket, outcome, error type and bin; seconds."""


@cache
def _field_getters(columns: Sequence[str]) -> _Fields:
    def taken(*names: str) -> Get:
        return itemgetter(*map(columns.index, names))

    return _Fields(
        taken("key"),
        taken("finished_at"),
        tuple(
            (measure, taken("tool_name", "bucket", "outcome", "error_type", column), taken(measure))
            for measure, column in (("execution_time", "time_bin"), ("queue_wait", "wait_bin"))
        ),
    )


def count_rows(rows: Sequence[Row], columns: Sequence[str] = COLUMNS) -> list[Count]:
    """Return the `tool_statistics` rows that calls add to, in key order.

    A call that did not wait is not counted in `queue_wait`.

    Args:
        rows: The calls.
        columns: What a row has, a tuple; `COUNTED` at least.
    """
    fields = _field_getters(columns)
    finished_at = fields.finished_at
    every = list(_added_up(rows, fields))
    hours = {at // HOUR for at in map(finished_at, rows)}
    found = [(hour, every) for hour in (EVER, *hours)]
    if len(hours) > 1:
        by_hour: dict[int, list[Row]] = defaultdict(list)
        for row in rows:
            by_hour[finished_at(row) // HOUR].append(row)
        parts = [(hour, list(_added_up(some, fields))) for hour, some in by_hour.items()]
        found = [(EVER, every), *parts]
    return sorted((hour, *each) for hour, some in found for each in some)


def _added_up(rows: Sequence[Row], fields: _Fields) -> Iterator[tuple[Any, ...]]:
    for measure, group_of, seconds_of in fields.measures:
        times: dict[tuple[Any, ...], list[float]] = defaultdict(list)
        newest: dict[tuple[Any, ...], int] = {}
        some = rows if measure == "execution_time" else list(filter(seconds_of, rows))
        for group, seconds, key in zip(
            map(group_of, some), map(seconds_of, some), map(fields.key, some), strict=True
        ):
            times[group].append(seconds)
            if key > newest.get(group, key - 1):
                newest[group] = key
        for group, found in times.items():
            tool, bucket, outcome, error_type, number = group
            yield (
                *(tool or "", bucket or "", outcome, error_type or "", measure, number),
                *(len(found), sum(found), max(found), newest[group]),
            )
