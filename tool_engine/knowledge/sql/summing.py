"""From where is summed up what calls add up to?

From the statistics that are kept beside the calls, as far as these can tell: then the cost grows
with the number of tools and hours, and not with that of the calls. Else, and for the parts of an
hour with which a time begins and ends, from the rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from msgspec.structs import replace

from tool_engine.knowledge.sql import queries
from tool_engine.knowledge.sql.queries import Hours
from tool_engine.knowledge.sql.reading import Reader
from tool_engine.knowledge.sql.schema.keys import date_of, microseconds
from tool_engine.knowledge.sql.schema.schema import HOUR
from tool_engine.model.record import RecordQuery
from tool_engine.model.statistics import CallCount, CallStatistics, TimeCount
from tool_engine.redaction import redact_text

__all__ = ["split", "statistics", "totals"]

_KEPT: Final = frozenset({"tool_name", "is_success", "outcome", "error_type"})
"""The conditions that kept statistics can tell."""
_MEASURES: Final = ("execution_time", "queue_wait")
_LATEST: Final = datetime(9999, 1, 1, tzinfo=UTC)
"""No hour after that has an end."""


async def totals(reader: Reader, query: RecordQuery) -> list[Sequence[Any]]:
    """Tool, outcome, error type; how many calls, their seconds, and the greatest key.

    Raises:
        RecordsUnavailableError: The database does not answer.
    """
    hours, parts = split(query)
    statements = [queries.totals(part) for part in parts]
    if hours is not None:
        statements.append(queries.kept_totals(query, hours))
    return [row for rows in await reader.rows(*statements) for row in rows]


async def statistics(reader: Reader, query: RecordQuery) -> CallStatistics:
    """How the calls ended and how long they took.

    Raises:
        RecordsUnavailableError: The database does not answer.
    """
    hours, parts = split(query)
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
        calls += (CallCount((tool, bucket), *rest) for tool, bucket, *rest in found[at])
        for measure, rows in zip(_MEASURES, found[at + 1 : at + 3], strict=True):
            times += (TimeCount((tool, bucket), measure, *rest) for tool, bucket, *rest in rows)
    if hours is not None:
        _add_kept(found[-1], calls, times)
    return CallStatistics.of(calls, times, redact_text)


def split(query: RecordQuery) -> tuple[Hours | None, list[RecordQuery]]:
    """The hours that are answered by kept statistics, and what has to be asked of the rows."""
    start, end = query.start, query.end
    is_paged = query.before is not None or query.after is not None
    is_odd = query.call_id_prefix is not None or query.error_type == ""
    if is_paged or is_odd or not query.conditions.keys() <= _KEPT:
        return None, [query]
    if start is not None and start >= _LATEST:
        return None, [query]
    first = None if start is None else -(-microseconds(start) // HOUR)
    last = None if end is None else microseconds(end) // HOUR
    if first is not None and last is not None and first >= last:
        return None, [query]
    parts = []
    if start is not None and first is not None and date_of(first * HOUR) > start:
        parts.append(replace(query, end=date_of(first * HOUR)))
    if end is not None and last is not None and date_of(last * HOUR) < end:
        parts.append(replace(query, start=date_of(last * HOUR)))
    return (first, last), parts


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
