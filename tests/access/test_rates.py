"""How many requests a principal may send: counted by asyncio-throttle, refused without a wait."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from asyncio_throttle.throttler import Throttler
from hypothesis import given
from hypothesis import strategies as st

from tool_engine.access import rates
from tool_engine.access.rates import Rates
from tool_engine.admission.throttle import Throttle
from tool_engine.model.settings.concurrency import ToolRate


class Clock:
    """A clock that stands still until it is set."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def clock_of_rates() -> Iterator[Clock]:
    """Have the library and what asks it go by a clock of the test's."""
    clock = Clock()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("asyncio_throttle.throttler.time", SimpleNamespace(monotonic=clock))
        patched.setattr(rates, "monotonic", clock)
        yield clock


@given(st.integers(1, 4), st.lists(st.integers(0, 6), min_size=1, max_size=40))
def test_a_refused_request_is_taken_when_its_answer_says(calls: int, pauses: list[int]) -> None:
    """Those pass that may, also by the engine's own count; the seconds said are the fewest."""
    with clock_of_rates() as clock:
        counted, own = Rates(f"{calls}/7.5s"), Throttle(ToolRate(calls, 7.5))
        for pause in pauses:
            clock.now += pause
            wait, theirs = counted.count("ann"), own.delay(clock.now)
            assert (wait or 0.0) == pytest.approx(theirs)
            assert (wait is None) == (theirs == 0)
            if wait is None:
                own.count(clock.now)
            else:
                clock.now += wait - 0.001
                assert counted.count("ann") is not None
                clock.now += 0.002
                assert counted.count("ann") is None
                own.count(clock.now)


def test_each_has_a_rate_of_its_own() -> None:
    """One that is refused takes nothing of another."""
    with clock_of_rates():
        counted = Rates("2/s")
        assert [counted.count("ann") is None for _ in range(4)] == [True, True, False, False]
        assert [counted.count("bob") is None for _ in range(3)] == [True, True, False]


def test_those_that_ask_no_more_are_forgotten() -> None:
    """What is kept is that of the last period, however many have come before."""
    with clock_of_rates() as clock:
        counted = Rates("2/s")
        for number in range(500):
            counted.count(f"of the first second {number}")
        for number in range(500):
            clock.now += 1.0
            counted.count(f"later {number}")
        assert len(counted._known) <= 3


def test_of_too_many_at_once_the_first_ones_are_forgotten() -> None:
    """No number of principals fills the memory."""
    with clock_of_rates():
        counted = Rates("1/h")
        for number in range(10_050):
            counted.count(str(number))
        assert len(counted._known) == 10_000
        assert counted.count("10049") is not None
        assert counted.count("0") is None


def test_the_library_is_as_it_is_used() -> None:
    """`acquire` ends at its first step where it may start, and the starts are kept in order."""
    throttler = Throttler(2, 60.0, 0)
    assert list(inspect.signature(Throttler.__init__).parameters) == [
        *("self", "rate_limit", "period", "retry_interval"),
    ]
    for _ in range(2):
        with pytest.raises(StopIteration):
            throttler.acquire().send(None)  # type: ignore[no-untyped-call]
    waiting = throttler.acquire()  # type: ignore[no-untyped-call]
    assert waiting.send(None) is None
    waiting.close()
    first, second = throttler._task_logs
    assert first <= second
