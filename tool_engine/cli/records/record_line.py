"""How do a record, its outcome and its times look in a line?"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from rich.console import Console

from tool_engine.cli.console import json_text
from tool_engine.model.record import ToolCallRecord

WIDE: Final = 110
"""Columns from which on a table has room for everything."""
_LONGEST: Final = 160
_BARS: Final = "▁▂▃▄▅▆▇█"
_ASCII: Final = str.maketrans(
    {**dict(zip(_BARS, "..:-=+*#", strict=True)), "└": "`", "├": "|", "│": "|", "─": "-", "µ": "u"}
)


def local_time(time: datetime, *, now: datetime | None = None) -> str:
    """Return the local time, with the date unless it is today."""
    here, today = time.astimezone(), (now or datetime.now(UTC)).astimezone()
    is_today = here.date() == today.date()
    return here.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M:%S")


def record_text(record: ToolCallRecord) -> str:
    if record.is_success:
        text = json_text(record.params, indent=None)
    else:
        text = f"{record.error_type or 'failed'}: {record.error or ''}"
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def draw_bars(values: Sequence[float]) -> str:
    """Return a bar per value, highest for the largest; 0: blank.

    Example:
        >>> draw_bars([0, 1, 4, 8])
        ' ▁▄█'
    """
    most = max(values, default=0)
    steps = len(_BARS)
    return "".join(
        _BARS[min(steps, -(-value * steps // most).__int__()) - 1] if value > 0 else " "
        for value in values
    )


def fit_encoding(text: str, console: Console) -> str:
    is_unicode = console.encoding.lower().replace("-", "").startswith("utf")
    return text if is_unicode else text.translate(_ASCII)
