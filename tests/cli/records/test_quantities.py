"""Words that mean a time, a duration or a size."""

from datetime import UTC, datetime, timedelta

import pytest

from tool_engine.cli.failures import CommandError
from tool_engine.cli.records.quantities import parse_moment, parse_seconds, parse_size, seconds_text


@pytest.mark.parametrize(
    ("word", "seconds"),
    [("90s", 90), ("1.5m", 90), ("12h", 43_200), ("7d", 604_800), ("1w", 604_800)],
)
def test_durations(word: str, seconds: float) -> None:
    """A number and a unit."""
    assert parse_seconds("--x", word) == seconds


@pytest.mark.parametrize("word", ["", "5", "h", "-1h", "1h30m", "0d", "1 h", "١h", "1e3s", "nan"])
def test_no_durations(word: str) -> None:
    """Anything else is a mistake that names the option."""
    with pytest.raises(CommandError, match="--x takes a duration"):
        parse_seconds("--x", word)


def test_moments() -> None:
    """So long ago, or a date; local where it names no zone."""
    ago = datetime.now(UTC) - parse_moment("--since", "2h")
    assert abs(ago - timedelta(hours=2)) < timedelta(minutes=1)
    local = datetime(2026, 11, 1).astimezone(UTC)
    assert parse_moment("--since", "2026-11-01") == local
    zoned = parse_moment("--since", "2026-11-01T08:30:00+02:00")
    assert zoned == datetime(2026, 11, 1, 6, 30, tzinfo=UTC)
    assert parse_moment("--since", "999999999w") < datetime(2, 1, 1, tzinfo=UTC)
    assert parse_moment("--since", "0001-01-01") <= datetime(1, 1, 2, tzinfo=UTC)
    assert parse_moment("--until", "9999-12-31T23:59-12:00") > datetime(9999, 12, 30, tzinfo=UTC)


@pytest.mark.parametrize("word", ["", "yesterday", "2026-13-01", "0s", "0001-01-01T00:00+14:00x"])
def test_no_moments(word: str) -> None:
    """Anything else is a mistake that names the option and both forms."""
    with pytest.raises(CommandError, match="--since takes"):
        parse_moment("--since", word)


def test_sizes() -> None:
    """Bytes, or a number with a unit, in any case."""
    assert parse_size("--x", "1000") == 1_000
    assert parse_size("--x", "1.5KB") == 1_500
    assert parse_size("--x", "500 mb") == 500_000_000
    assert parse_size("--x", "2GB") == 2_000_000_000
    assert parse_size("--x", "10B") == 10


@pytest.mark.parametrize("word", ["", "0", "MB", "-1MB", "1XB", "1K", "0.1", "1e9"])
def test_no_sizes(word: str) -> None:
    """Anything else is a mistake that names the option."""
    with pytest.raises(CommandError, match="--x takes a size"):
        parse_size("--x", word)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0"),
        (12e-6, "12 µs"),
        (0.0034, "3.4 ms"),
        (0.9996, "1 s"),
        (2.5, "2.5 s"),
        (99.99, "1 min 40 s"),
        (200.4, "3 min 20 s"),
    ],
)
def test_seconds_for_people(seconds: float, text: str) -> None:
    """A unit that fits, and no more digits than one looks at."""
    assert seconds_text(seconds) == text
