"""How many calls were there, and how did they go?"""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import typer
from msgspec.structs import replace
from rich.table import Table

from tool_engine.cli.console import as_text, make_console, print_json
from tool_engine.cli.failures import EXIT_OK
from tool_engine.cli.options import JSONOption, RecordsOption, ToolsOption, settings_of
from tool_engine.cli.records.filters import (
    CallerOption,
    ConversationOption,
    OriginOption,
    ProcessOption,
    RecordFilters,
    SessionOption,
    SinceOption,
    ToolOption,
    UntilOption,
)
from tool_engine.cli.records.quantities import seconds_text
from tool_engine.cli.records.record_line import WIDE, draw_bars, fit_encoding, local_time
from tool_engine.cli.records.recording import name_processes, open_records
from tool_engine.cli.settings import Settings
from tool_engine.cli.signals import run_async
from tool_engine.cli.tables import count_text, make_table
from tool_engine.cli.writing import write_output
from tool_engine.knowledge.store import ToolKnowledgeStore, shown_usage
from tool_engine.model.record import RecordQuery, ToolCallRecord
from tool_engine.testing.figures import make_curve

_INTERVALS: Final = 24
_MOST_PROCESSES: Final = 20
_MOST_PLOTTED: Final = 20_000
"""Calls of a picture: the newest."""


class _Interval(msgspec.Struct, frozen=True):
    start: datetime
    calls: int
    failed: int
    by_tool: dict[str, int]


def run_command(
    ctx: typer.Context,
    *,
    tool: ToolOption = None,
    caller: CallerOption = None,
    conversation: ConversationOption = None,
    session: SessionOption = None,
    origin: OriginOption = None,
    process: ProcessOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    plot: Annotated[
        str | None,
        typer.Option(
            "--plot", metavar="FILE", help="Draw waits, latencies and slots over time, as SVG."
        ),
    ] = None,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
    records: RecordsOption = None,
) -> int:
    """Show what the calls add up to, per tool and bucket: errors, waits, times.

    Example: tool-engine stats --since 24h --plot calls.svg
    """
    filters = RecordFilters(
        *(tool, False, None, caller, conversation, since, until, session, origin), process=process
    )
    return print_statistics(settings_of(ctx, tools, records), filters, plot=plot, as_json=as_json)


def print_statistics(
    settings: Settings, filters: RecordFilters, *, plot: str | None, as_json: bool
) -> int:
    return run_async(_print_statistics(settings, filters.query(), plot=plot, as_json=as_json))


async def _print_statistics(
    settings: Settings, query: RecordQuery, *, plot: str | None, as_json: bool
) -> int:
    async with open_records(settings) as store:
        filters = _make_filters(query)
        statistics = await store.get_call_statistics(by_process=True, **filters)
        intervals = await _split_intervals(store, query)
        if plot is not None:
            records = await store.storage.query(replace(query, limit=_MOST_PLOTTED))
            # The loop has no other work: this command may wait for the disk.
            write_output(plot, plot_records(records, _make_title(intervals)))
    if as_json:
        listed = [{**msgspec.to_builtins(each), "by_tool": each.by_tool} for each in intervals]
        print_json({**statistics, "intervals": listed, "plot": plot})
    else:
        _print_tables(statistics, intervals, name_processes(settings), plot)
    return EXIT_OK


def _make_filters(query: RecordQuery) -> Any:
    said = {"start": query.start, "end": query.end, "process": query.process}
    return {**query.conditions, **said}


