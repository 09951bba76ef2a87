"""Until when can a process be sure of its units, and what does it say again?"""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from tool_engine.admission.cluster.cluster_limits import ClusterLimits
from tool_engine.admission.cluster.coordinator import Coordinator
from tool_engine.admission.cluster.effects import (
    Adopt,
    Effect,
    Lose,
    Refuse,
    Send,
    Start,
    TurnBreaker,
    Wait,
)
from tool_engine.admission.cluster.holder import Holder
from tool_engine.admission.cluster.lease_messages import Hello, Message, Note, Sync
from tool_engine.admission.cluster.life import Outcome
from tool_engine.admission.cluster.saved_state import load_state, save_state
from tool_engine.errors import ConfigurationError
from tool_engine.model.settings.concurrency import BreakerPolicy, ToolRate

AI = "bucket:ai"
LIMITS = ClusterLimits(1, buckets={"ai": 2}, breakers={"llm": BreakerPolicy(1, 5.0)})


class Pair:
    """Processes that speak with a coordinator without any delay."""

    def __init__(self, *processes: str, limits: ClusterLimits = LIMITS) -> None:
        self.coordinator = Coordinator(limits)
        self.outcomes: list[Outcome] = []
        self.silent: set[str] = set()
        """Processes that hear no notes."""
        self.waits: list[tuple[str, int]] = []
        """Of which calls it became known that they have to wait."""
        self.holders = {name: make_holder(name, limits) for name in processes}
        for holder in self.holders.values():
            self.do(holder, holder.on_connected(0.0), 0.0)

    def do(self, holder: Holder, effects: list[Effect], now: float) -> list[Effect]:
        """Carries out what is to be sent, and what follows from it; all effects."""
        done: list[Effect] = []
        todo = [(holder, effect) for effect in effects]
        while todo:
            by, effect = todo.pop(0)
            if isinstance(effect, Wait):
                self.waits.append((by.process, effect.number))
                continue
            if not isinstance(effect, Send):
                done += [effect] if by is holder else []
                continue
            outcome = self.coordinator.hear(effect.message, now)
            self.outcomes.append(outcome)
            todo += [(by, each) for each in by.on_reply(outcome.answer, now)]
            for note in outcome.notes:
                for reader in self.holders.values():
                    if reader.life == note.life and reader.process not in self.silent:
                        todo += [(reader, each) for each in reader.on_notification(note, now)]
        return done


def make_holder(name: str, limits: ClusterLimits = LIMITS, grace: float = 0.3) -> Holder:
    numbers = count(1)
    return Holder(name, limits, new_life=lambda: f"{name}.{next(numbers)}", grace=grace)


def sent(effects: list[Effect]) -> Any:
    """The message among the effects."""
    messages: list[Message] = [each.message for each in effects if isinstance(each, Send)]
    assert len(messages) == 1
    return messages[0]


def test_unit_stays_and_is_used_again_without_a_message() -> None:
    """Nobody else waits: a call that comes after another one sends nothing."""
    pair = Pair("a")
    a = pair.holders["a"]
    assert pair.do(a, a.ask(1, {AI: 1}, 0.1), 0.1) == [Start(1)]
    a.give_back(1, 0.2)
    assert a.ask(2, {AI: 1}, 0.3) == [Start(2)]
    assert a.ask(3, {"bucket:free": 9}, 0.3) == [Start(3)]  # it has no limit in the cluster


def test_unit_goes_to_another_process_that_waits() -> None:
    pair = Pair("a", "b")
    a, b = pair.holders["a"], pair.holders["b"]
    pair.do(a, a.ask(1, {AI: 2}, 0.1), 0.1)
    assert pair.do(b, b.ask(1, {AI: 1}, 0.1), 0.1) == []
    assert sent(a.give_back(1, 0.2)).returned == {AI: 2}
    assert a.idle_of(AI) == 0


def test_end_of_a_connection_counts_from_when_it_was_awake_last() -> None:
    """It slept for 0.15 s, and its session may have ended at the beginning of that."""
    pair = Pair("a")
    a = pair.holders["a"]
    pair.do(a, a.ask(1, {AI: 1}, 0.1), 0.1)
    assert a.on_connection_lost(0.25) == []
    assert a.wake_at() <= 0.35
    assert a.tick(0.29) == []
    assert a.tick(0.31) == [Lose((1,))]


