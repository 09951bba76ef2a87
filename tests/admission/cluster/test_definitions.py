"""Does the coordinator keep limits that tools define, through crashes and other definitions?"""

from __future__ import annotations

import pytest

from tool_engine.admission.cluster.cluster_limits import (
    ClusterLimits,
    name_definition,
    name_tool_rate,
)
from tool_engine.admission.cluster.coordinator import Coordinator
from tool_engine.admission.cluster.lease_messages import Hello, Reply, Report, Sync, Ticket
from tool_engine.admission.cluster.saved_state import load_state, save_state
from tool_engine.model.settings.concurrency import BreakerPolicy, ToolRate

LIMITS = ClusterLimits(1)
RATE = name_tool_rate("fetch", ToolRate(2, 60.0))
KEY = "key:tool change:7"
POLICY = BreakerPolicy(failures=2, reset_after=5.0)


def greet(coordinator: Coordinator, life: str, now: float, *, is_new: bool = True) -> Reply:
    hello = Hello(life, f"of {life}", 1 if is_new else 9, is_new, LIMITS)
    return answer_to(coordinator, hello, now)


def answer_to(coordinator: Coordinator, message: Hello | Sync, now: float) -> Reply:
    answer = coordinator.hear(message, now).answer
    assert isinstance(answer, Reply)
    return answer


def ask(
    coordinator: Coordinator, life: str, op: int, now: float, resource: str, limit: int
) -> dict[int, int]:
    """What a life is granted once it has asked for one unit, with what its tool says."""
    limits = {name_definition(resource): limit}
    ticket = Ticket(op, {resource: 1}, limits=limits)
    return answer_to(coordinator, Sync(life, op, tickets=(ticket,)), now).state.grants


def test_the_newest_definition_holds() -> None:
    coordinator = Coordinator(LIMITS)
    greet(coordinator, "a", 0.0)
    assert ask(coordinator, "a", 2, 0.1, KEY, 1) == {2: 0}
    assert ask(coordinator, "a", 3, 0.2, KEY, 1) == {2: 0}
    assert ask(coordinator, "a", 4, 0.3, KEY, 3) == {2: 0, 3: 0, 4: 0}
    assert ask(coordinator, "a", 5, 0.4, "key:tool change:8", 1) == {2: 0, 3: 0, 4: 0, 5: 0}
    assert coordinator.lowered == {KEY}, "more of them are out than there are now"


def test_a_definition_is_on_disk_before_anything_of_it_is_granted() -> None:
    coordinator = Coordinator(LIMITS)
    greet(coordinator, "a", 0.0)
    ticket = Ticket(1, {RATE: 1}, limits={RATE: 2})
    assert coordinator.hear(Sync("a", 2, tickets=(ticket,)), 0.1).is_durable
    ticket = Ticket(2, {RATE: 1}, limits={RATE: 2})
    assert not coordinator.hear(Sync("a", 3, tickets=(ticket,)), 0.2).is_durable


def test_a_call_that_is_heavier_than_a_newer_definition_goes_alone() -> None:
    """It came when the limit was larger, and would hold up all behind it for ever."""
    coordinator = Coordinator(LIMITS)
    greet(coordinator, "a", 0.0)
    assert ask(coordinator, "a", 2, 0.1, KEY, 2) == {2: 0}
    heavy = Ticket(3, {KEY: 2}, limits={name_definition(KEY): 2})
    assert answer_to(coordinator, Sync("a", 3, tickets=(heavy,)), 0.2).state.grants == {2: 0}
    assert ask(coordinator, "a", 4, 0.3, KEY, 1) == {2: 0}
    state = answer_to(coordinator, Sync("a", 5, returned={KEY: 1}, gone=(2,)), 0.4).state
    assert state.grants == {3: 0}
    state = answer_to(coordinator, Sync("a", 6, returned={KEY: 3}, gone=(3,)), 0.5).state
    assert state.grants == {4: 0}


def test_starts_that_a_crash_has_forgotten_count() -> None:
    """The tool's whole rate does, once, for its whole period."""
    coordinator = Coordinator(LIMITS, ttl=1.0)
    greet(coordinator, "a", 0.0)
    ask(coordinator, "a", 2, 0.1, RATE, 2)
    coordinator = load_state(save_state(coordinator))
    coordinator.restart(0.2)
    greet(coordinator, "b", 0.3)
    assert ask(coordinator, "b", 2, 0.4, RATE, 2) == {}, (
        "nothing before all have said what they hold"
    )
    answer_to(coordinator, Sync("b", 3), 1.3)
    assert "a" not in coordinator.lives
    grants = answer_to(coordinator, Sync("b", 4), 30.0).state.grants
    assert grants == {}
    greet(coordinator, "c", 61.0)
    assert ask(coordinator, "c", 2, 61.5, RATE, 2) != {}


def test_a_breaker_that_a_tool_defines() -> None:
    """One that the coordinator never heard of opens, and other limits do not end it."""
    coordinator = Coordinator(LIMITS)
    greet(coordinator, "a", 0.0)
    report = Report("tool fetch", 0, policy=POLICY)
    state = answer_to(coordinator, Sync("a", 2, reports=(report,)), 0.1).state
    assert state.breakers["tool fetch"].left == 5.0
    coordinator = load_state(save_state(coordinator))
    greet(coordinator, "b", 0.2)
    newer = ClusterLimits(2, breakers={"ai": POLICY})
    state = answer_to(coordinator, Sync("b", 2, limits=newer), 1.1).state
    assert state.breakers["tool fetch"].left == pytest.approx(4.0)
    ticket = Ticket(1, {}, breaker="tool fetch", policy=POLICY)
    assert answer_to(coordinator, Sync("b", 3, tickets=(ticket,)), 2.0).state.grants == {}
    state = answer_to(coordinator, Sync("b", 4), 5.2).state
    assert (state.grants, state.probes) == ({1: 0}, (1,))