async def _split_intervals(store: ToolKnowledgeStore, query: RecordQuery) -> list[_Interval]:
    """Split the time between first and last call evenly."""
    newest = await store.storage.query(replace(query, limit=1))
    oldest = await store.storage.query(replace(query, limit=1, oldest_first=True))
    if not newest or not oldest:
        return []
    begin, end = oldest[0].created_at, newest[0].created_at
    step = max((end - begin) / _INTERVALS, timedelta(microseconds=1))
    starts = [begin + number * step for number in range(_INTERVALS)]
    # Calls are kept in order of arrival: a clock that was set back has some outside of the two.
    inner = [start if query.end is None else min(start, query.end) for start in starts[1:]]
    bounds = [query.start, *inner, query.end]
    intervals = []
    for start, since, until in zip(starts, bounds, bounds[1:], strict=False):
        part = await store.storage.totals(replace(query, start=since, end=until))
        failed = part.total - part.successful
        intervals.append(_Interval(start, part.total, failed, shown_usage(part.tool_usage)))
    return intervals


def _make_title(intervals: Sequence[_Interval]) -> str:
    return f"calls since {local_time(intervals[0].start)}" if intervals else "no calls"


def _print_tables(
    statistics: dict[str, Any],
    intervals: Sequence[_Interval],
    name_process: Callable[[str | None], str],
    plot: str | None,
) -> None:
    console = make_console()
    total = statistics["total_records"]
    if not total:
        console.print(as_text("no such calls are recorded"))
    else:
        since = f" since {local_time(intervals[0].start)}" if intervals else ""
        failed = statistics["failure_count"]
        text = f"{count_text(total, 'call')}{since}, {failed} failed"
        console.print(as_text(text, "bold"), soft_wrap=True)
        for name, values in (
            ("calls", [each.calls for each in intervals]),
            ("failed", [each.failed for each in intervals]),
        ):
            console.print(as_text(fit_encoding(f"{name:<7} {draw_bars(values)}", console)))
        is_wide = console.width >= WIDE
        console.print(
            make_group_table("tools", "tool", statistics["by_tool"], intervals if is_wide else ())
        )
        if statistics["by_bucket"]:
            console.print(make_group_table("buckets", "bucket", statistics["by_bucket"]))
        if any(map(name_process, statistics["by_process"])):
            console.print(_make_process_table(statistics["by_process"]))
        if statistics["error_distribution"]:
            console.print(_make_error_table(statistics["error_distribution"]))
    if plot is not None:
        console.print(as_text(f"picture: {plot}"), soft_wrap=True)


def make_group_table(
    title: str,
    noun: str,
    groups: Mapping[str, Mapping[str, Any]],
    intervals: Sequence[_Interval] = (),
) -> Table:
    """Return the statistics of each group, such as a tool, as a table."""
    columns = (noun, "calls", "failed", "waited p50", "p95", "ran p50", "p95")
    table = make_table(title, *columns, *(["over time"] if intervals else []))
    console = make_console()
    for name, group in groups.items():
        waited, ran = group["queue_wait"], group["execution_time"]
        times = (waited["p50"], waited["p95"], ran["p50"], ran["p95"])
        values = [each.by_tool.get(name, 0) for each in intervals]
        table.add_row(
            as_text(name, "bold cyan"),
            str(group["total"]),
            as_text(f"{group['error_rate']:g} %", "red" if group["failed"] else ""),
            *(as_text(fit_encoding(seconds_text(seconds), console)) for seconds in times),
            *([as_text(fit_encoding(draw_bars(values), console))] if intervals else []),
        )
    return table


def _make_process_table(processes: Mapping[str, Mapping[str, Any]]) -> Table:
    table = make_table("processes", "process", "calls", "failed")
    for name, group in itertools.islice(processes.items(), _MOST_PROCESSES):
        failed = as_text(f"{group['error_rate']:g} %", "red" if group["failed"] else "")
        table.add_row(as_text(name, "bold cyan"), str(group["total"]), failed)
    if len(processes) > _MOST_PROCESSES:
        table.add_row(as_text(f"and {len(processes) - _MOST_PROCESSES} more"), "", "")
    return table


def _make_error_table(errors: Mapping[str, int]) -> Table:
    table = make_table("errors", "error type", "calls")
    for name, count in errors.items():
        table.add_row(as_text(name, "red"), str(count))
    return table


