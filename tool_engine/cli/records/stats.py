"""How many calls were there, and how did they go?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from rich.table import Table

from tool_engine.cli.console import make_console, plain, print_json
from tool_engine.cli.failures import EXIT_OK
from tool_engine.cli.records.drawing import drawn, sparkline
from tool_engine.cli.records.history import RecordFilters, local_time
from tool_engine.cli.records.plotting import plot_records
from tool_engine.cli.records.quantities import seconds_text
from tool_engine.cli.records.recording import open_records
from tool_engine.cli.settings import Settings, run_async
from tool_engine.cli.tables import count_text, make_table
from tool_engine.cli.writing import write_output
from tool_engine.knowledge.store import ToolKnowledgeStore, shown_usage
from tool_engine.model.record import RecordQuery

_INTERVALS: Final = 24
_MOST_PLOTTED: Final = 20_000
"""Calls of a picture: the newest."""
_WIDE: Final = 110
"""Columns from which on a table has room for everything."""


class _Interval(msgspec.Struct, frozen=True):
    start: datetime
    calls: int
    failed: int
    by_tool: dict[str, int]


def print_statistics(
    settings: Settings, filters: RecordFilters, *, plot: str | None, as_json: bool
) -> int:
    return run_async(_print_statistics(settings, filters.query(), plot=plot, as_json=as_json))


async def _print_statistics(
    settings: Settings, query: RecordQuery, *, plot: str | None, as_json: bool
) -> int:
    async with open_records(settings) as store:
        statistics = await store.get_call_statistics(**_make_filters(query))
        intervals = await _split_intervals(store, query)
        if plot is not None:
            records = await store.storage.query(replace(query, limit=_MOST_PLOTTED))
            # The loop has no other work: this command may wait for the disk.
            write_output(plot, plot_records(records, _make_title(intervals)))
    if as_json:
        listed = [{**msgspec.to_builtins(each), "by_tool": each.by_tool} for each in intervals]
        print_json({**statistics, "intervals": listed, "plot": plot})
    else:
        _print_tables(statistics, intervals, plot)
    return EXIT_OK


def _make_filters(query: RecordQuery) -> Any:
    names = ("tool_name", "is_success", "error_type", "caller_id", "conversation_id", "session_id")
    return {name: getattr(query, name) for name in (*names, "start", "end")}


async def _split_intervals(store: ToolKnowledgeStore, query: RecordQuery) -> list[_Interval]:
    """Split the time between first and last call evenly."""
    newest = await store.storage.query(replace(query, limit=1))
    oldest = await store.storage.query(replace(query, limit=1, oldest_first=True))
    if not newest or not oldest:
        return []
    begin, end = oldest[0].created_at, newest[0].created_at
    step = max((end - begin) / _INTERVALS, timedelta(microseconds=1))
    intervals = []
    for number in range(_INTERVALS):
        start = begin + number * step
        is_last = number == _INTERVALS - 1
        stop = max(end, start) + timedelta(microseconds=1) if is_last else start + step
        part = await store.storage.totals(replace(query, start=start, end=stop))
        failed = part.total - part.successful
        intervals.append(_Interval(start, part.total, failed, shown_usage(part.tool_usage)))
    return intervals


def _make_title(intervals: Sequence[_Interval]) -> str:
    return f"calls since {local_time(intervals[0].start)}" if intervals else "no calls"


def _print_tables(
    statistics: dict[str, Any], intervals: Sequence[_Interval], plot: str | None
) -> None:
    console = make_console()
    total = statistics["total_records"]
    if not total:
        console.print(plain("no such calls are recorded"))
    else:
        since = f" since {local_time(intervals[0].start)}" if intervals else ""
        failed = statistics["failure_count"]
        text = f"{count_text(total, 'call')}{since}, {failed} failed"
        console.print(plain(text, "bold"), soft_wrap=True)
        for name, values in (
            ("calls", [each.calls for each in intervals]),
            ("failed", [each.failed for each in intervals]),
        ):
            console.print(plain(drawn(f"{name:<7} {sparkline(values)}", console)))
        is_wide = console.width >= _WIDE
        console.print(
            _make_group_table("tools", "tool", statistics["by_tool"], intervals if is_wide else ())
        )
        if statistics["by_bucket"]:
            console.print(_make_group_table("buckets", "bucket", statistics["by_bucket"]))
        if statistics["error_distribution"]:
            console.print(_make_error_table(statistics["error_distribution"]))
    if plot is not None:
        console.print(plain(f"picture: {plot}"), soft_wrap=True)


def _make_group_table(
    title: str,
    noun: str,
    groups: Mapping[str, Mapping[str, Any]],
    intervals: Sequence[_Interval] = (),
) -> Table:
    columns = (noun, "calls", "failed", "waited p50", "p95", "ran p50", "p95")
    table = make_table(title, *columns, *(["over time"] if intervals else []))
    console = make_console()
    for name, group in groups.items():
        waited, ran = group["queue_wait"], group["execution_time"]
        times = (waited["p50"], waited["p95"], ran["p50"], ran["p95"])
        values = [each.by_tool.get(name, 0) for each in intervals]
        table.add_row(
            plain(name, "bold cyan"),
            str(group["total"]),
            plain(f"{group['error_rate']:g} %", "red" if group["failed"] else ""),
            *(plain(drawn(seconds_text(seconds), console)) for seconds in times),
            *([plain(drawn(sparkline(values), console))] if intervals else []),
        )
    return table


def _make_error_table(errors: Mapping[str, int]) -> Table:
    table = make_table("errors", "error type", "calls")
    for name, count in errors.items():
        table.add_row(plain(name, "red"), str(count))
    return table
