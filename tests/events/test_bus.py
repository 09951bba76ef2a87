"""Subscribing, filtering and publishing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from tool_engine.errors import ConfigurationError, EngineClosedError
from tool_engine.events import EventBus, EventLog
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType

STARTED = ToolEngineEventType.EXECUTION_STARTED
COMPLETED = ToolEngineEventType.EXECUTION_COMPLETED
FAILED = ToolEngineEventType.EXECUTION_FAILED
RELOADED = ToolEngineEventType.RELOAD_COMPLETED


def event(
    kind: ToolEngineEventType = STARTED, tool_name: str | None = "echo", **fields: Any
) -> ToolEngineEvent:
    return ToolEngineEvent(kind, tool_name, **fields)


def failing(error: BaseException) -> Callable[[ToolEngineEvent], None]:
    def callback(event: ToolEngineEvent) -> None:
        raise error

    return callback


def test_plain_function_has_seen_the_event_when_publish_returns() -> None:
    """K47: a plain callback is called inside `publish`, without any event loop."""
    bus = EventBus()
    seen: list[ToolEngineEvent] = []
    bus.subscribe(seen.append)
    published = event()
    bus.publish(published)
    assert seen == [published]


def test_every_event_type_of_the_document_is_published() -> None:
    """K46: the eleven event types, and those of queues, limits, locks, reloads, people, arrive."""
    bus = EventBus()
    seen: list[ToolEngineEvent] = []
    bus.subscribe(seen.append)
    for kind in ToolEngineEventType:
        bus.publish(event(kind))
    assert [each.event_type for each in seen] == list(ToolEngineEventType)
    assert len(seen) == 31


def test_nothing_is_wanted_while_nobody_listens() -> None:
    """The path of a call can tell from plain attributes that no event needs to be built."""
    bus = EventBus()
    assert bus.has_subscribers is False
    assert not bus.listens_to(STARTED)
    unsubscribe = bus.subscribe(print, event_types=COMPLETED)
    assert bus.has_subscribers is True
    assert bus.listens_to(COMPLETED)
    assert not bus.listens_to(STARTED)
    unsubscribe()
    assert bus.has_subscribers is False
    assert not bus.listens_to(COMPLETED)
    bus.publish(event())


@pytest.mark.parametrize(
    "wanted",
    [FAILED, "execution_failed", ["execution_failed"], {FAILED}, iter((FAILED,))],
    ids=["member", "text", "list", "set", "iterator"],
)
def test_event_type_filter(wanted: Any) -> None:
    """K47: `event_types` takes one type or several, as members or as text."""
    bus = EventBus()
    seen: list[ToolEngineEvent] = []
    bus.subscribe(seen.append, event_types=wanted)
    for kind in ToolEngineEventType:
        bus.publish(event(kind))
    assert [each.event_type for each in seen] == [FAILED]


@pytest.mark.parametrize(("wanted", "heard"), [("a", ["a"]), (["a", "b"], ["a", "b"])])
def test_tool_name_filter(wanted: Any, heard: list[str]) -> None:
    """K47: `tool_name` takes one name or several, and leaves out events without a tool."""
    bus = EventBus()
    seen: list[ToolEngineEvent] = []
    bus.subscribe(seen.append, tool_name=wanted)
    for name in ("a", "b", "c", None):
        bus.publish(event(RELOADED, name))
    assert [each.tool_name for each in seen] == heard


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"event_types": "execution_startet"}, "did you mean 'execution_started'"),
        ({"event_types": ["tool_added", "zzz"]}, "unknown event type 'zzz'; known: approval_"),
        ({"event_types": []}, "event_types must name at least one, as text, got none"),
        ({"event_types": [3]}, "event_types must name at least one, as text, got 3"),
        ({"tool_name": ()}, "tool_name must name at least one"),
    ],
)
def test_filter_that_cannot_match_is_refused(filters: dict[str, Any], message: str) -> None:
    """A filter that can never match is a mistake: it is refused, and nothing is subscribed."""
    bus = EventBus()
    with pytest.raises(ConfigurationError, match=message):
        bus.subscribe(print, **filters)
    with pytest.raises(ConfigurationError, match=message):
        bus.events(**filters)
    assert not bus.has_subscribers


def test_what_cannot_be_called_is_refused() -> None:
    """A callback that is no function is refused when it is given, not when an event comes."""
    with pytest.raises(ConfigurationError, match="callback must be a function, got 3"):
        EventBus().subscribe(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("buffer", [0, -1, True, 1.5, "9"])
def test_buffer_must_be_a_count(buffer: Any) -> None:
    """A buffer is a whole number of 1 or more."""
    with pytest.raises(ConfigurationError, match="buffer must be a whole number >= 1"):
        EventBus(buffer=buffer)
    with pytest.raises(ConfigurationError, match="buffer must be a whole number >= 1"):
        EventBus().events(buffer=buffer)
    with pytest.raises(ConfigurationError, match="close_timeout"):
        EventBus(close_timeout=0)


def test_unsubscribing_twice_ends_only_the_own_subscription() -> None:
    """`unsubscribe` may be called any number of times, and ends one subscription of several."""
    bus = EventBus()
    seen: list[ToolEngineEvent] = []
    first = bus.subscribe(seen.append)
    bus.subscribe(seen.append)
    first()
    first()
    bus.publish(event())
    assert len(seen) == 1


def test_failing_callback_stops_nobody() -> None:
    """U14: a callback that raises is kept as a dead letter, and the others are called."""
    bus = EventBus()
    seen: list[ToolEngineEvent] = []
    broken = failing(ValueError("no disk"))
    bus.subscribe(broken)
    bus.subscribe(seen.append)
    published = event()
    with capture_logs() as logs:
        bus.publish(published)
    assert seen == [published]
    failure = bus.failures[0]
    assert (failure.event, failure.callback) == (published, broken)
    assert repr(failure.error) == "ValueError('no disk')"
    assert failure.error.__traceback__ is None
    assert bus.failed == 1
    assert logs[0]["event"] == "subscriber_failed"
    assert "no disk" in logs[0]["error"]
    assert logs[0]["event_type"] == "execution_started"


def test_a_plain_callback_cannot_cancel_the_call() -> None:
    """U14: a CancelledError out of a plain callback is its failure, not a cancellation."""
    bus = EventBus()
    bus.subscribe(failing(asyncio.CancelledError()))
    bus.publish(event())
    assert bus.failed == 1


def test_a_plain_callback_cannot_end_the_process() -> None:
    """U14: `sys.exit()` in a callback is its failure; the call and other subscribers go on."""
    bus = EventBus()
    seen: list[ToolEngineEvent] = []
    bus.subscribe(failing(SystemExit(3)))
    bus.subscribe(seen.append)
    bus.publish(event())
    assert bus.failed == len(seen) == 1


def test_interrupt_passes() -> None:
    """Ctrl-C inside a callback ends the program as it does elsewhere."""
    bus = EventBus()
    bus.subscribe(failing(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        bus.publish(event())


def test_failures_are_bounded_counted_and_logged_now_and_then() -> None:
    """A callback that always fails fills neither memory nor the log."""
    bus = EventBus()
    bus.subscribe(failing(ValueError("again")))
    with capture_logs() as logs:
        for _ in range(250):
            bus.publish(event())
    assert bus.failed == 250
    assert len(bus.failures) == 100
    assert [line["failures"] for line in logs] == [1, 101, 201]


def test_failure_log_hides_secrets() -> None:
    """No secret in a log: the text of a callback's error is redacted."""
    bus = EventBus()
    bus.subscribe(failing(ValueError("key sk-abcdefghijklmnopqrstuvwx refused")))
    with capture_logs() as logs:
        bus.publish(event())
    assert "sk-abc" not in str(logs)
    assert "[hidden]" in logs[0]["error"]