_LEFT: Final = 80.0
_WIDTH: Final = 840.0
"""Of the part that shows time, in pixels."""
_HEIGHT: Final = 120.0
_TOP: Final = 70.0
_STEP: Final = 180.0
"""From the top of one curve to that of the next."""
_BINS: Final = 210
_TICKS: Final = 6
_STYLE: Final = """
  .ground { fill: #ffffff; } svg { font: 12px system-ui, sans-serif; }
  text { fill: #24292f; } .faint { fill: #57606a; } .title { font-size: 15px; font-weight: 600; }
  .line { stroke: #d0d7de; fill: none; }
  .p50 { fill: #4c78a8; fill-opacity: .9; } .p95 { fill: #4c78a8; fill-opacity: .35; }
  .used { fill: #54a24b; fill-opacity: .7; } .waiting { fill: #f58518; fill-opacity: .6; }
  .failed { stroke: #cf222e; stroke-width: 1.5; fill: none; }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117; } text { fill: #e6edf3; } .faint { fill: #9198a1; }
    .line { stroke: #3d444d; } .failed { stroke: #ff7b72; }
  }
"""


class _Frame(NamedTuple):
    """The time that is shown, in seconds since 1970."""

    begin: float
    end: float

    def x(self, time: float) -> float:
        """Return the x of a time; outside times get the edge."""
        share = (time - self.begin) / (self.end - self.begin)
        return _LEFT + _WIDTH * min(max(share, 0.0), 1.0)

    def bin(self, time: float) -> int:
        return min(int((self.x(time) - _LEFT) / _WIDTH * _BINS), _BINS - 1)


# Three curves, one above the other, over the same time. An SVG of its own: no scripts, no fonts
# from elsewhere, readable on light and dark ground.
def plot_records(records: Sequence[ToolCallRecord], title: str) -> str:
    """Return an SVG picture of calls in any order."""
    begin = min((each.enqueued_at.timestamp() for each in records), default=0.0)
    end = max((each.created_at.timestamp() for each in records), default=1.0)
    frame = _Frame(begin, max(end, begin + 0.001))
    parts = [
        _draw_text(_LEFT, 24, title, "title"),
        _draw_text(
            _LEFT,
            42,
            f"{count_text(len(records), 'call')}; a red stroke is one that failed",
            "faint",
        ),
        *_plot_times("waited for a slot", 0, records, frame, "queue_wait"),
        *_plot_times("ran", 1, records, frame, "execution_time"),
        *_plot_slots(records, frame),
        *_draw_axis(frame, records),
    ]
    return _wrap_document(title, parts)


def _plot_times(
    name: str, row: int, records: Iterable[ToolCallRecord], frame: _Frame, field: str
) -> Iterator[str]:
    """Yield the bars of a time's median and 95th percentile per bin."""
    bins: dict[int, list[float]] = {}
    for each in records:
        bins.setdefault(frame.bin(each.created_at.timestamp()), []).append(getattr(each, field))
    for times in bins.values():
        times.sort()
    most = max((_value_at_rank(times, 0.95) for times in bins.values()), default=0.0)
    yield from _draw_heading(
        f"{name}: median, and 95 of 100", row, f"{most:.3g} s" if most else "0 s"
    )
    for kind, share in (("p95", 0.95), ("p50", 0.5)):
        bars = ((number, _value_at_rank(times, share)) for number, times in bins.items())
        yield _draw_bars(kind, row, bars, most)
    if row == 1:
        failed = {round(frame.x(e.created_at.timestamp())) for e in records if not e.is_success}
        floor = _floor_of(row)
        strokes = "".join(f"M{x} {floor:.0f}v7" for x in sorted(failed))
        yield f'<path class="failed" d="{strokes}"/>'