def test_process_is_given_up_by_its_own_grace_and_ttl() -> None:
    """The first one of a cluster has short ones; who has longer ones goes by those."""
    pair = Pair("a")
    slow = Holder("b", LIMITS, new_life=lambda: "b.1", grace=3.0, ttl=30.0)
    pair.do(slow, slow.on_connected(0.0), 0.0)
    pair.do(slow, slow.ask(1, {AI: 2}, 0.1), 0.1)
    looks = [Sync("a.1", 99 + n, looks=True) for n in range(5)]
    slow.on_connection_lost(1.0)
    for look, now in zip(looks, (1.0, 2.9, 3.9), strict=False):
        pair.coordinator.hear(look, now, frozenset({"a.1"}))
        assert "b.1" in pair.coordinator.lives
        assert slow.is_sure(now) is True
    pair.coordinator.restart(5.0)
    assert pair.coordinator.gated_until == 35.0, "it may hold something for as long as it goes by"
    pair.coordinator.hear(looks[3], 34.9, frozenset({"a.1"}))
    assert "b.1" in pair.coordinator.lives
    kept = load_state(save_state(pair.coordinator)).lives["b.1"]
    assert kept.times == (3.0, 30.0)


def test_server_that_refuses_everybody_takes_nothing_away() -> None:
    """While it is down nobody is granted anything; then it waits for all for a ttl."""
    pair = Pair("a")
    a = pair.holders["a"]
    pair.do(a, a.ask(1, {AI: 1}, 0.0), 0.0)
    a.on_connection_lost(0.05)
    a.on_refused(0.1)
    assert a.tick(3.0) == []
    assert a.tick(7.0) == [Lose((1,))]  # 2/3 of the ttl after its last message


def test_server_that_warns_as_it_goes_down_takes_nothing_away() -> None:
    """Nothing listens where it was, and the process slept as it heard so."""
    pair = Pair("a")
    a = pair.holders["a"]
    pair.do(a, a.ask(1, {AI: 1}, 0.0), 0.0)
    assert a.on_connection_lost(0.6, was_warned=True) == []
    assert a.tick(3.0) == []
    pair.coordinator.restart(3.5)
    pair.do(a, a.on_connected(3.6), 3.6)
    assert pair.do(a, a.give_back(1, 3.7), 3.7) == [], "its end counts"
    assert a.on_connection_lost(4.0) == []
    pair.do(a, a.on_connected(4.1), 4.1)
    pair.do(a, a.ask(2, {AI: 1}, 4.1), 4.1)
    assert a.on_connection_lost(4.2) == []
    assert Lose((2,)) in a.tick(4.5), "another end of a session is no warning"


def test_what_was_said_before_it_slept_says_nothing_when_it_wakes() -> None:
    """What it was granted may be with others by now; if not, the answer says so once more."""
    pair = Pair("a", "b")
    a, b = pair.holders["a"], pair.holders["b"]
    pair.do(b, b.ask(1, {AI: 2}, 0.1), 0.1)
    pair.do(a, a.ask(1, {AI: 1}, 0.1), 0.1)
    pair.silent.add("a")
    pair.do(b, b.give_back(1, 0.2), 0.2)
    note = next(each for each in pair.outcomes[-1].notes if each.life == a.life)
    effects = a.on_notification(note, 0.9)
    assert not sent(effects).tickets, "it keeps what it was granted, and does not ask again"
    assert pair.do(a, effects, 0.9) == [Start(1)]


def test_what_is_idle_here_comes_before_a_refusal() -> None:
    """It woke and has not heard yet whether it may use what came idle, as its call is to wait."""
    pair = Pair("a")
    a = pair.holders["a"]
    pair.do(a, a.ask(1, {AI: 2}, 0.1), 0.1)
    first = pair.coordinator.hear(sent(a.ask(2, {AI: 1}, 0.2, asks=True)), 0.2).answer
    assert a.give_back(1, 1.0) == []
    assert pair.do(a, a.on_reply(first, 1.0), 1.0) == [Start(2)]
    assert pair.waits == []


