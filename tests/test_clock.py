"""What time is it after the clock of the machine was set?"""

from __future__ import annotations

import time

import pytest

from tool_engine.clock import read_time, read_uptime, read_uptime_ns


@pytest.mark.parametrize("shift", [-18_000.0, 18_000.0], ids=["behind", "ahead"])
def test_a_clock_that_is_set(monkeypatch: pytest.MonkeyPatch, shift: float) -> None:
    """It goes on, as the machine does."""
    before, now = read_time(), time.time()
    monkeypatch.setattr(time, "time", lambda: now + shift)
    assert 0 <= read_time() - before < 60
    assert abs(before - now) < 60


def test_one_count() -> None:
    """Seconds and nanoseconds are of one clock."""
    before = read_uptime()
    between = read_uptime_ns() / 1e9
    assert before - 1e-3 <= between <= read_uptime() + 1e-3
