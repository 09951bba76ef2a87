"""Is nothing forgotten of what a process says, or may have done without a word?"""

from __future__ import annotations

from copy import deepcopy

from tests.admission.cluster.test_holder import AI, Pair
from tool_engine.admission.cluster.cluster_limits import ClusterLimits
from tool_engine.admission.cluster.effects import Refuse, Start
from tool_engine.admission.cluster.lease_messages import Reply, Sync
from tool_engine.model.settings.concurrency import BreakerPolicy, ToolRate


def test_what_comes_with_limits_that_contradict_is_said_again() -> None:
    """Nothing of such a message was taken in."""
    pair = Pair("a", "b")
    a, b = pair.holders.values()
    assert pair.do(a, a.ask(1, {AI: 2}, 0.1), 0.1) == [Start(1)]
    under_way = a.ask(2, {AI: 1}, 0.2)
    pair.do(b, b.configure(ClusterLimits(2, buckets={"ai": 3}), 0.2), 0.2)
    a.configure(ClusterLimits(2, buckets={"ai": 1}), 0.3)
    a.ask(3, {AI: 3}, 0.3)
    (refused,) = [each for each in pair.do(a, under_way, 0.4) if isinstance(each, Refuse)]
    assert "revision 2" in refused.reason
    assert 3 in pair.coordinator.lives[a.life].entries


def test_limits_that_come_while_others_are_refused_are_said() -> None:
    """They have a revision of their own, which nothing contradicts."""
    pair = Pair("a", "b")
    a, b = pair.holders.values()
    under_way = a.configure(ClusterLimits(2, buckets={"ai": 1}), 0.2)
    pair.do(b, b.configure(ClusterLimits(2, buckets={"ai": 3}), 0.3), 0.3)
    newer = ClusterLimits(3, buckets={"ai": 4})
    a.configure(newer, 0.3)
    assert any(isinstance(each, Refuse) for each in pair.do(a, under_way, 0.4))
    assert pair.coordinator.limits == a.limits == newer


def test_limit_that_is_lowered_after_a_crash_drains() -> None:
    """What is held is known only once all have said so, and then it is more than is left."""
    pair = Pair("a", "b", limits=ClusterLimits(1, buckets={"ai": 3}))
    a, b = pair.holders.values()
    on_disk = deepcopy(pair.coordinator)
    for holder, units in ((a, 2), (b, 1)):
        pair.do(holder, holder.ask(1, {AI: units}, 0.1), 0.1)
        pair.do(holder, holder.give_back(1, 0.2), 0.2)
        holder.on_connection_lost(0.2)
    pair.coordinator = on_disk
    on_disk.restart(0.2)
    pair.do(b, b.on_connected(0.3), 0.3)
    pair.do(b, b.configure(ClusterLimits(2, buckets={"ai": 2}), 0.3), 0.3)
    pair.do(a, a.on_connected(0.35), 0.35)
    assert on_disk.books.used.get(AI, 0) <= 2


def test_probe_that_takes_back_what_it_lent_at_once_is_the_same_probe() -> None:
    """Its start was not heard of yet: no other call tries the breaker, and its end closes it."""
    rates, breakers = {"web": ToolRate(1, 60.0)}, {"llm": BreakerPolicy(1, 5.0)}
    pair = Pair("a", "b", limits=ClusterLimits(1, {"ai": 1}, rates=rates, breakers=breakers))
    a, b = pair.holders.values()
    pair.do(a, a.trip("llm", 0.1), 0.1)
    units = {AI: 1, "rate:web": 1}
    assert pair.do(a, a.ask(1, units, 6.0, breaker="llm"), 6.0) == [Start(1, is_probe=True)]
    pair.do(b, b.ask(1, {AI: 1}, 6.0), 6.0)
    a.park(1, 6.0)  # the message with this is lost
    a.unpark(1, 6.0)
    a.on_connection_lost(6.0)
    assert Start(1) in pair.do(a, a.on_connected(6.1), 6.1), "it has had its start of the rate"
    assert pair.coordinator.breakers["llm"].probes == {(a.life, 1)}
    pair.do(b, b.ask(2, {"bucket:free": 1}, 6.1, breaker="llm"), 6.1)
    assert 2 in b.waiting
    pair.do(a, a.give_back(1, 6.2, outcome=True), 6.2)
    assert 2 in b.running


def test_what_a_process_may_have_started_counts_after_its_end() -> None:
    """It was granted the one start of a period, and was killed before it said anything of it."""
    limits = ClusterLimits(1, rates={"web": ToolRate(1, 10.0)})
    pair = Pair("a", "b", limits=limits)
    a, b = pair.holders.values()
    (sent,) = a.ask(1, {"rate:web": 1}, 1.0)
    outcome = pair.coordinator.hear(sent.message, 1.0)  # type: ignore[union-attr]
    assert isinstance(outcome.answer, Reply)
    assert outcome.answer.state.grants == {1: 0}
    assert pair.do(b, b.ask(1, {"rate:web": 1}, 1.1), 1.1) == []
    for number, now in enumerate((1.2, 1.6, 11.0, 11.7)):
        look = Sync(b.life, b.op + 1 + number, looks=True)
        outcome = pair.coordinator.hear(look, now, frozenset({b.life}))
        assert isinstance(outcome.answer, Reply)
        assert bool(outcome.answer.state.grants) is (now == 11.7), now
    assert a.life not in pair.coordinator.lives


def test_a_pause_holds_in_all_processes() -> None:
    pair = Pair("a", "b")
    a, b = pair.holders.values()
    pair.do(a, a.pause(AI, 1.0, 0.1), 0.1)
    assert pair.do(b, b.ask(1, {AI: 1}, 0.2), 0.2) == []
    assert b.signs.paused
    assert pair.do(b, b.tick(1.2), 1.2) == [Start(1)]