def test_late_end_is_lost_and_signs_off_at_once() -> None:
    """A process that slept for longer than its lease: the end of a call comes too late."""
    pair = Pair("a")
    a = pair.holders["a"]
    pair.do(a, a.ask(1, {AI: 1}, 0.1), 0.1)
    effects = a.give_back(1, 20.0)
    assert effects[0] == Lose((1,))
    hello = sent(effects)
    assert (hello.life, hello.former, hello.is_new) == ("a.2", ("a.1",), True)


def test_lost_call_whose_work_goes_on_keeps_its_life_from_signing_off() -> None:
    """Its provider may still be busy: others get its units when the coordinator gives it up."""
    pair = Pair("a")
    a = pair.holders["a"]
    pair.do(a, a.ask(1, {AI: 1}, 0.1), 0.1)
    effects = a.tick(20.0)
    assert sent(effects).former == ()
    pair.do(a, effects, 20.0)
    assert "a.1" in pair.coordinator.lives
    pair.do(a, a.give_back(1, 20.1), 20.1)
    assert pair.coordinator.lives.keys() == {"a.2"}
    assert pair.outcomes[-1].is_durable


def test_the_end_of_a_killed_process_outlives_a_crash() -> None:
    """It came back with the restart, and all waited a ttl for what it may hold."""
    pair = Pair("a", "b")
    b = pair.holders["b"]
    pair.do(b, b.ask(1, {AI: 1}, 0.1), 0.1)
    for op, now in ((98, 1.0), (99, 2.0)):
        look = Sync("a.1", op, looks=True)
        outcome = pair.coordinator.hear(look, now, frozenset({"a.1"}))
        assert outcome.is_durable == ("b.1" not in pair.coordinator.lives)
    assert pair.coordinator.lives.keys() == {"a.1"}


def test_woken_process_starts_nothing_until_it_has_heard() -> None:
    """It slept for longer than 2/3 of the grace: its idle units may be another's by now."""
    pair = Pair("a")
    a = pair.holders["a"]
    pair.do(a, a.ask(1, {AI: 1}, 0.1), 0.1)
    pair.do(a, a.give_back(1, 0.2), 0.2)
    effects = a.ask(2, {AI: 1}, 0.5)
    assert [type(each) for each in effects] == [Send]
    assert Start(2) in pair.do(a, effects, 0.5)


def test_failed_statement_is_said_again_with_the_next_connection() -> None:
    """It may have been carried out: what waits no more is not among what it says."""
    pair = Pair("a")
    a = pair.holders["a"]
    first = sent(a.ask(1, {AI: 1}, 0.1))
    a.on_connection_lost(0.1)
    again = sent(a.on_connected(0.1))
    assert again.tickets == first.tickets
    assert again.op > first.op
    a.on_connection_lost(0.1)
    a.withdraw(1, 0.15)
    assert sent(a.on_connected(0.16)).tickets == ()


def test_note_of_an_earlier_life_is_nothing() -> None:
    pair = Pair("a")
    a = pair.holders["a"]
    hello_sent = sent(a.ask(1, {AI: 1}, 0.1))
    outcome = pair.coordinator.hear(hello_sent, 0.1)
    state = outcome.answer.state  # type: ignore[union-attr]
    assert a.on_notification(Note("a.0", state), 0.1) == []
    assert Start(1) in a.on_notification(Note("a.1", state), 0.1)


def test_notification_before_the_greeting_is_answered_is_nothing() -> None:
    pair = Pair("a")
    a = pair.holders["a"]
    message = sent(a.ask(1, {AI: 1}, 0.1))
    state = pair.coordinator.hear(message, 0.1).answer.state  # type: ignore[union-attr]
    a.on_connection_lost(0.1)
    a.on_connected(0.12)
    assert a.on_notification(Note("a.1", state), 0.13) == []