def test_subscribing_and_unsubscribing_inside_a_callback() -> None:
    """A callback may end or add subscriptions: the ended hear nothing, the new from the next on."""
    bus = EventBus()
    late: list[ToolEngineEvent] = []
    gone: list[ToolEngineEvent] = []

    def first(published: ToolEngineEvent) -> None:
        end_gone()
        if bus.listens_to(COMPLETED) and not late:
            bus.subscribe(late.append)

    bus.subscribe(first)
    end_gone = bus.subscribe(gone.append)
    bus.publish(event(call_id="one"))
    assert (gone, late) == ([], [])
    bus.publish(event(call_id="two"))
    assert gone == []
    assert [each.call_id for each in late] == ["two"]


def test_callback_may_publish() -> None:
    """A callback may cause another event; both are delivered."""
    bus = EventBus()
    seen: list[ToolEngineEventType] = []

    def chain(published: ToolEngineEvent) -> None:
        seen.append(published.event_type)
        if published.event_type is STARTED:
            bus.publish(event(COMPLETED))

    bus.subscribe(chain)
    bus.publish(event(STARTED))
    assert seen == [STARTED, COMPLETED]


def test_subscribing_from_many_threads_loses_nobody() -> None:
    """Subscriptions made at the same time by several threads are all there."""
    bus = EventBus()
    seen: list[ToolEngineEvent] = []

    def subscribe_many() -> None:
        for _ in range(50):
            bus.subscribe(seen.append)

    threads = [threading.Thread(target=subscribe_many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    bus.publish(event())
    assert len(seen) == 200


async def test_closed_bus_is_silent_and_refuses_subscribers() -> None:
    """After `close` nobody is told anything, and a new subscriber learns that at once."""
    bus = EventBus()
    seen: list[ToolEngineEvent] = []
    unsubscribe = bus.subscribe(seen.append)
    await bus.close()
    await bus.close()
    bus.publish(event())
    unsubscribe()
    assert seen == []
    assert not bus.has_subscribers
    with pytest.raises(EngineClosedError, match="event bus was closed"):
        bus.subscribe(print)
    with pytest.raises(EngineClosedError, match="event bus was closed"):
        bus.events()


async def test_repr_shows_the_live_state() -> None:
    """`repr` tells how many listen, failed and were too slow."""
    bus = EventBus()
    bus.subscribe(failing(ValueError()))
    bus.publish(event())
    assert repr(bus) == "<EventBus open, 1 subscribers, 1 failed, 0 dropped>"
    await bus.close()
    assert repr(bus) == "<EventBus closed, 0 subscribers, 1 failed, 0 dropped>"


def test_numbers_rise_one_by_one() -> None:
    """Each event that is published gets the next number, also one that is published again."""
    bus = EventBus()
    seen: list[ToolEngineEvent] = []
    bus.subscribe(seen.append)
    first = event()
    for each in (first, first, event(COMPLETED)):
        bus.publish(each)
    assert [each.sequence for each in seen] == [1, 2, 3]


def test_what_nobody_wants_has_no_number() -> None:
    """Without a listener for its type an event is not counted: whoever listens sees no gap."""
    bus = EventBus()
    bus.publish(event())
    assert bus.log.sequence == 0
    seen: list[ToolEngineEvent] = []
    bus.subscribe(seen.append, FAILED)
    bus.publish(event(COMPLETED))
    bus.publish(event(FAILED))
    assert [each.sequence for each in seen] == [1]


def test_an_event_names_the_generation() -> None:
    """An event that does not say which tools it means is about those of the moment."""
    bus = EventBus(log=EventLog(generation=lambda: 7))
    seen: list[ToolEngineEvent] = []
    bus.subscribe(seen.append)
    bus.publish(event())
    bus.publish(event(generation=3))
    assert [each.generation for each in seen] == [7, 3]


@pytest.mark.parametrize(
    ("filters", "heard"),
    [
        ({"call_id": "a"}, [0]),
        ({"call_id": ["a", "b"]}, [0, 1]),
        ({"conversation_id": "talk"}, [1]),
        ({"call_id": "a", "conversation_id": "talk"}, []),
    ],
)
def test_call_and_conversation_filters(filters: dict[str, Any], heard: list[int]) -> None:
    """K47: a subscriber may follow one call or one conversation; events of none are left out."""
    bus = EventBus()
    events = [
        event(call_id="a", data={"conversation_id": None}),
        event(call_id="b", data={"conversation_id": "talk"}),
        event(RELOADED, None),
    ]
    seen: list[ToolEngineEvent] = []
    bus.subscribe(seen.append, **filters)
    for each in events:
        bus.publish(each)
    assert [events.index(each) for each in seen] == heard


@pytest.mark.parametrize("field", ["tool_name", "call_id", "conversation_id", "event_types"])
def test_filter_of_another_type_is_refused(field: str) -> None:
    """A number is no name, and not a reason for a TypeError."""
    with pytest.raises(ConfigurationError, match=f"{field} must name at least one, as text, got 3"):
        EventBus().subscribe(print, **{field: 3})  # type: ignore[arg-type]


def test_a_subscription_tells_its_state() -> None:
    """What `subscribe` returns ends it, and says what it missed."""
    bus = EventBus()
    subscription = bus.subscribe(print, FAILED)
    assert repr(subscription) == "<Subscription active, 0 dropped>"
    subscription()
    assert not subscription.is_active


def test_trouble_with_records_is_an_event() -> None:
    """Records that had to go are told under the name of their log line; not all lines are."""
    bus = EventBus()
    seen: list[ToolEngineEvent] = []
    bus.subscribe(seen.append)
    bus.tell_trouble("records_dropped", {"dropped": 3})
    bus.tell_trouble("records_pruned", {"removed": 3})
    assert [(each.event_type.value, each.data) for each in seen] == [
        ("records_dropped", {"dropped": 3})
    ]
