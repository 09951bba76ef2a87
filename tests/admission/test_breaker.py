"""C20: a breaker opens after failures in a row, and closes again by bounded probes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import share_of
from tool_engine.admission.breaker import CLOSED, HALF_OPEN, OPEN, CircuitBreaker
from tool_engine.errors import ToolEngineError
from tool_engine.model.settings.concurrency import BreakerPolicy

POLICY = BreakerPolicy(failures=3, reset_after=30.0, probes=2)


def fail(breaker: CircuitBreaker, count: int, now: float = 0.0) -> None:
    for _ in range(count):
        breaker.end(breaker.start(now), False, now)


def opened(policy: BreakerPolicy = POLICY) -> CircuitBreaker:
    """A breaker that has opened at 0.0."""
    breaker = CircuitBreaker(policy)
    fail(breaker, policy.failures)
    return breaker


def test_failures_in_a_row_open_it() -> None:
    """C20: as many failures in a row as the policy says refuse the next call."""
    breaker = CircuitBreaker(POLICY)
    fail(breaker, 2)
    assert (breaker.state(0.0), breaker.delay(0.0)) == (CLOSED, 0.0)
    fail(breaker, 1)
    assert (breaker.state(0.0), breaker.delay(0.0)) == (OPEN, 30.0)


def test_success_in_between_resets_the_row() -> None:
    """C20: a success in between means that the failures are not in a row."""
    breaker = CircuitBreaker(POLICY)
    for _ in range(5):
        fail(breaker, 2)
        breaker.end(breaker.start(0.0), True, 0.0)
    assert breaker.state(0.0) == CLOSED


def test_call_without_outcome_counts_as_nothing() -> None:
    """C20: refused, invalid, cancelled: neither a failure nor a success."""
    breaker = CircuitBreaker(POLICY)
    fail(breaker, 2)
    for _ in range(5):
        breaker.end(breaker.start(0.0), None, 0.0)
    assert breaker.state(0.0) == CLOSED
    fail(breaker, 1)
    assert breaker.state(0.0) == OPEN


def test_refuses_until_reset() -> None:
    """C20: open, it refuses for exactly `reset_after`, and says how long still."""
    breaker = opened()
    assert breaker.delay(29.5) == 0.5
    assert breaker.state(29.5) == OPEN
    assert breaker.delay(30.0) == 0.0
    assert breaker.state(30.0) == HALF_OPEN


def test_probes_are_bounded() -> None:
    """C20: half-open, no more calls run at once than there are probes."""
    breaker = opened()
    first = breaker.start(30.0)
    assert breaker.delay(30.0) == 0.0
    breaker.start(30.0)
    assert breaker.delay(31.0) == 30.0
    breaker.end(first, None, 31.0)
    assert breaker.delay(31.0) == 0.0


def test_success_of_a_probe_closes_it() -> None:
    """C20: one good probe is enough; the row of failures starts anew."""
    breaker = opened()
    breaker.end(breaker.start(30.0), True, 31.0)
    assert breaker.state(31.0) == CLOSED
    fail(breaker, 2, now=31.0)
    assert breaker.state(31.0) == CLOSED


def test_failure_of_a_probe_opens_it_again() -> None:
    """C20: the first bad probe opens it for another `reset_after`, with all its probes anew."""
    breaker = opened()
    tokens = [breaker.start(30.0), breaker.start(30.0)]
    breaker.end(tokens[0], False, 35.0)
    assert breaker.delay(35.0) == 30.0
    assert breaker.state(65.0) == HALF_OPEN
    breaker.start(65.0)
    assert breaker.delay(65.0) == 0.0
    breaker.end(tokens[1], True, 66.0)
    assert breaker.state(66.0) == HALF_OPEN


@pytest.mark.parametrize("outcome", [True, False, None])
def test_call_from_before_it_opened_changes_nothing(outcome: bool | None) -> None:
    """C20: a slow call that started before says nothing about how things are now."""
    breaker = CircuitBreaker(POLICY)
    old = breaker.start(0.0)
    fail(breaker, 3)
    breaker.end(old, outcome, 10.0)
    assert (breaker.state(10.0), breaker.delay(10.0)) == (OPEN, 20.0)
    probe = breaker.start(30.0)
    breaker.end(old, outcome, 30.0)
    assert (breaker.state(30.0), breaker.probes) == (HALF_OPEN, 1)
    breaker.end(probe, True, 30.0)
    breaker.end(old, outcome, 30.0)
    assert (breaker.state(30.0), breaker.failures) == (CLOSED, 0)


def test_probe_that_ends_after_it_closed_changes_nothing() -> None:
    """C20: the second probe started while calls failed; it does not count against the new row."""
    breaker = opened(BreakerPolicy(failures=1, reset_after=30.0, probes=2))
    tokens = [breaker.start(30.0), breaker.start(30.0)]
    breaker.end(tokens[0], True, 31.0)
    breaker.end(tokens[1], False, 31.0)
    assert breaker.state(31.0) == CLOSED


def test_start_that_nobody_asked_for_is_refused() -> None:
    """C20: nobody gets past an open breaker, nor past the probes, by not asking."""
    breaker = opened()
    with pytest.raises(ToolEngineError, match=r"open until 30.*start one when delay\(\) is 0"):
        breaker.start(29.0)
    breaker.start(30.0)
    breaker.start(30.0)
    with pytest.raises(ToolEngineError, match="2 of 2 probes run"):
        breaker.start(30.0)


def test_probe_ended_twice_is_an_error() -> None:
    """C9: a counter that were clamped would hide the mistake."""
    breaker = opened()
    token = breaker.start(30.0)
    breaker.end(token, None, 30.0)
    with pytest.raises(ToolEngineError, match="ended twice"):
        breaker.end(token, None, 30.0)


def test_configure_keeps_the_state() -> None:
    """C18, C20: a new policy applies to the row, the wait and the probes that there are."""
    breaker = CircuitBreaker(POLICY)
    fail(breaker, 2)
    breaker.configure(BreakerPolicy(failures=1, reset_after=30.0))
    assert breaker.state(0.0) == CLOSED
    fail(breaker, 1)
    assert breaker.delay(0.0) == 30.0
    breaker.configure(BreakerPolicy(failures=1, reset_after=10.0))
    assert breaker.delay(0.0) == 10.0
    breaker.start(10.0)
    assert breaker.delay(10.0) == 10.0
    breaker.configure(BreakerPolicy(failures=1, reset_after=10.0, probes=2))
    assert breaker.delay(10.0) == 0.0


def test_repr_shows_the_state() -> None:
    """The whole live state is in the repr."""
    breaker = CircuitBreaker(POLICY)
    fail(breaker, 2)
    assert repr(breaker) == "<CircuitBreaker closed, 2 of 3 failures in a row>"
    fail(breaker, 1)
    assert repr(breaker) == "<CircuitBreaker open until 30, then half-open, 0 of 2 probes run>"


POLICIES = st.builds(
    BreakerPolicy,
    failures=st.integers(1, 4),
    reset_after=st.integers(1, 20).map(float),
    probes=st.integers(1, 3),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("start"), st.integers(0, 10)),
        st.tuples(st.sampled_from(["good", "bad", "none"]), st.integers(0, 10)),
        st.tuples(st.just("wait"), st.integers(0, 25)),
        st.tuples(st.just("configure"), POLICIES),
    ),
    max_size=60,
)


class Model:
    """The rules, over a list of everything that runs."""

    def __init__(self, policy: BreakerPolicy) -> None:
        self.policy = policy
        self.opened_at: float | None = None
        self.row = 0
        self.epoch = 0

    def state(self, now: float) -> str:
        if self.opened_at is None:
            return CLOSED
        return OPEN if now - self.opened_at < self.policy.reset_after else HALF_OPEN

    def end(self, epoch: int, outcome: bool | None, now: float) -> None:
        if outcome is None or epoch != self.epoch:
            return
        self.row = 0 if outcome else self.row + 1
        if self.opened_at is not None or self.row >= self.policy.failures:
            self.opened_at = None if outcome else now
            self.epoch += 1


@settings(max_examples=share_of(300))
@given(POLICIES, STEPS)
def test_state_machine(policy: BreakerPolicy, steps: list[tuple[str, object]]) -> None:
    """C20: never more probes than allowed, nothing while open, half-open in time, never stuck."""
    breaker, model = CircuitBreaker(policy), Model(policy)
    running: list[tuple[int, int]] = []
    now = 0.0
    outcomes = {"good": True, "bad": False, "none": None}
    for name, value in steps:
        if name == "wait":
            assert isinstance(value, int)
            now += value
        elif name == "configure":
            assert isinstance(value, BreakerPolicy)
            breaker.configure(value)
            model.policy = value
        elif name in outcomes and running:
            assert isinstance(value, int)
            token, epoch = running.pop(value % len(running))
            breaker.end(token, outcomes[name], now)
            model.end(epoch, outcomes[name], now)
        state = model.state(now)
        probes = sum(epoch == model.epoch for _, epoch in running) if state != CLOSED else 0
        may_start = state == CLOSED or (state == HALF_OPEN and probes < model.policy.probes)
        assert breaker.state(now) == state
        assert (breaker.delay(now) == 0.0) == may_start
        if name == "start":
            if may_start:
                running.append((breaker.start(now), model.epoch))
            else:
                with pytest.raises(ToolEngineError):
                    breaker.start(now)
    _recovers(breaker, running, now)


def _recovers(breaker: CircuitBreaker, running: list[tuple[int, int]], now: float) -> None:
    """Whatever happened: once all that runs has ended without outcome, it lets calls through."""
    for token, _ in running:
        breaker.end(token, None, now)
    later = now + breaker.delay(now)
    assert breaker.state(later) in (CLOSED, HALF_OPEN)
    assert breaker.delay(later) == 0.0
    breaker.end(breaker.start(later), True, later)
    assert breaker.state(later) == CLOSED


@given(st.floats(0, 1e9), st.floats(1e-3, 1e6))
def test_delay_leads_to_a_try(now: float, reset_after: float) -> None:
    """C20: whoever waits as long as it says may try; a rounding costs one more, shorter wait."""
    breaker = CircuitBreaker(BreakerPolicy(failures=1, reset_after=reset_after))
    fail(breaker, 1, now)
    for _ in range(3):
        now += breaker.delay(now)
    assert breaker.state(now) == HALF_OPEN