def _plot_slots(records: Iterable[ToolCallRecord], frame: _Frame) -> Iterator[str]:
    used, waiting = [], []
    for each in records:
        began = each.started_at.timestamp()
        if each.reached_executor:
            used.append((began, each.created_at.timestamp(), each.weight))
        if each.queue_wait > 0:
            waiting.append((each.enqueued_at.timestamp(), began, 1))
    levels = {
        "used": _highest_levels(make_curve(used), frame),
        "waiting": _highest_levels(make_curve(waiting), frame),
    }
    most = max((level for bins in levels.values() for level in bins.values()), default=0)
    yield from _draw_heading("slots in use (green), calls waiting (orange)", 2, str(most))
    for kind, bins in levels.items():
        yield _draw_bars(kind, 2, bins.items(), most)


def _highest_levels(steps: Sequence[tuple[float, int]], frame: _Frame) -> dict[int, int]:
    highest: dict[int, int] = {}
    # Every level ends: the last step is down to 0.
    for (time, level), (until, _) in itertools.pairwise(steps):
        for number in range(frame.bin(time), frame.bin(until) + 1):
            highest[number] = max(highest.get(number, 0), level)
    return highest


def _draw_bars(kind: str, row: int, bars: Iterable[tuple[int, float]], most: float) -> str:
    width, floor = _WIDTH / _BINS, _floor_of(row)
    shapes = []
    for number, value in sorted(bars):
        height = _HEIGHT * value / most if most else 0.0
        if height > 0:
            x = _LEFT + number * width
            shapes.append(f"M{x:.1f} {floor:.0f}v-{height:.1f}h{width:.1f}v{height:.1f}z")
    return f'<path class="{kind}" d="{"".join(shapes)}"/>'


def _draw_heading(name: str, row: int, most: str) -> Iterator[str]:
    top, floor = _TOP + row * _STEP, _floor_of(row)
    yield _draw_text(_LEFT, top - 6, name)
    yield _draw_text(_LEFT - 8, top + 10, most, "faint", anchor="end")
    yield _draw_text(_LEFT - 8, floor, "0", "faint", anchor="end")
    yield f'<path class="line" d="M{_LEFT:.0f} {floor:.0f}h{_WIDTH:.0f}"/>'


def _draw_axis(frame: _Frame, records: Sequence[ToolCallRecord]) -> Iterator[str]:
    if not records:
        return
    seconds = frame.end - frame.begin
    shape = "%H:%M:%S" if seconds < 86_400 else "%m-%d %H:%M"
    for number in range(_TICKS + 1):
        time = frame.begin + seconds * number / _TICKS
        text = datetime.fromtimestamp(time, UTC).astimezone().strftime(shape)
        yield _draw_text(frame.x(time), _floor_of(2) + 22, text, "faint", anchor="middle")


def _floor_of(row: int) -> float:
    return _TOP + row * _STEP + _HEIGHT


def _value_at_rank(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that `share` of all do not exceed."""
    return ordered[max(math.ceil(share * len(ordered)), 1) - 1]


def _draw_text(x: float, y: float, text: str, kind: str = "", *, anchor: str = "start") -> str:
    name = f' class="{kind}"' if kind else ""
    place = "" if anchor == "start" else f' text-anchor="{anchor}"'
    shown = html.escape("".join(c if c.isprintable() else "\ufffd" for c in text))
    return f'<text x="{x:.1f}" y="{y:.1f}"{name}{place}>{shown}</text>'


def _wrap_document(title: str, parts: Iterable[str]) -> str:
    width, height = _LEFT + _WIDTH + 40, _floor_of(2) + 50
    inside = "\n".join(parts)
    shown = html.escape("".join(c if c.isprintable() else "\ufffd" for c in title))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img">\n<title>{shown}</title>\n'
        f"<style>{_STYLE}</style>\n"
        f'<rect class="ground" width="100%" height="100%"/>\n{inside}\n</svg>\n'
    )
