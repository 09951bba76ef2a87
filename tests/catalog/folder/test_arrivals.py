"""Does a file wait until it has been left alone for long enough?"""

from __future__ import annotations

import time

import pytest

from tool_engine.catalog.definition_files import FileStamp
from tool_engine.catalog.folder.arrivals import GONE, Arrivals

NOW = 1_000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, as a list of one."""
    now = [NOW]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def stamp(size: int = 9, inode: int = 1, at: int = 0) -> FileStamp:
    return FileStamp(1, inode, size, at, at)


def test_a_file_rests_from_its_last_change_on(clock: list[float]) -> None:
    """U12: another state begins the rest anew, the same state does not."""
    arrivals = Arrivals()
    arrivals.note("a", stamp())
    clock[0] += 3
    arrivals.note("a", stamp())
    assert arrivals.time_left("a", 10.0, None) == 7
    arrivals.note("a", stamp(at=1))
    assert arrivals.time_left("a", 10.0, None) == 10
    assert arrivals.stamp("a") == stamp(at=1)
    assert arrivals.paths() == {"a"}
    arrivals.drop("a")
    arrivals.drop("a")
    assert "a" not in arrivals


@pytest.mark.parametrize(
    ("now", "read", "seconds"),
    [
        (stamp(0), None, 0.5),
        (stamp(5), stamp(9), 0.2),
        (stamp(5, inode=2), stamp(9), 0.02),
        (stamp(9), stamp(5), 0.02),
        (stamp(5), None, 0.02),
        (GONE, stamp(9), 0.02),
        (None, stamp(9), 0.02),
    ],
    ids=["empty", "shorter", "replaced", "longer", "new", "gone", "unreadable"],
)
def test_how_long(
    clock: list[float], now: FileStamp | None, read: FileStamp | None, seconds: float
) -> None:
    """U12: what looks as if it had just been begun rests longer, and never less than is asked."""
    arrivals = Arrivals()
    arrivals.note("a", now)
    assert arrivals.time_left("a", 0.02, read) == pytest.approx(seconds)
    assert arrivals.time_left("a", 60.0, read) == pytest.approx(60.0)


def test_what_is_old_need_not_rest(clock: list[float]) -> None:
    """U12: at the start, the time since the last change counts as rest; the future does not."""
    arrivals = Arrivals()
    arrivals.note("old", stamp(), trusts_age=True)
    arrivals.note("unreadable", None, trusts_age=True)
    arrivals.note("ahead", stamp(at=2**62), trusts_age=True)
    assert arrivals.time_left("old", 10.0, None) < 0
    assert arrivals.time_left("unreadable", 10.0, None) == 10
    assert arrivals.time_left("ahead", 10.0, None) == 10


def test_an_open_file_never_rests(clock: list[float]) -> None:
    """U12: the rest of a file begins when it is closed."""
    arrivals = Arrivals()
    arrivals.note("a", stamp())
    clock[0] += 60
    arrivals.is_open = lambda path: path == "a"
    assert arrivals.time_left("a", 10.0, None) == 10
    arrivals.is_open = lambda path: False
    clock[0] += 4
    assert arrivals.time_left("a", 10.0, None) == 6
