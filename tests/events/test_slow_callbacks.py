"""A plain function that holds up calls is moved off their way, and nothing else changes for it."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from structlog.testing import capture_logs

from tool_engine.events import EventBus
from tool_engine.events import subscriber as subscribers
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType

STARTED, COMPLETED = ToolEngineEventType.EXECUTION_STARTED, ToolEngineEventType.EXECUTION_COMPLETED
SLOW = 0.025


class Listener:
    """Notes what it hears, and in which thread; slow with the events that it is told."""

    def __init__(self, *slow_with: int) -> None:
        self.slow_with = set(slow_with)
        self.heard: list[int] = []
        self.at_once: list[int] = []
        self.home = threading.get_ident()
        self.fails = False

    def __call__(self, event: ToolEngineEvent) -> None:
        number = event.sequence or 0
        self.heard.append(number)
        if threading.get_ident() == self.home:
            self.at_once.append(number)
        end = time.monotonic() + (SLOW if number in self.slow_with else 0.0)
        while time.monotonic() < end:
            pass  # works, as somebody would who does not sleep
        if self.fails:
            raise ValueError(number)


def publish(bus: EventBus, *kinds: ToolEngineEventType, **fields: Any) -> None:
    for kind in kinds:
        bus.publish(ToolEngineEvent(kind, "tool", call_id="c", **fields))


async def test_two_slow_ones_are_enough() -> None:
    """After the second slow event it is called in a thread: in order, each once, and told."""
    bus, listener, other = EventBus(), Listener(*range(1, 100)), Listener()
    bus.subscribe(listener)
    bus.subscribe(other)
    with capture_logs() as logs:
        publish(bus, STARTED, COMPLETED, STARTED, COMPLETED, STARTED)
        assert listener.heard == [1, 2]
        await bus.flush()
    assert listener.heard == other.heard == other.at_once == [1, 2, 3, 4, 5]
    assert listener.at_once == [1, 2]
    assert bus.slow == 1
    (line,) = logs
    assert (line["event"], line["subscriber"]) == ("subscriber_slow", "Listener")
    assert line["seconds"] >= subscribers._SLOW
    await bus.close()


async def test_slow_with_one_kind_of_event() -> None:
    """What comes in between does not hide that it is slow with each end of a call."""
    bus, listener = EventBus(), Listener(2, 4)
    bus.subscribe(listener)
    publish(bus, STARTED, COMPLETED, STARTED, COMPLETED, STARTED)
    await bus.flush()
    assert listener.heard == [1, 2, 3, 4, 5]
    assert listener.at_once == [1, 2, 3, 4]
    await bus.close()


async def test_a_pause_of_the_machine() -> None:
    """Slow now and then, and quick with the next event of the kind: it stays where it is."""
    bus, listener = EventBus(), Listener(1, 4, 7)
    bus.subscribe(listener)
    publish(bus, *[STARTED] * 9)
    assert listener.at_once == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert bus.slow == 0
    await bus.close()


async def test_much_too_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once is enough for what no pause explains."""
    monkeypatch.setattr(subscribers, "_MUCH_TOO_SLOW", SLOW)
    bus, listener = EventBus(), Listener(1)
    bus.subscribe(listener)
    publish(bus, STARTED, COMPLETED)
    await bus.flush()
    assert (listener.heard, listener.at_once) == ([1, 2], [1])
    await bus.close()


async def test_it_is_bounded_and_filtered_like_an_async_one() -> None:
    """Its buffer, its policy, its filters and its failures are those that it subscribed with."""
    bus, listener = EventBus(), Listener(*range(1, 100))
    listener.fails = True
    subscription = bus.subscribe(listener, [STARTED], "tool", buffer=2)
    publish(bus, *[STARTED] * 2, COMPLETED, *[STARTED] * 6)
    bus.publish(ToolEngineEvent(STARTED, "another"))
    await bus.flush()
    # Of the six that came after it was moved, the two newest had room.
    assert listener.heard == [1, 2, 7, 8]
    assert subscription.dropped == bus.dropped == 4
    assert [type(each.error) for each in bus.failures] == [ValueError] * 4
    subscription()
    publish(bus, STARTED)
    await bus.flush()
    assert listener.heard == [1, 2, 7, 8]
    await bus.close()


async def test_cut_off_where_nothing_may_be_left_out() -> None:
    """`block_none` ends the subscription, and says so."""
    bus, listener = EventBus(), Listener(*range(1, 100))
    subscription = bus.subscribe(listener, buffer=2, policy="block_none")
    publish(bus, *[STARTED] * 8)
    await bus.flush()
    assert listener.heard == [1, 2, 3, 4]
    assert not subscription.is_active
    assert "larger buffer" in str(bus.failures[-1].error)
    await bus.close()


def test_without_a_loop() -> None:
    """Where no loop runs there is no call to hold up, and nothing that could go on later."""
    bus, listener = EventBus(), Listener(*range(1, 100))
    bus.subscribe(listener)
    publish(bus, *[STARTED] * 4)
    assert listener.at_once == [1, 2, 3, 4]
    assert bus.slow == 0
