"""How do slots over time look as a picture?

One row per slot, one bar per call, and beneath them how many calls waited and when some were
refused. The SVG stands alone: no scripts, no external fonts, readable on light and dark ground.
"""

from __future__ import annotations

import html
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple

from tool_engine.errors import ConfigurationError
from tool_engine.testing.figures import NO_BUCKET, make_curve
from tool_engine.testing.simulation import SimulationReport
from tool_engine.testing.trace import TraceCall

_GROUPS: Final = ("bucket", "key", "priority", "tool_name")
_COLOURS: Final = (
    *("#4c78a8", "#f58518", "#54a24b", "#e45756", "#b279a2", "#72b7b2", "#9d755d", "#d6a418"),
)
_REST: Final = "#8a8f98"
"""The colour of all groups without one of their own."""
_LEFT: Final = 64.0
_WIDTH: Final = 880.0
"""Pixels of the part that shows time."""
_TOP: Final = 80.0
_QUEUE_HEIGHT: Final = 70.0
_LONGEST_LABEL: Final = 14
"""Characters; the names of all colours then fit into two lines."""
_MOST_ROWS: Final = 200
_MOST_BARS: Final = 12_000
_MOST_NAMED: Final = 1_500
"""The most bars that each have a tooltip."""
_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot hold."""
_STYLE: Final = """
  .ground { fill: #ffffff; } svg { font: 12px system-ui, sans-serif; }
  text { fill: #24292f; } .faint { fill: #57606a; } .title { font-size: 15px; font-weight: 600; }
  .line { stroke: #d0d7de; } .bar { stroke: #ffffff; stroke-width: .75; }
  .queue { fill: #8a8f98; fill-opacity: .45; } .name { fill: #ffffff; }
  .refused { stroke: #cf222e; stroke-width: 2; }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117; } .bar { stroke: #0d1117; }
    text { fill: #e6edf3; } .faint { fill: #9198a1; }
    .line { stroke: #3d444d; } .refused { stroke: #ff7b72; }
  }
"""


class _Bar(NamedTuple):
    """One call in one slot, or several that are too thin to distinguish."""

    row: int
    begin: float
    end: float
    group: str
    call: TraceCall
    busy: float
    """Seconds between begin and end in which a call ran."""
    calls: int = 1


class _Frame(NamedTuple):
    """The layout of the picture."""

    seconds: float
    """Shown from left to right."""
    rows: int
    row_height: float

    @property
    def bottom(self) -> float:
        """The lower edge of the rows."""
        return _TOP + self.rows * self.row_height

    def x(self, time: float) -> float:
        return _LEFT + _WIDTH * time / self.seconds


def plot(report: SimulationReport, *, by: str | None = None, title: str | None = None) -> str:
    """Draw the simulated run as the text of an SVG file.

    Args:
        report: What `simulate` returned.
        by: The field that decides the colour: `bucket`, `key`, `priority` or `tool_name`. None: the
            key if calls have one, else the bucket.
        title: Written above; None: the strategy and the limits.

    Raises:
        ConfigurationError: `by` is nothing that calls have.
    """
    if by is not None and by not in _GROUPS:
        raise ConfigurationError(f"by must be one of {', '.join(_GROUPS)}, got {by!r}")
    calls = report.simulated_calls
    if by is None:
        by = "key" if any(call.key is not None for call in calls) else "bucket"
    bars, rows = _place_bars(calls, by, report.config.bypass_caller_types)
    shown = min(max(rows, 1), _MOST_ROWS)
    seconds = report.simulated.total.makespan or 1.0
    frame = _Frame(seconds, shown, max(min(24.0, 480.0 / shown), 3.0))
    colours = _choose_colours(calls, by)
    merged = _merge_bars([bar for bar in bars if bar.row < shown], frame)
    draw = _named_bars if len(merged) <= _MOST_NAMED else _many_bars
    heading = title or _make_title(report)
    parts = [
        _draw_text(_LEFT, 24, heading, "title"),
        *_draw_legend(colours),
        *_draw_axis(frame),
        *draw(merged, frame, colours),
        *_draw_queue(calls, frame),
    ]
    if rows > shown:
        parts.append(
            _draw_text(_LEFT, frame.bottom + 16, f"slots {shown} to {rows - 1} are not shown")
        )
    return _wrap_document(frame.bottom + _QUEUE_HEIGHT + 80, heading, parts)


def _place_bars(
    calls: Iterable[TraceCall], by: str, unlimited: frozenset[str]
) -> tuple[list[_Bar], int]:
    """Give each call the lowest free slots; return how many are needed."""
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    rows = 0
    bars = []
    ran = [
        (call.started_at, call)
        for call in calls
        if call.started_at is not None and call.caller_type not in unlimited
    ]
    for started, call in sorted(ran, key=lambda entry: entry[0]):
        while busy and busy[0][0] <= started:
            heappush(free, heappop(busy)[1])
        for _ in range(call.weight):
            if not free:
                free.append(rows)
                rows += 1
            row = heappop(free)
            heappush(busy, (call.ended_at, row))
            end = call.ended_at
            bars.append(_Bar(row, started, end, _name_group(call, by), call, end - started))
    return bars, rows


def _merge_bars(bars: list[_Bar], frame: _Frame) -> list[_Bar]:
    """Join bars too thin to be seen, to keep the file small.

    Of those in a row two neighbours reach at least over `least` seconds, which bounds their number.
    """
    pixels = 0.5 if len(bars) <= _MOST_BARS else max(2 * frame.rows * _WIDTH / _MOST_BARS, 0.5)
    least = frame.seconds / _WIDTH * pixels
    merged: list[_Bar] = []
    for bar in sorted(bars, key=lambda bar: (bar.row, bar.begin)):
        last = merged[-1] if merged else None
        if last is None or last.row != bar.row or bar.end - last.begin >= least:
            merged.append(bar)
            continue
        longer = bar if bar.busy > last.busy else last
        merged[-1] = last._replace(
            end=bar.end,
            busy=last.busy + bar.busy,
            calls=last.calls + 1,
            group=longer.group,
        )
    return merged


def _name_group(call: TraceCall, by: str) -> str:
    value = getattr(call, by)
    if value is None:
        return NO_BUCKET if by == "bucket" else f"no {by}"
    return f"priority {value}" if by == "priority" else str(value)


def _choose_colours(calls: Iterable[TraceCall], by: str) -> dict[str, str]:
    """Return a colour per group; of many, only for the largest."""
    sizes = Counter(_name_group(call, by) for call in calls)
    if len(sizes) <= len(_COLOURS):
        return dict(zip(sorted(sizes), _COLOURS, strict=False))
    largest = [group for group, _ in sizes.most_common(len(_COLOURS))]
    return dict(zip(largest, _COLOURS, strict=True)) | {
        f"{len(sizes) - len(largest)} others": _REST
    }


def _make_title(report: SimulationReport) -> str:
    config = report.config
    buckets = "".join(f", {name} {limit}" for name, limit in sorted(config.bucket_limits.items()))
    return f"{config.strategy}: {config.max_concurrent} slots{buckets}"


def _draw_legend(colours: dict[str, str]) -> Iterator[str]:
    x, y = _LEFT, 38
    for group, colour in colours.items():
        label = group if len(group) <= _LONGEST_LABEL else f"{group[: _LONGEST_LABEL - 1]}…"
        width = 35 + 7 * len(label)
        if x + width > _LEFT + _WIDTH:
            x, y = _LEFT, y + 16
        yield f'<rect x="{x:.0f}" y="{y}" width="10" height="10" rx="2" fill="{colour}"/>'
        yield _draw_text(x + 15, y + 9, label)
        x += width


def _draw_axis(frame: _Frame) -> Iterator[str]:
    step = _nice_step(frame.seconds / 8)
    bottom = frame.bottom + 24 + _QUEUE_HEIGHT
    for number in range(int(frame.seconds / step + 1e-9) + 1):
        x = frame.x(number * step)
        yield f'<path class="line" d="M{x:.1f} {_TOP:.0f}V{bottom:.1f}"/>'
        yield _draw_text(x, bottom + 16, f"{number * step:g} s", "faint", anchor="middle")
    for row in range(0, frame.rows, max(1, math.ceil(14 / frame.row_height))):
        y = _TOP + (row + 0.5) * frame.row_height + 4
        yield _draw_text(_LEFT - 8, y, f"slot {row}", "faint", anchor="end")


def _nice_step(least: float) -> float:
    """Return the smallest of 1, 2, 5, 10 ... that is at least `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


def _named_bars(bars: Iterable[_Bar], frame: _Frame, colours: dict[str, str]) -> Iterator[str]:
    """Yield each bar with a tooltip, and its name where there is room."""
    for bar in bars:
        x, y = frame.x(bar.begin), _TOP + bar.row * frame.row_height
        width, height = max(frame.x(bar.end) - x, 0.5), frame.row_height - 1
        edge = ' class="bar"' if width > 3 else ""
        call = bar.call
        about = f"{call.call_id} {call.tool_name}: waited {call.wait:g} s, ran {call.service:g} s"
        if bar.calls > 1:
            about = f"{bar.calls} calls"
        yield (
            f'<rect x="{x:.2f}" y="{y:.1f}" width="{width:.2f}" height="{height:.1f}" '
            f'rx="1"{edge} fill="{colours.get(bar.group, _REST)}">'
            f"<title>{_escape_text(about)}</title></rect>"
        )
        if bar.calls == 1 and frame.row_height >= 14 and width > 7.5 * len(call.call_id) > 0:
            yield _draw_text(x + 4, y + frame.row_height / 2 + 4, call.call_id, "name")


def _many_bars(bars: Iterable[_Bar], frame: _Frame, colours: dict[str, str]) -> Iterator[str]:
    """Yield one path per colour; paler for joined calls with gaps."""
    paths: dict[tuple[str, int], list[str]] = {}
    height = frame.row_height - 0.5
    for bar in bars:
        x, y = frame.x(bar.begin), _TOP + bar.row * frame.row_height
        width = max(frame.x(bar.end) - x, 0.5)
        share = bar.busy / (bar.end - bar.begin) if bar.end > bar.begin else 1.0
        key = (colours.get(bar.group, _REST), max(round(10 * share), 2))
        shape = f"M{x:.1f} {y:.1f}h{width:.1f}v{height:.1f}h-{width:.1f}z"
        paths.setdefault(key, []).append(shape)
    for (colour, tenths), shapes in paths.items():
        yield f'<path fill="{colour}" fill-opacity="{tenths / 10:g}" d="{"".join(shapes)}"/>'


def _draw_queue(calls: Sequence[TraceCall], frame: _Frame) -> Iterator[str]:
    """Yield waiting calls as an area beneath the rows, and refusals as strokes."""
    top = frame.bottom + 24
    floor = top + _QUEUE_HEIGHT
    steps = make_curve(
        (call.enqueued_at, call.enqueued_at + call.wait, 1) for call in calls if call.wait
    )
    most = max((waiting for _, waiting in steps), default=0)
    yield _draw_text(_LEFT - 8, top + 10, f"{most} wait", "faint", anchor="end")
    yield _draw_text(_LEFT - 8, floor, "0", "faint", anchor="end")
    yield f'<path class="line" d="M{_LEFT:.0f} {floor:.1f}h{_WIDTH:.0f}"/>'
    if most:
        levels = _thin_steps([(frame.x(time), waiting) for time, waiting in steps])
        shape = "".join(
            f"H{x:.1f}V{floor - _QUEUE_HEIGHT * waiting / most:.1f}" for x, waiting in levels
        )
        yield f'<path class="queue" d="M{_LEFT:.0f} {floor:.1f}{shape}V{floor:.1f}z"/>'
    refused = sorted({round(frame.x(call.ended_at)) for call in calls if call.started_at is None})
    if refused:
        count = sum(call.started_at is None for call in calls)
        strokes = "".join(f"M{x} {floor:.1f}v8" for x in refused)
        yield f'<path class="refused" d="{strokes}"><title>{count} calls refused</title></path>'
        yield _draw_text(_LEFT + _WIDTH, floor + 32, f"{count} calls refused (red)", anchor="end")


def _thin_steps(steps: Iterable[tuple[float, int]]) -> list[tuple[float, int]]:
    """Return at most two steps per pixel: the highest, and the last."""
    cells: dict[int, tuple[int, int]] = {}
    for x, waiting in steps:
        highest, _ = cells.get(int(x), (waiting, waiting))
        cells[int(x)] = (max(highest, waiting), waiting)
    levels: list[tuple[float, int]] = []
    for cell, (highest, after) in cells.items():
        levels += [(cell, highest)] if highest == after else [(cell, highest), (cell + 1, after)]
    return levels


def _draw_text(x: float, y: float, text: str, kind: str = "", *, anchor: str = "start") -> str:
    name = f' class="{kind}"' if kind else ""
    place = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}"{name}{place}>{_escape_text(text)}</text>'


def _escape_text(text: str) -> str:
    return html.escape(_FORBIDDEN.sub("\ufffd", text))


def _wrap_document(height: float, title: str, parts: Iterable[str]) -> str:
    width = _LEFT + _WIDTH + 40
    inside = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img">\n'
        f"<title>{_escape_text(title)}</title>\n"
        f"<style>{_STYLE}</style>\n"
        f'<rect class="ground" width="100%" height="100%"/>\n{inside}\n</svg>\n'
    )