def test_declined_call_keeps_its_place_and_is_passed_over() -> None:
    pair = Pair("a", "b", limits=ClusterLimits(1, buckets={"ai": 1}))
    a, b = pair.holders["a"], pair.holders["b"]
    pair.do(a, a.ask(1, {AI: 1}, 0.1), 0.1)
    pair.do(a, a.decline(1, 0.1), 0.1)
    pair.do(a, a.let_idle_go(0.1), 0.1)
    assert pair.do(b, b.ask(1, {AI: 1}, 0.2), 0.2) == [Start(1)]
    pair.do(b, b.ask(2, {AI: 1}, 0.2), 0.2)
    pair.do(a, a.resume(1, 0.2), 0.2)
    pair.do(b, b.give_back(1, 0.2), 0.2)
    assert 1 in a.running
    assert 2 in b.waiting


def test_lent_units_come_back_first() -> None:
    """A parent lends, its child stands at its place, and its own return goes before all."""
    pair = Pair("a", "b", limits=ClusterLimits(1, buckets={"ai": 1}))
    a, b = pair.holders["a"], pair.holders["b"]
    pair.do(a, a.ask(1, {AI: 1}, 0.1), 0.1)
    pair.do(b, b.ask(1, {AI: 1}, 0.1), 0.1)
    pair.do(a, a.park(1, 0.1), 0.1)
    assert 1 in b.running
    pair.do(b, b.ask(2, {AI: 1}, 0.1), 0.1)
    pair.do(a, a.ask(2, {AI: 1}, 0.1, parent=1), 0.1)
    pair.do(b, b.give_back(1, 0.1), 0.1)
    assert a.running.keys() == {1, 2}
    pair.do(a, a.unpark(1, 0.1), 0.1)
    pair.do(a, a.give_back(2, 0.1), 0.1)
    assert a.running.keys() == {1}
    assert not a.running[1].is_parked


def test_limits_of_a_higher_revision_hold_everywhere() -> None:
    pair = Pair("a", "b")
    a, b = pair.holders["a"], pair.holders["b"]
    pair.do(b, b.ask(1, {AI: 1}, 0.1), 0.1)
    more = ClusterLimits(2, buckets={"ai": 5})
    assert pair.do(a, a.configure(more, 0.2), 0.2) == [Adopt(more)]
    assert b.limits == pair.coordinator.limits == more
    with pytest.raises(ConfigurationError, match="revision 2 with other bucket_limits; give"):
        b.configure(ClusterLimits(2, buckets={"ai": 6}), 0.3)


def test_contradicting_limits_are_refused() -> None:
    """At the beginning the process gets nothing; later it goes on with those of the cluster."""
    pair = Pair("a")
    other = make_holder("b", ClusterLimits(1, buckets={"ai": 9}))
    refused = pair.do(other, other.on_connected(0.1), 0.1)
    assert [type(each) for each in refused] == [Refuse]
    assert other.ask(1, {AI: 1}, 0.2) == []
    a = pair.holders["a"]
    pair.coordinator.hear(Sync("a.1", 99, limits=ClusterLimits(2, buckets={"ai": 3})), 0.2)
    effects = pair.do(a, a.configure(ClusterLimits(2, buckets={"ai": 4}), 0.3), 0.3)
    assert any(isinstance(each, Refuse) and not each.is_final for each in effects)
    assert a.limits.buckets == {"ai": 3}


def test_breaker_that_one_process_opens_is_open_for_all() -> None:
    pair = Pair("a", "b")
    a, b = pair.holders["a"], pair.holders["b"]
    pair.do(a, a.trip("llm", 0.1), 0.1)
    assert b.breakers["llm"].left == 5.0
    assert pair.do(b, b.ask(1, {AI: 1}, 0.2, breaker="llm"), 0.2) == []
    pair.do(a, a.ask(1, {AI: 1}, 5.2, breaker="llm"), 5.2)
    probing = [holder for holder in (a, b) if holder.running]
    assert len(probing) == 1
    ended = pair.do(probing[0], probing[0].give_back(1, 5.3, True), 5.3)
    assert any(isinstance(each, TurnBreaker) and each.view.left is None for each in ended)


