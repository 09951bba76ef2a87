"""Who hears of an event, found by what they want."""

from __future__ import annotations

import gc
import random
import weakref
from typing import Any

import pytest

from tool_engine.events import EventBus
from tool_engine.events.audience import Audience, Listeners
from tool_engine.events.stream import StreamSubscriber
from tool_engine.events.subscriber import Subscriber
from tool_engine.events.wanted import WantedEvents
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType

STARTED, COMPLETED = (
    ToolEngineEventType.EXECUTION_STARTED,
    ToolEngineEventType.EXECUTION_COMPLETED,
)


def event(**subject: Any) -> ToolEngineEvent:
    kind, conversation = subject.pop("kind", STARTED), subject.pop("conversation_id", None)
    return ToolEngineEvent(kind, **subject, data={"conversation_id": conversation})


class Silent(Subscriber):
    def offer(self, event: ToolEngineEvent) -> None:
        """Only who would be asked matters here."""


def listening(**filters: Any) -> Subscriber:
    subscriber = Silent()
    subscriber.is_plain = filters.pop("is_plain", True)
    subscriber.wanted = WantedEvents.of(**filters)
    return subscriber


def heard_by(listeners: Listeners) -> set[Subscriber]:
    return {*listeners.plain, *listeners.buffered}


def test_everyone_that_wants_it_is_found() -> None:
    """Whatever the filters are, nobody is left out who wants the event, and nobody comes twice."""
    dice = random.Random(1)  # noqa: S311 - the same in every run
    names = ["a", "b", "c"]

    def some() -> Any:
        return dice.choice([None, dice.choice(names), dice.sample(names, 2)])

    audience, present = Audience(), []
    for _ in range(300):
        subscriber = listening(
            is_plain=dice.random() < 0.5,
            event_types=dice.choice([None, STARTED, [STARTED, COMPLETED]]),
            tool_name=some(),
            call_id=some(),
            conversation_id=some(),
        )
        audience.add(subscriber)
        present.append(subscriber)
        if dice.random() < 0.5:
            gone = present.pop(dice.randrange(len(present)))
            audience.remove(gone)
            audience.remove(gone)
        one = event(
            kind=dice.choice([STARTED, COMPLETED]),
            tool_name=dice.choice([None, *names]),
            call_id=dice.choice([None, *names]),
            conversation_id=dice.choice([None, *names, 7, ["unhashable"]]),
        )
        listeners = audience.of(one)
        found = [*listeners.plain, *listeners.buffered]
        assert len(found) == len(set(found))
        assert {each for each in found if each.wanted.has(one)} == {
            each for each in present if each.wanted.has(one)
        }
        assert all(each.is_plain for each in listeners.plain)
        assert not any(each.is_plain for each in listeners.buffered)
    for subscriber in present:
        audience.remove(subscriber)
    assert len(audience) == 0
    assert audience.of(event()) == Listeners()


@pytest.mark.parametrize("field", ["call_id", "conversation_id", "tool_name"])
def test_others_are_not_even_asked(field: str) -> None:
    """A thousand listeners, each of something of its own, cost an event no more than one."""
    audience = Audience()
    all_of_them = [listening(**{field: str(number)}) for number in range(1_000)]
    for subscriber in all_of_them:
        audience.add(subscriber)
    assert heard_by(audience.of(event(**{field: "7"}))) == {all_of_them[7]}
    assert heard_by(audience.of(event(**{field: "nobody"}))) == set()
    everyone = listening()
    audience.add(everyone)
    assert heard_by(audience.of(event(**{field: "8"}))) == {all_of_them[8], everyone}


def test_whether_a_type_is_wanted() -> None:
    """Nothing is built for an event that nobody listens to, once the last one has gone."""
    audience = Audience()
    first, second = listening(event_types=STARTED), listening(event_types=STARTED, call_id="x")
    for subscriber in (first, second):
        audience.add(subscriber)
    assert STARTED in audience.kinds
    assert COMPLETED not in audience.kinds
    audience.remove(first)
    assert STARTED in audience.kinds
    audience.remove(second)
    assert STARTED not in audience.kinds


@pytest.mark.parametrize("is_published", [True, False])
async def test_a_stream_of_one_conversation_that_was_abandoned(*, is_published: bool) -> None:
    """It leaves nothing behind, although no event of its conversation ever comes again."""
    bus = EventBus()
    held = [bus.events(conversation_id=str(number)) for number in range(10)]
    assert bus.subscribers == 10
    del held
    gc.collect()
    if is_published:
        bus.publish(event(conversation_id="another"))
        assert (bus.subscribers, bus.has_subscribers) == (0, False)
    else:
        bus.subscribe(print)
        assert bus.subscribers == 1


async def test_a_stream_that_has_ended_leaves_no_cycle() -> None:
    """What is left of it goes at once, without a look of the garbage collector."""

    def streams() -> list[object]:
        found = gc.get_objects()
        return [each for each in found if type(each) is StreamSubscriber]

    bus = EventBus()
    gc.disable()
    try:
        before = streams()
        async with bus.events():
            during = [weakref.ref(each) for each in streams() if each not in before]
        assert [each() for each in during] == [None]
    finally:
        gc.enable()
