"""Which time, duration or size does a command's word mean?"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Final

from tool_engine.cli.failures import CommandError

_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_BYTES: Final = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([smhdw])", re.ASCII)
_SIZE: Final = re.compile(r"(\d{1,15}(?:\.\d{1,9})?) ?([KMGT]?B|)", re.ASCII | re.IGNORECASE)


def parse_seconds(option: str, word: str) -> float:
    """Return the seconds of a duration: `90s`, `30m`, `12h`, `7d`, `2w`."""
    found = _DURATION.fullmatch(word)
    seconds = float(found[1]) * _SECONDS[found[2]] if found else 0.0
    if seconds <= 0:
        raise CommandError(
            f"{option} takes a duration such as 90s, 30m, 12h, 7d or 2w; got {word!r}"
        )
    return seconds


def parse_moment(option: str, word: str) -> datetime:
    """Return the time of an age (`1h`) or date, local without zone."""
    if _DURATION.fullmatch(word):
        try:
            return datetime.now(UTC) - timedelta(seconds=parse_seconds(option, word))
        except OverflowError:
            return datetime.min.replace(tzinfo=UTC) + timedelta(days=2)
    try:
        moment = datetime.fromisoformat(word)
    except ValueError:
        raise CommandError(
            f"{option} takes a duration such as 1h, or a time such as 2026-11-01 or "
            f"2026-11-01T08:30; got {word!r}"
        ) from None
    try:
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        # The first or the last day that there is, in a zone in which it is another one.
        return moment.replace(tzinfo=UTC)


def parse_size(option: str, word: str) -> int:
    """Return the bytes of a size such as `500MB`; 0 is refused."""
    found = _SIZE.fullmatch(word)
    size = math.floor(float(found[1]) * _BYTES[found[2].upper()]) if found else 0
    if size < 1:
        raise CommandError(f"{option} takes a size such as 500MB or 2GB; got {word!r}")
    return size


def seconds_text(seconds: float) -> str:
    """Write a duration for people: `12 µs`, `3 min 20 s`."""
    if seconds <= 0:
        return "0"
    if seconds < 0.000_999_5:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 0.999_5:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 99.95:
        return f"{seconds:.3g} s"
    minutes, left = divmod(round(seconds), 60)
    return f"{minutes} min {left} s"