def test_last_message_leaves_the_cluster() -> None:
    pair = Pair("a")
    a = pair.holders["a"]
    pair.do(a, a.ask(1, {AI: 1}, 0.1), 0.1)
    pair.do(a, a.close(0.1), 0.1)
    assert pair.coordinator.lives
    pair.do(a, a.give_back(1, 0.2), 0.2)
    assert not pair.coordinator.lives
    assert pair.coordinator.books.used == {}
    assert a.tick(9.0) == []


def test_old_message_of_a_broken_connection_changes_nothing() -> None:
    """It was carried out after the process had come back and said all there is."""
    pair = Pair("a")
    a = pair.holders["a"]
    late = sent(a.ask(1, {AI: 1}, 0.1))
    a.on_connection_lost(0.1)
    a.withdraw(1, 0.1)
    hello = sent(a.on_connected(0.12))
    assert isinstance(hello, Hello)
    pair.coordinator.hear(hello, 0.13)
    pair.coordinator.hear(late, 0.14)
    assert pair.coordinator.lives["a.1"].entries == {}
    assert pair.coordinator.books.used == {}


def test_lowered_limit_drains() -> None:
    """What is idle goes at once, though no one waits; what is in use stays until it ends."""
    pair = Pair("a", "b")
    a, b = pair.holders["a"], pair.holders["b"]
    pair.do(a, a.ask(1, {AI: 2}, 0.1), 0.1)
    pair.do(b, b.configure(ClusterLimits(2, buckets={"ai": 1}), 0.1), 0.1)
    assert a.running
    pair.do(a, a.give_back(1, 0.2), 0.2)
    assert pair.coordinator.books.used == {}


def test_lent_units_come_back_before_those_that_are_more_urgent() -> None:
    limits = ClusterLimits(1, buckets={"ai": 1}, strategy="priority")
    pair = Pair("a", "b", limits=limits)
    a, b = pair.holders["a"], pair.holders["b"]
    pair.do(a, a.ask(1, {AI: 1}, 0.1, priority=9), 0.1)
    pair.do(b, b.ask(1, {AI: 1}, 0.1, priority=9), 0.1)
    pair.do(a, a.park(1, 0.1), 0.1)
    pair.do(b, b.ask(2, {AI: 1}, 0.1, priority=0), 0.1)
    pair.do(a, a.unpark(1, 0.1), 0.1)
    pair.do(b, b.give_back(1, 0.1), 0.1)
    assert a.running.keys() == {1}
    assert 2 in b.waiting


def test_call_of_a_probe_is_part_of_it() -> None:
    """The probe waits for it: it cannot wait for another probe."""
    pair = Pair("a")
    a = pair.holders["a"]
    pair.do(a, a.trip("llm", 0.1), 0.1)
    pair.do(a, a.ask(1, {AI: 1}, 5.2, breaker="llm"), 5.2)
    pair.do(a, a.park(1, 5.2), 5.2)
    pair.do(a, a.ask(2, {AI: 1}, 5.2, breaker="llm", parent=1), 5.2)
    assert 2 in a.running


def test_probe_of_a_dead_process_is_free_again() -> None:
    pair = Pair("a", "b")
    a, b = pair.holders["a"], pair.holders["b"]
    pair.do(a, a.trip("llm", 0.1), 0.1)
    pair.do(a, a.ask(1, {AI: 1}, 5.2, breaker="llm"), 5.2)
    assert pair.coordinator.breakers["llm"].probes == {("a.1", 1)}
    pair.do(b, b.ask(1, {AI: 1}, 5.2, breaker="llm"), 5.2)
    for op, now in ((98, 5.3), (99, 5.7)):
        pair.coordinator.hear(Sync("b.1", op, looks=True), now, frozenset({"b.1"}))
    assert pair.coordinator.breakers["llm"].probes == {("b.1", 1)}


def test_note_that_was_lost_is_said_again() -> None:
    """Who waits looks again and again; each look says again that units are wanted."""
    pair = Pair("a", "b")
    a, b = pair.holders["a"], pair.holders["b"]
    pair.do(a, a.ask(1, {AI: 2}, 0.1), 0.1)
    message = sent(b.ask(1, {AI: 1}, 0.1))
    assert [note.life for note in pair.coordinator.hear(message, 0.1).notes] == ["a.1"]
    look = Sync("b.1", 98, looks=True)
    outcome = pair.coordinator.hear(look, 0.3, frozenset({"a.1", "b.1"}))
    assert [note.life for note in outcome.notes] == ["a.1"]


