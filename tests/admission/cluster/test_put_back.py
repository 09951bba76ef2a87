"""What if an operator puts an older state back, while processes go on?"""

from __future__ import annotations

import pytest

from tests.admission.cluster.test_holder import AI, Pair, make_holder
from tool_engine.admission.cluster.coordinator import Coordinator
from tool_engine.admission.cluster.effects import Lose, Start
from tool_engine.admission.cluster.saved_state import load_state, save_state

TTL = 10.0


def put_back(pair: Pair, saved: bytes) -> Coordinator:
    pair.coordinator = load_state(saved)
    return pair.coordinator


@pytest.mark.parametrize("first", ["a", "b", "c"])
def test_all_say_anew_what_they_hold(first: str) -> None:
    """Whoever speaks first: what runs is known again, who waited waits at the same place."""
    pair = Pair("a", "b", "c")
    a, b, c = pair.holders.values()
    saved = save_state(pair.coordinator)
    assert pair.do(a, a.ask(1, {AI: 2}, 0.1), 0.1) == [Start(1)]
    for number, each in enumerate((c, b), 1):
        assert pair.do(each, each.ask(number, {AI: 2}, 0.1 + number), 0.1 + number) == []
    places = [each.waiting[number].place for number, each in enumerate((c, b), 1)]

    state = put_back(pair, saved)
    speaker = pair.holders[first]
    assert not pair.do(speaker, speaker.tick(3.0), 3.0)
    assert {life.process: life.epoch for life in state.lives.values() if life.process} == {
        "a": 1,
        "b": 1,
        "c": 1,
    }
    assert state.books.used == {AI: 2}
    assert [each.waiting[number].place for number, each in enumerate((c, b), 1)] == places
    pair.do(a, a.give_back(1, 4.0), 4.0)
    assert state.is_gated(4.0)  # some life may have come after what was put back
    assert pair.do(b, b.tick(3.0 + TTL), 3.0 + TTL) == []
    assert not b.running
    assert list(c.running) == [1]


def test_one_that_writes_a_lot_before_others_speak() -> None:
    """The state is as new as the others know it by then, and has forgotten all the same."""
    pair = Pair("a", "b")
    a, b = pair.holders.values()
    saved = save_state(pair.coordinator)
    b._seen = (-1, 0)  # b has heard nothing of what came after it
    pair.do(a, a.ask(1, {AI: 2}, 0.1), 0.1)
    state = put_back(pair, saved)
    state.heard += 100
    assert not pair.do(a, a.tick(3.0), 3.0)
    assert state.books.used == {AI: 2}
    assert state.epoch == 1


def test_a_state_of_an_earlier_epoch() -> None:
    """What is said from then on is newer than all that was said before."""
    pair = Pair("a")
    a = pair.holders["a"]
    saved = save_state(pair.coordinator)
    for epoch in range(3):
        pair.coordinator.restart(epoch)
        pair.do(a, a.on_connection_lost(epoch), epoch)
        pair.do(a, a.on_connected(epoch), epoch)
    assert pair.coordinator.epoch == 3
    put_back(pair, saved)
    assert pair.do(a, a.ask(1, {AI: 1}, 2.1), 2.1) == []
    assert pair.coordinator.epoch == 4
    assert pair.do(a, a.tick(2.2 + TTL), 2.2 + TTL) == [Start(1)]


def test_a_process_that_is_not_in_it() -> None:
    """It has lost what it had; others like it may not have heard so, and nothing is granted."""
    pair = Pair("a")
    a = pair.holders["a"]
    saved = save_state(pair.coordinator)
    b = pair.holders["b"] = make_holder("b")
    pair.do(b, b.on_connected(0.0), 0.0)
    pair.do(b, b.ask(1, {AI: 2}, 0.1), 0.1)
    put_back(pair, saved)
    assert pair.do(b, b.tick(3.0), 3.0)[0] == Lose((1,))
    assert pair.do(a, a.ask(1, {AI: 1}, 3.1), 3.1) == []
    assert pair.do(a, a.tick(3.0 + TTL), 3.0 + TTL) == [Start(1)]


def test_a_restart_that_ended_no_session() -> None:
    """An operator empties the table of starts: all are asked to greet, and nothing is lost."""
    pair = Pair("a", "b")
    a, b = pair.holders.values()
    pair.do(a, a.ask(1, {AI: 2}, 0.1), 0.1)
    pair.coordinator.restart(0.2)
    assert pair.do(b, b.ask(1, {AI: 1}, 0.3), 0.3) == []
    assert not pair.coordinator.is_gated(0.3)
    pair.do(a, a.give_back(1, 0.4), 0.4)
    assert list(b.running) == [1]
