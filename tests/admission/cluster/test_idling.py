"""Does a process that has nothing need no word of its own in the state?"""

from __future__ import annotations

from typing import Any

import pytest

from tests.admission.cluster.test_holder import AI, Pair
from tool_engine.admission.cluster.cluster_limits import ClusterLimits
from tool_engine.admission.cluster.effects import Effect, Send
from tool_engine.admission.cluster.lease_messages import Sync
from tool_engine.admission.cluster.saved_state import save_state
from tool_engine.admission.cluster.shared_row import answer_idle
from tool_engine.model.settings.concurrency import ToolRate

BEAT = 2.6
"""Later than a quarter of the ttl."""


def beat(effects: list[Effect]) -> Sync:
    (message,) = [each.message for each in effects if isinstance(each, Send)]
    assert isinstance(message, Sync)
    return message


def sessions_of(pair: Pair, *names: str) -> frozenset[str]:
    return frozenset(pair.holders[name].life for name in names)


def test_it_is_answered_and_nothing_changes() -> None:
    pair = Pair("a", "b")
    a, state = pair.holders["a"], pair.coordinator
    before = save_state(state)
    for now in range(10, 100, 10):
        message = beat(a.tick(now))
        answer = answer_idle(state, message, now, sessions_of(pair, "a", "b"))
        assert answer is not None
        a.on_reply(answer, now)
        assert a.is_sure(now)
    assert save_state(state) == before
    # It has been silent for longer than a ttl, and others look after it: its session is there.
    other = pair.holders["b"]
    outcome = state.hear(beat(other.tick(100.0)), 100.0, sessions_of(pair, "a", "b"))
    assert a.life in state.lives
    other.on_reply(outcome.answer, 100.0)
    looks: Any = beat(other.tick(103.0))
    assert looks.looks
    state.hear(looks, 103.0, sessions_of(pair, "b"))
    assert a.life not in state.lives


@pytest.mark.parametrize("case", ["holds", "waits", "another has ended", "older state"])
def test_its_message_is_heard(case: str) -> None:
    pair = Pair("a", "b")
    a, b = pair.holders.values()
    sessions = sessions_of(pair, "a", "b")
    if case == "holds":
        pair.do(a, a.ask(1, {AI: 1}, 0.1), 0.1)
        pair.do(a, a.pause("bucket:other", 0.01, 0.1), 0.1)  # says that it waits no more
    elif case == "waits":
        pair.do(b, b.ask(1, {AI: 2}, 0.1), 0.1)
        pair.do(a, a.ask(1, {AI: 1}, 0.1), 0.1)
    elif case == "another has ended":
        sessions = sessions_of(pair, "a")
    else:
        pair.coordinator.heard = 0
    pair.do(a, a.tick(0.2), 0.2)
    message = beat(a.tick(BEAT + 0.2))
    assert not message.has_news
    assert answer_idle(pair.coordinator, message, BEAT, sessions) is None


def test_starts_that_are_over_are_forgotten() -> None:
    pair = Pair("a", limits=ClusterLimits(1, rates={"ai": ToolRate(1, 5.0)}))
    a, state = pair.holders["a"], pair.coordinator
    pair.do(a, a.ask(1, {"rate:ai": 1}, 0.1), 0.1)
    pair.do(a, a.give_back(1, 0.2), 0.2)
    pair.do(a, a.tick(BEAT), BEAT)
    assert state.books.used
    message = beat(a.tick(20.0))
    assert answer_idle(state, message, 20.0, None) is None