def test_own_idle_unit_is_not_in_the_way_of_a_heavier_call() -> None:
    """It has one of the two units that its call needs; all come in one grant, so that one goes."""
    pair = Pair("a", "b")
    a, b = pair.holders["a"], pair.holders["b"]
    pair.do(a, a.ask(1, {AI: 1}, 0.1), 0.1)
    pair.do(b, b.ask(1, {AI: 1}, 0.1), 0.1)
    pair.do(a, a.give_back(1, 0.1), 0.1)
    pair.do(a, a.ask(2, {AI: 2}, 0.1), 0.1)
    assert a.idle_of(AI) == 0
    pair.do(b, b.give_back(1, 0.1), 0.1)
    assert a.running.keys() == {2}


def test_restart_grants_nothing_until_each_life_has_said_what_it_holds() -> None:
    """A life that says nothing has the whole ttl: it may not know yet that its session ended."""
    pair = Pair("a", "b")
    a, b = pair.holders["a"], pair.holders["b"]
    pair.coordinator.restart(0.1)
    b.on_connection_lost(0.1)
    pair.do(b, b.on_connected(0.15), 0.15)
    pair.do(b, b.ask(1, {AI: 1}, 0.2), 0.2)
    for op, now in ((98, 0.3), (99, 5.0)):
        pair.coordinator.hear(Sync("b.1", op, looks=True), now, frozenset({"b.1"}))
        assert pair.coordinator.lives.keys() == {"a.1", "b.1"}
        assert pair.coordinator.books.used == {}
    a.on_connection_lost(5.0)
    pair.do(a, a.on_connected(5.0), 5.0)
    assert pair.coordinator.books.used == {AI: 1}


def test_what_is_granted_after_a_restart_comes_after_what_was_granted_before() -> None:
    """The process takes the larger one of two counts: of one that began anew it had less than it
    used, and gave back too little.
    """
    pair = Pair("a", limits=ClusterLimits(1, buckets={"ai": 3}))
    a = pair.holders["a"]
    on_disk = save_state(pair.coordinator)
    pair.do(a, a.ask(1, {AI: 2}, 0.1), 0.1)
    pair.coordinator = load_state(on_disk)  # the newest changes were lost
    pair.coordinator.restart(0.2)
    a.on_connection_lost(0.2)
    pair.do(a, a.on_connected(0.2), 0.2)
    assert pair.coordinator.books.used == {AI: 2}
    assert pair.do(a, a.ask(2, {AI: 1}, 0.3), 0.3) == [Start(2)]
    assert a.accounts[AI].out == pair.coordinator.books.used[AI] == 3
    pair.do(a, a.give_back(1, 0.4), 0.4)
    pair.do(a, a.give_back(2, 0.4), 0.4)
    pair.do(a, a.let_idle_go(0.5), 0.5)
    assert pair.coordinator.books.used.get(AI, 0) == 0


def test_call_that_asks_gets_what_is_idle_elsewhere() -> None:
    pair = Pair("a", "b")
    a, b = pair.holders["a"], pair.holders["b"]
    pair.do(a, a.ask(1, {AI: 2}, 0.1), 0.1)
    pair.do(a, a.give_back(1, 0.2), 0.2)
    assert pair.do(b, b.ask(2, {AI: 1}, 0.3, asks=True), 0.3) == [Start(2)]
    assert pair.waits == []


