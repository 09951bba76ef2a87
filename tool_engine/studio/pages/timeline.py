"""Where does the bar of each call stand in a picture of the last minutes?"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from tool_engine.model.outcome import outcome_of

WIDTH: Final = 1000
"""Units of the picture from its left to its right end."""
_ROW: Final = 14
_MOST_ROWS: Final = 12
"""Slots of one bucket that have a row of their own; what does not fit is counted."""
_SHORTEST: Final = 2
"""Units of a call that took no time that could be seen."""
_BLUR: Final = timedelta(milliseconds=50)
"""A record is written shortly after its slot was given back: no longer than this is no overlap."""


class Bar(msgspec.Struct):
    """One call, from when it had its slot to when it gave it back."""

    call_id: str
    tool_name: str
    outcome: str
    """As in its record, or `running`."""
    x: int
    y: int
    width: int
    seconds: float


class Strip(msgspec.Struct):
    """The slots of one bucket."""

    bucket: str
    bars: list[Bar]
    height: int
    left_out: int
    """Calls for which there was no row."""


class Timeline(msgspec.Struct):
    strips: list[Strip]
    start: str
    end: str
    minutes: int


def draw_timeline(
    records: Sequence[Any], held: Sequence[Any], start: datetime, end: datetime
) -> Timeline:
    """Return the bars of calls that ended, and of those that hold slots.

    Args:
        records: Records of the API.
        held: Slots that are held at `end`, as the API shows them.
        start: The moment at the left.
        end: The moment at the right.
    """
    spans: dict[str, list[tuple[datetime, datetime, str, str, str]]] = {}
    for each in records:
        if not each["reached_executor"]:
            continue
        ended = datetime.fromisoformat(each["created_at"])
        began = ended - timedelta(seconds=each["execution_time"])
        outcome = outcome_of(each["error_type"]).value
        span = (began, ended, each["call_id"], each["tool_name"], outcome)
        spans.setdefault(each["bucket"] or "-", []).append(span)
    for each in held:
        if each["call_id"] is not None:
            began = end - timedelta(seconds=each["held_for"])
            span = (began, end, each["call_id"], each["tool_name"] or "", "running")
            spans.setdefault(each["bucket"], []).append(span)
    whole = (end - start).total_seconds()

    def place(at: datetime) -> int:
        return round(max(0.0, (at - start).total_seconds()) / whole * WIDTH)

    strips = []
    for bucket, found in sorted(spans.items()):
        # By times, and not by what is drawn: a call too short to be seen would take a row more.
        free_from: list[datetime] = []
        strip = Strip(bucket, [], 0, 0)
        for began, ended, call_id, tool_name, outcome in sorted(found):
            left, right = place(began), min(WIDTH, place(ended))
            width = max(_SHORTEST, right - left)
            row = next(
                (at for at, free in enumerate(free_from) if free - _BLUR <= began), len(free_from)
            )
            if row >= _MOST_ROWS:
                strip.left_out += 1
                continue
            free_from[row : row + 1] = [ended]
            seconds = (ended - began).total_seconds()
            bar = Bar(call_id, tool_name, outcome, left, row * _ROW, width, seconds)
            strip.bars.append(bar)
        strip.height = max(1, len(free_from)) * _ROW
        strips.append(strip)
    return Timeline(strips, start.isoformat(), end.isoformat(), round(whole / 60))
