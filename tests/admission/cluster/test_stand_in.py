"""What is kept of a process whose event loop stands still, and what goes to others?"""

from __future__ import annotations

from tests.admission.cluster.test_holder import AI, LIMITS, Pair, sent
from tool_engine.admission.cluster.cluster_database import ClusterConnection
from tool_engine.admission.cluster.cluster_limits import ClusterLimits
from tool_engine.admission.cluster.coordinator import Coordinator
from tool_engine.admission.cluster.effects import Start
from tool_engine.admission.cluster.holder import SURE, Holder
from tool_engine.admission.cluster.life import Kept
from tool_engine.admission.cluster.stand_in import StandIn, note_renewed, take_idle
from tool_engine.model.settings.concurrency import ToolRate


def stand_still(pair: Pair, holder: Holder, now: float) -> None:
    """What the thread does once."""
    found = take_idle(holder, holder.last_seen, now)
    assert found is not None
    notes = pair.coordinator.renew(found, now)
    assert notes is not None
    for note in notes:
        for reader in pair.holders.values():
            if reader.life == note.life and reader is not holder:
                pair.do(reader, reader.on_notification(note, now), now)
    note_renewed(holder, found.life, now, now)


def test_what_is_in_use_stays_and_what_is_idle_goes() -> None:
    pair = Pair("a", "b")
    a, b = pair.holders.values()
    pair.do(a, a.ask(1, {AI: 1}, 0.1), 0.1)
    pair.do(a, a.ask(2, {AI: 1}, 0.1), 0.1)
    pair.do(a, a.give_back(2, 0.2), 0.2)
    pair.silent = {"a"}
    pair.do(b, b.ask(3, {AI: 1}, 0.3), 0.3)
    assert 3 in b.waiting
    for now in range(1, 40):
        stand_still(pair, a, float(now))
        pair.do(b, b.tick(float(now)), float(now))
        assert 3 in b.running
    assert pair.coordinator.books.used == {AI: 2}
    pair.silent = set()
    assert pair.do(a, a.give_back(1, 40.0), 40.0) == [], "its call counts"
    assert a.idle_of(AI) == 1


def test_what_was_granted_meanwhile_goes_on_to_others() -> None:
    """It hears of that late, and does not use it before it has heard the newest."""
    pair = Pair("a", "b", limits=LIMITS)
    a, b = pair.holders.values()
    pair.do(a, a.ask(1, {AI: 1}, 0.1), 0.1)
    message = sent(a.ask(2, {AI: 1}, 0.2))
    late = pair.coordinator.hear(message, 0.2).answer  # its loop stands still as that comes
    pair.silent = {"a"}
    pair.do(b, b.ask(3, {AI: 1}, 0.3), 0.3)
    assert 3 in b.waiting
    stand_still(pair, a, 2.0)
    pair.do(b, b.tick(2.0), 2.0)
    assert 3 in b.running
    pair.silent = set()
    effects = a.on_reply(late, 2.5)
    assert not any(isinstance(each, Start) for each in effects)
    pair.do(a, effects, 2.5)
    assert 2 in a.waiting
    assert pair.coordinator.books.used == {AI: 2}
    pair.do(b, b.give_back(3, 2.6), 2.6)
    assert 2 in a.running


def test_what_is_said_late_of_one_that_has_spoken_since_counts_no_more() -> None:
    """It uses more by then; the thread may have waited long for a connection."""
    pair = Pair("a", "b")
    a = pair.holders["a"]
    pair.do(a, a.ask(1, {AI: 1}, 0.1), 0.1)
    late = take_idle(a, a.last_seen, 1.0)
    assert late is not None
    pair.do(a, a.ask(2, {AI: 1}, 1.1), 1.1)
    assert 2 in a.running
    assert pair.coordinator.renew(late, 1.2) is None
    assert pair.coordinator.books.used == {AI: 2}
    found = take_idle(a, a.last_seen, 2.0)
    assert found is not None
    assert pair.coordinator.renew(found, 2.1) is not None


def test_starts_that_were_not_reported_count_while_it_stands_still() -> None:
    rate = "rate:ai"
    limits = ClusterLimits(1, buckets={"ai": 2}, rates={"ai": ToolRate(1, 5.0)})
    pair = Pair("a", "b", limits=limits)
    a, b = pair.holders.values()
    pair.do(a, a.ask(1, {AI: 1, rate: 1}, 0.1), 0.1)
    assert 1 in a.running
    stand_still(pair, a, 1.0)
    pair.do(b, b.ask(2, {AI: 1, rate: 1}, 1.1), 1.1)
    assert 2 in b.waiting
    pair.do(b, b.tick(6.2), 6.2)
    assert 2 in b.running


def test_one_that_is_spoken_for_looks_at_the_clock_as_it_wakes() -> None:
    """However short its ttl is, beside the grace."""
    for ttl in (0.9, 1.2, 10.0):
        holder = Holder("a", LIMITS, new_life=lambda: "a.1", grace=0.3, ttl=ttl)
        assert StandIn(holder, ClusterConnection)._period >= holder.grace * SURE  # type: ignore[arg-type]


def test_one_that_is_awake_or_was_given_up_is_let_alone() -> None:
    pair = Pair("a")
    a = pair.holders["a"]
    pair.do(a, a.ask(1, {AI: 1}, 0.1), 0.1)
    seen = a.last_seen
    a.tick(0.5)
    assert take_idle(a, seen, 0.6) is None
    assert take_idle(a, a.last_seen, a.valid_until) is None, "it has lost all by then"
    late = a.valid_until
    note_renewed(a, a.life, 0.7, late)
    assert a.valid_until == late, "what is answered late says nothing"
    assert Coordinator(LIMITS).renew(Kept(a.life, 9, {AI: 1}, {}), 0.7) is None
    pair.coordinator.restart(1.0)
    kept = Kept(a.life, 9, {AI: 1}, {})
    assert pair.coordinator.renew(kept, 1.1) is None, "it has to say what it holds"