def test_call_that_asks_hears_that_it_waits_once_each_holder_has_answered() -> None:
    pair = Pair("a", "b")
    a, b = pair.holders["a"], pair.holders["b"]
    pair.do(a, a.ask(1, {AI: 2}, 0.1), 0.1)
    pair.silent.add("a")
    assert pair.do(b, b.ask(2, {AI: 1}, 0.2, asks=True), 0.2) == []
    assert pair.waits == []
    pair.silent.clear()
    pair.do(a, a.on_notification(pair.outcomes[-1].notes[0], 0.2), 0.2)
    assert pair.waits == [("b", 2)]
    # What was answered before may have changed: the next one asks as well.
    pair.silent.add("a")
    pair.do(b, b.ask(3, {AI: 1}, 0.3, asks=True), 0.3)
    assert pair.waits == [("b", 2)]
    pair.do(a, a.on_notification(pair.outcomes[-1].notes[0], 0.3), 0.3)
    assert pair.waits == [("b", 2), ("b", 3)]
    pair.silent.clear()
    pair.do(a, a.give_back(1, 0.4), 0.4)
    assert b.running.keys() == {2, 3}


def test_call_that_asks_while_units_are_on_their_way_back_gets_them() -> None:
    """Another one was refused before, so it is known to the holder that they are wanted."""
    pair = Pair("a", "b")
    a, b = pair.holders["a"], pair.holders["b"]
    pair.do(a, a.ask(1, {AI: 2}, 0.1), 0.1)
    pair.do(b, b.ask(2, {AI: 1}, 0.2, asks=True), 0.2)
    assert pair.waits == [("b", 2)]
    pair.silent.add("a")
    pair.do(b, b.withdraw(2, 0.25), 0.25)
    on_its_way = a.give_back(1, 0.3)
    assert sent(on_its_way).returned == {AI: 2}
    assert pair.do(b, b.ask(3, {AI: 1}, 0.3, asks=True), 0.3) == []
    pair.silent.clear()
    pair.do(a, on_its_way, 0.3)
    assert b.running.keys() == {3}
    assert pair.waits == [("b", 2)]


def test_call_that_asks_does_not_wait_for_a_process_that_never_answers() -> None:
    pair = Pair("a", "b")
    a, b = pair.holders["a"], pair.holders["b"]
    pair.do(a, a.ask(1, {AI: 2}, 0.1), 0.1)
    pair.silent.add("a")
    pair.do(b, b.ask(2, {AI: 1}, 0.2, asks=True), 0.2)
    pair.do(b, b.tick(0.4), 0.4)
    assert pair.waits == []
    pair.do(b, b.tick(0.51), 0.51)
    assert pair.waits == [("b", 2)]
    pair.do(b, b.tick(0.62), 0.62)
    assert pair.waits == [("b", 2)]


def test_a_rate_that_holds_a_call_up_says_for_how_long() -> None:
    """From the end of the period of the start that counts; of one not reported, a period."""
    limits = ClusterLimits(1, rates={"ai": ToolRate(1, 5.0)})
    pair = Pair("a", "b", limits=limits)
    a, b = pair.holders["a"], pair.holders["b"]
    rate = "rate:ai"
    assert pair.do(a, a.ask(1, {rate: 1}, 1.0), 1.0) == [Start(1)]
    pair.do(a, a.tick(2.6), 2.6)
    pair.do(b, b.ask(1, {rate: 1}, 2.6), 2.6)
    entry = b.waiting[1].entry
    assert 0.0 < b.signs.find_delay(entry, 2.6) <= 5.0
    assert b.signs.find_delay(entry, 3.6) == pytest.approx(b.signs.find_delay(entry, 2.6) - 1.0)
    pair.do(b, b.tick(8.0), 8.0)
    assert list(b.running) == [1]
    assert b.signs.rates == {}


def test_who_takes_part_is_on_disk() -> None:
    """A crash that forgot a life would open the gate before it has said what it holds."""
    state = Coordinator(LIMITS)
    holder = make_holder("a")
    assert state.hear(sent(holder.on_connected(0.0)), 0.0).is_durable


def test_a_grant_that_was_never_heard_of_is_not_held() -> None:
    """Its reply was lost with the connection; the next greeting does not name it."""
    pair = Pair("a")
    a, state = pair.holders["a"], pair.coordinator
    state.hear(sent(a.ask(1, {AI: 2}, 0.1)), 0.1)
    assert state.books.used == {AI: 2}
    a.withdraw(1, 0.15)
    a.on_connection_lost(0.15)
    pair.do(a, a.on_connected(0.2), 0.2)
    assert state.books.used == {}


