"""From where is summed up what calls add up to?

From the statistics that are kept beside the calls, as far as these say: then the cost grows
with the number of tools and hours, and not with that of the calls. Else, and for the parts of an
hour with which a time begins and ends, from the rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from tool_engine.knowledge.sql import queries
from tool_engine.knowledge.sql.queries import Hours
from tool_engine.knowledge.sql.reader import Reader
from tool_engine.knowledge.sql.schema.damage import (
    INTEGER,
    SECONDS,
    check_values,
    damaged_row,
    read_row,
)
from tool_engine.knowledge.sql.schema.keys import date_of, microseconds_of, record_id_of
from tool_engine.knowledge.sql.schema.schema import HOUR
from tool_engine.model.outcome import Outcome
from tool_engine.model.record import RecordQuery
from tool_engine.model.statistics import CallCount, CallStatistics, TimeCount
from tool_engine.redaction import redact_text

_KEPT: Final = frozenset({"tool_name", "is_success", "outcome", "error_type"})
"""The conditions that kept statistics can answer."""
_MEASURES: Final = ("execution_time", "queue_wait")
_TOTALS: Final = ("tool_name", "outcome", "error_type", "calls", "seconds", "newest")
_KEPT_TOTALS: Final = (*_TOTALS[:3], "measure", *_TOTALS[3:])
_CALLS: Final = ("tool_name", "bucket", "outcome", "error_type", "calls", "seconds", "waited")
_TIMES: Final = ("tool_name", "bucket", "bin", "calls", "largest")
_KEPT_COUNTS: Final = (
    *("tool_name", "bucket", "outcome", "error_type", "measure", "bin"),
    *("calls", "seconds", "largest"),
)
"""The columns of what is asked; behind them, the name of a row that is damaged."""
_KINDS: Final = {
    "outcome": lambda value: value in tuple(Outcome),
    "measure": lambda value: value in _MEASURES,
    **dict.fromkeys(("calls", "bin"), lambda value: INTEGER(value) and value >= 0),
    "newest": INTEGER,
    **dict.fromkeys(("seconds", "waited", "largest"), SECONDS),
}
_OPTIONAL: Final = frozenset(("bucket", "error_type"))
_COUNT_ANEW: Final = (
    "have them counted anew: UPDATE tool_engine_schema SET version = 2, and open the database again"
)
_LATEST: Final = datetime(9999, 1, 1, tzinfo=UTC)
"""No hour after that has an end."""


async def read_totals(reader: Reader, query: RecordQuery) -> list[Sequence[Any]]:
    """Tool, outcome, error type; how many calls, their seconds, and the greatest key.

    Raises:
        RecordsUnavailableError: The database does not answer.
    """
    hours, parts = split_hours(query)
    statements = [queries.sum_calls(part) for part in parts]
    if hours is not None:
        statements.append(queries.kept_totals(query, hours))
    found = await reader.rows(*statements)
    rows = [row for part in found[: len(parts)] for row in _drop_damaged(part, _TOTALS)]
    if hours is not None:
        kept = _drop_damaged(found[-1], _KEPT_TOTALS, is_kept=True)
        rows += [(*row[:3], *row[4:]) for row in kept]
    return rows


async def read_statistics(reader: Reader, query: RecordQuery) -> CallStatistics:
    """How the calls ended and how long they took.

    Raises:
        RecordsUnavailableError: The database does not answer.
    """
    hours, parts = split_hours(query)
    statements = []
    for part in parts:
        statements.append(queries.counted_calls(part))
        statements += (queries.counted_times(part, measure) for measure in _MEASURES)
    if hours is not None:
        statements.append(queries.kept_statistics(query, hours))
    found = await reader.rows(*statements)
    calls: list[CallCount] = []
    times: list[TimeCount] = []
    for at in range(0, 3 * len(parts), 3):
        counted = _drop_damaged(found[at], _CALLS)
        calls += (CallCount((tool, bucket), *rest) for tool, bucket, *rest in counted)
        for measure, rows in zip(_MEASURES, found[at + 1 : at + 3], strict=True):
            bins = _drop_damaged(rows, _TIMES)
            times += (TimeCount((tool, bucket), measure, *rest) for tool, bucket, *rest in bins)
    if hours is not None:
        _add_kept(_drop_damaged(found[-1], _KEPT_COUNTS, is_kept=True), calls, times)
    return CallStatistics.of(calls, times, redact_text)


def split_hours(query: RecordQuery) -> tuple[Hours | None, list[RecordQuery]]:
    """The hours that are answered by kept statistics, and what has to be asked of the rows."""
    start, end = query.start, query.end
    is_paged = query.before is not None or query.after is not None
    is_odd = query.call_id_prefix is not None or query.error_type == ""
    is_odd = is_odd or query.min_execution_time is not None or query.process is not None
    if is_paged or is_odd or not query.conditions.keys() <= _KEPT:
        return None, [query]
    if start is not None and start >= _LATEST:
        return None, [query]
    first = None if start is None else -(-microseconds_of(start) // HOUR)
    last = None if end is None else microseconds_of(end) // HOUR
    if first is not None and last is not None and first >= last:
        return None, [query]
    parts = []
    if start is not None and first is not None and date_of(first * HOUR) > start:
        parts.append(replace(query, end=date_of(first * HOUR)))
    if end is not None and last is not None and date_of(last * HOUR) < end:
        parts.append(replace(query, start=date_of(last * HOUR)))
    return (first, last), parts


def _drop_damaged(
    rows: Iterable[Sequence[Any]], names: Sequence[str], *, is_kept: bool = False
) -> list[Sequence[Any]]:
    """The rows without what describes a damaged one.

    Raises:
        RecordsUnavailableError: There is a damaged one.
    """
    sound: list[Sequence[Any]] = []
    for *row, odd in rows:
        if is_kept:
            place, cure = f"a row of tool_statistics for the tool {row[0]!r}", _COUNT_ANEW
        else:
            place = f"a row of tool_calls for the tool {row[0]!r}"
            place = place if odd is None else f"the record {record_id_of(odd)!r} (row {odd})"
            cure = "history names it, and says how to go on: ask for the records"
        if odd is not None:
            raise damaged_row(place, "a time or a count is none", cure)
        check = partial(check_values, zip(names, row, strict=True), _KINDS, _OPTIONAL)
        read_row(check, place, cure)
        sound.append(row)
    return sound


def _add_kept(
    rows: Iterable[Sequence[Any]], calls: list[CallCount], times: list[TimeCount]
) -> None:
    counts: dict[Any, dict[str, int]] = defaultdict(lambda: dict.fromkeys(_MEASURES, 0))
    seconds: dict[Any, dict[str, float]] = defaultdict(lambda: dict.fromkeys(_MEASURES, 0.0))
    for tool, bucket, outcome, error_type, measure, number, count, total, largest in rows:
        group = (tool, bucket or None, outcome, error_type or None)
        counts[group][measure] += count
        seconds[group][measure] += total
        times.append(TimeCount(group[:2], measure, number, count, largest))
    for group, count in counts.items():
        tool, bucket, outcome, error_type = group
        all_of_them = count["execution_time"]
        calls.append(
            CallCount((tool, bucket), outcome, error_type, all_of_them, *seconds[group].values())
        )
        # Those that did not wait are not counted.
        at_once = all_of_them - count["queue_wait"]
        if at_once > 0:
            times.append(TimeCount((tool, bucket), "queue_wait", 0, at_once, 0.0))