def test_a_pause_lets_those_pass_who_stood_behind_what_it_holds_up() -> None:
    """Nothing held one up any more, and it waited until something else happened."""
    limits = ClusterLimits(1, buckets={"ai": 2, "web": 1}, keys={"caller": 2})
    pair = Pair("a", "b", limits=limits)
    a, b = pair.holders["a"], pair.holders["b"]
    key = "key:caller:ann"
    pair.do(a, a.ask(1, {AI: 1, key: 1}, 0.1), 0.1)
    pair.do(b, b.ask(2, {AI: 2, key: 2}, 0.2), 0.2)
    pair.do(b, b.ask(3, {"bucket:web": 1, key: 1}, 0.3), 0.3)
    assert pair.coordinator.books.used == {AI: 1, key: 1}
    pair.coordinator.hear(Sync("a.1", 99, pauses={AI: 5.0}), 0.4)
    assert pair.coordinator.books.used == {AI: 1, key: 2, "bucket:web": 1}


def test_a_clock_that_is_set_back_twice_ends_no_grace_early() -> None:
    """The session of a process ended after a small step, and before a large one."""
    pair = Pair("a", "b")
    a, state = pair.holders["a"], pair.coordinator
    pair.do(a, a.ask(1, {AI: 1}, 100.0), 100.0)
    for op, now in ((97, 97.0), (98, -3500.0), (99, -3499.75)):
        state.hear(Sync("b.1", op, looks=True), now, frozenset({"b.1"}))
        assert "a.1" in state.lives
    state.hear(Sync("b.1", 100, looks=True), -3499.65, frozenset({"b.1"}))
    assert "a.1" not in state.lives


def test_a_clock_that_is_set_back_makes_no_moment_last_for_hours() -> None:
    """A pause, the starts of a rate, a lease and a breaker last as long as they would have."""
    limits = ClusterLimits(
        1,
        buckets={"ai": 2},
        rates={"ai": ToolRate(1, 5.0)},
        breakers={"llm": BreakerPolicy(1, 5.0)},
    )
    pair = Pair("a", "b", limits=limits)
    a, b = pair.holders["a"], pair.holders["b"]
    state, rate = pair.coordinator, "rate:ai"
    pair.do(a, a.ask(1, {AI: 1, rate: 1}, 100.0), 100.0)
    pair.do(a, a.pause(AI, 2.0, 100.0), 100.0)
    pair.do(b, b.trip("llm", 100.0), 100.0)
    pair.do(a, a.tick(103.0), 103.0)
    before = {name: life.expires for name, life in state.lives.items()}
    hello = Hello("c", "c", 1, True, limits)
    state.hear(hello, 103.0 - 3600.0)
    for name, expires in before.items():
        assert state.lives[name].expires == pytest.approx(expires - 3600.0)
    assert state.breakers["llm"].opens_at == pytest.approx(105.0 - 3600.0)
    assert state.books.find_delay(rate, 103.0 - 3600.0) <= 5.0
    assert max(state.paused.values(), default=0.0) <= 102.0
    # A reading that is too low by less than it may be is no step.
    state.doubt = 50.0
    state.hear(Sync("c", 2, pauses={AI: 1.0}), 103.0 - 3640.0)
    assert state.lives["a.1"].expires == pytest.approx(before["a.1"] - 3600.0)


@pytest.mark.parametrize("busy", [0.1, 0.3, 0.4, 0.5, 0.65])
def test_an_end_that_is_heard_late_counts_from_before_the_sleep(busy: float) -> None:
    """A busy loop hears first what is due, as a timer, and then that its session has ended.

    Times are shares of the grace: others have what it holds after one.
    """
    holder = make_holder("b", LIMITS, grace=3.0)
    pair = Pair("a")
    pair.do(holder, holder.on_connected(0.0), 0.0)
    pair.do(holder, holder.ask(1, {AI: 2}, 0.0), 0.0)
    holder.tick(1.0)
    woken = 1.0 + 3.0 * busy
    holder.tick(woken)
    holder.on_connection_lost(woken + 0.01)
    given_up = 1.0 + 3.0 * 1.03
    assert Lose((1,)) in holder.tick(given_up)
    assert not holder.is_sure(given_up)
