"""Async callbacks: in the background, in order, bounded, and never in the way of a call."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import gc
import threading
from typing import Any

import pytest

from tool_engine.errors import EventsLostError
from tool_engine.events import EventBus
from tool_engine.events.subscriber import Subscriber, is_being_cancelled
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType

BOUND = 20.0


def event(name: str = "echo") -> ToolEngineEvent:
    return ToolEngineEvent(ToolEngineEventType.EXECUTION_STARTED, name)


class Listener:
    """An async callback that can be held up, and remembers what it saw."""

    def __init__(self) -> None:
        self.seen: list[str | None] = []
        self.entered = asyncio.Event()
        self.go = asyncio.Event()

    async def slow(self, event: ToolEngineEvent) -> None:
        self.entered.set()
        await self.go.wait()
        self.seen.append(event.tool_name)

    async def quick(self, event: ToolEngineEvent) -> None:
        await asyncio.sleep(0)
        self.seen.append(event.tool_name)

    async def __call__(self, event: ToolEngineEvent) -> None:
        await self.quick(event)

    def returns_awaitable(self, event: ToolEngineEvent) -> Any:
        return self.quick(event)


@pytest.fixture
async def listener() -> Listener:
    return Listener()


@pytest.mark.parametrize("form", ["method", "object", "partial", "returned"])
async def test_async_callback_sees_all_in_order(listener: Listener, form: str) -> None:
    """K47: whatever form an async callback has, it is awaited for each event, in order."""
    callback: Any = {
        "method": listener.quick,
        "object": listener,
        "partial": functools.partial(listener.quick),
        "returned": listener.returns_awaitable,
    }[form]
    bus = EventBus()
    bus.subscribe(callback)
    for number in range(100):
        bus.publish(event(str(number)))
    assert listener.seen == []
    await asyncio.wait_for(bus.flush(), BOUND)
    assert listener.seen == [str(number) for number in range(100)]
    await bus.close()


async def test_slow_callback_delays_nobody(listener: Listener) -> None:
    """A callback that hangs holds up neither publish nor another subscriber."""
    bus = EventBus()
    other = Listener()
    bus.subscribe(listener.slow)
    bus.subscribe(other.quick)
    bus.publish(event("a"))
    await asyncio.wait_for(listener.entered.wait(), BOUND)
    bus.publish(event("b"))
    for _ in range(20):
        await asyncio.sleep(0)
    assert other.seen == ["a", "b"]
    assert listener.seen == []
    listener.go.set()
    await asyncio.wait_for(bus.flush(), BOUND)
    assert listener.seen == ["a", "b"]


async def test_full_buffer_drops_the_oldest_and_counts(listener: Listener) -> None:
    """A buffer is bounded: the oldest events go, counted, the newest arrive."""
    bus = EventBus(buffer=2)
    unsubscribe = bus.subscribe(listener.slow)
    bus.publish(event("running"))
    await asyncio.wait_for(listener.entered.wait(), BOUND)
    for name in ("a", "b", "c"):
        bus.publish(event(name))
    assert bus.dropped == 1
    listener.go.set()
    await asyncio.wait_for(bus.flush(), BOUND)
    assert listener.seen == ["running", "b", "c"]
    unsubscribe()
    assert bus.dropped == 1


async def test_dropped_coroutine_is_closed(listener: Listener) -> None:
    """A coroutine that a plain function returned and that is dropped leaves no warning."""
    bus = EventBus(buffer=1)
    bus.subscribe(listener.returns_awaitable)
    bus.publish(event("a"))
    bus.publish(event("b"))
    await asyncio.wait_for(bus.flush(), BOUND)
    gc.collect()
    assert listener.seen == ["b"]
    assert bus.dropped == 1


@pytest.mark.parametrize(
    "error", [ValueError("no"), asyncio.CancelledError(), SystemExit(3)], ids=repr
)
async def test_failing_async_callback_goes_on(error: BaseException) -> None:
    """U14: an async callback that raises is kept as a dead letter and gets the next event."""
    bus = EventBus()
    seen: list[str | None] = []

    async def callback(published: ToolEngineEvent) -> None:
        seen.append(published.tool_name)
        raise error

    bus.subscribe(callback)
    bus.publish(event("a"))
    bus.publish(event("b"))
    await asyncio.wait_for(bus.flush(), BOUND)
    assert seen == ["a", "b"]
    assert [failure.error for failure in bus.failures] == [error, error]


async def test_callback_that_never_waits_leaves_room() -> None:
    """Many events for a callback that never suspends do not keep other tasks from running."""
    bus = EventBus()
    seen: list[ToolEngineEvent] = []

    async def callback(published: ToolEngineEvent) -> None:
        seen.append(published)

    bus.subscribe(callback)
    for _ in range(1000):
        bus.publish(event())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert 0 < len(seen) < 1000
    await asyncio.wait_for(bus.flush(), BOUND)
    assert len(seen) == 1000


async def test_unsubscribing_forgets_what_waits(listener: Listener) -> None:
    """After `unsubscribe` the callback is not called again, not even with buffered events."""
    bus = EventBus()
    unsubscribe = bus.subscribe(listener.slow)
    bus.publish(event("a"))
    await asyncio.wait_for(listener.entered.wait(), BOUND)
    bus.publish(event("b"))
    flushing = asyncio.create_task(bus.flush())
    await asyncio.sleep(0)
    unsubscribe()
    listener.go.set()
    await asyncio.wait_for(flushing, BOUND)
    assert listener.seen == ["a"]


async def test_close_delivers_what_is_buffered(listener: Listener) -> None:
    """`close` lets async callbacks take what was published before it."""
    bus = EventBus()
    bus.subscribe(listener.quick)
    bus.publish(event("a"))
    bus.publish(event("b"))
    await asyncio.wait_for(bus.close(), BOUND)
    assert listener.seen == ["a", "b"]


async def test_close_is_bounded(listener: Listener) -> None:
    """`close` cancels a callback that hangs, and counts what it did not take as dropped."""
    bus = EventBus(close_timeout=0.01)
    bus.subscribe(listener.slow)
    bus.publish(event("a"))
    bus.publish(event("b"))
    await asyncio.wait_for(bus.close(), BOUND)
    assert listener.seen == []
    assert bus.dropped == 2


async def test_cancelled_close_still_cancels(listener: Listener) -> None:
    """A `close` that is cancelled leaves no task behind."""
    bus = EventBus()
    bus.subscribe(listener.slow)
    bus.publish(event("a"))
    closing = asyncio.create_task(bus.close())
    await asyncio.wait_for(listener.entered.wait(), BOUND)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing


async def test_callback_may_close_the_bus() -> None:
    """An async callback that closes the bus, or flushes it, does not wait for itself."""
    bus = EventBus()
    done = asyncio.Event()

    async def callback(published: ToolEngineEvent) -> None:
        await bus.flush()
        await bus.close()
        done.set()

    bus.subscribe(callback)
    bus.publish(event())
    await asyncio.wait_for(done.wait(), BOUND)
    assert not bus.has_subscribers


async def test_thread_may_publish(listener: Listener) -> None:
    """An event that a worker thread publishes reaches an async callback on its own loop."""
    bus = EventBus()
    thread_ids: list[int] = []

    async def callback(published: ToolEngineEvent) -> None:
        thread_ids.append(threading.get_ident())
        await listener.quick(published)

    bus.subscribe(callback)
    await asyncio.to_thread(bus.publish, event("a"))
    await asyncio.to_thread(bus.publish, event("b"))
    await asyncio.wait_for(bus.flush(), BOUND)
    assert listener.seen == ["a", "b"]
    assert set(thread_ids) == {threading.get_ident()}


def test_events_before_any_loop_arrive_when_one_runs() -> None:
    """Events that are published before a loop runs are delivered by the first one that does."""
    bus = EventBus()
    seen: list[str | None] = []

    async def callback(published: ToolEngineEvent) -> None:
        seen.append(published.tool_name)

    bus.subscribe(callback)
    bus.publish(event("early"))
    asyncio.run(bus.close())
    assert seen == ["early"]


def test_subscription_outlives_a_loop() -> None:
    """A subscriber of a loop that has ended is served by the next one, also one cut short."""
    bus = EventBus()
    seen: list[str | None] = []

    async def callback(published: ToolEngineEvent) -> None:
        if published.tool_name == "hangs":
            await asyncio.Event().wait()
        seen.append(published.tool_name)

    async def first() -> None:
        bus.subscribe(callback)
        bus.publish(event("hangs"))
        await asyncio.sleep(0)
        bus.publish(event("waits"))

    async def second() -> None:
        bus.publish(event("next"))
        await bus.flush()

    asyncio.run(first())
    bus.publish(event("between"))
    asyncio.run(second())
    assert seen == ["waits", "between", "next"]


def test_subscription_outlives_a_loop_that_was_dropped() -> None:
    """A loop that is closed with a callback still hanging does not silence the subscriber."""
    bus = EventBus()
    seen: list[str | None] = []

    async def callback(published: ToolEngineEvent) -> None:
        if published.tool_name == "hangs":
            await asyncio.Event().wait()
        seen.append(published.tool_name)

    async def publish(name: str) -> None:
        bus.publish(event(name))
        await asyncio.sleep(0)

    bus.subscribe(callback)
    dropped = asyncio.new_event_loop()
    dropped.set_exception_handler(lambda loop, context: None)
    dropped.run_until_complete(publish("hangs"))
    dropped.close()
    asyncio.run(publish("next"))
    gc.collect()
    assert seen == ["next"]


def test_two_loops_at_once() -> None:
    """A bus that is closed from another loop stops the callback that hangs on its own loop."""
    bus = EventBus(close_timeout=0.01)
    entered, closed = threading.Event(), threading.Event()
    cancelled: list[bool] = []

    async def callback(published: ToolEngineEvent) -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(True)

    async def other_loop() -> None:
        bus.subscribe(callback)
        bus.publish(event())
        await asyncio.to_thread(closed.wait, BOUND)

    thread = threading.Thread(target=asyncio.run, args=(other_loop(),))
    thread.start()
    assert entered.wait(BOUND)
    asyncio.run(bus.close())
    closed.set()
    thread.join(BOUND)
    assert cancelled == [True]


async def test_callback_runs_in_the_context_of_its_subscriber(listener: Listener) -> None:
    """Context variables of the call that published do not leak into a subscriber."""
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    seen: list[str] = []
    bus = EventBus()

    async def callback(published: ToolEngineEvent) -> None:
        seen.append(variable.get())

    variable.set("subscriber")
    bus.subscribe(callback)
    variable.set("call")
    bus.publish(event())
    await asyncio.wait_for(bus.flush(), BOUND)
    assert seen == ["subscriber"]


async def test_event_between_two_drains_is_not_lost() -> None:
    """An event that is published just as the background task ends is delivered."""
    bus = EventBus()
    other: list[str | None] = []

    async def callback(published: ToolEngineEvent) -> None:
        other.append(published.tool_name)
        if published.tool_name == "a":
            # Runs between the end of the task and the call that tells of its end.
            asyncio.get_running_loop().call_soon(bus.publish, event("b"))

    bus.subscribe(callback)
    bus.publish(event("a"))
    for _ in range(20):
        await asyncio.sleep(0)
    assert other == ["a", "b"]


async def test_base_subscriber_has_nothing_to_give_up() -> None:
    """What a subscriber without a buffer inherits drops nothing; it has to deliver itself."""
    seen: list[ToolEngineEvent] = []

    class Unbuffered(Subscriber):
        def offer(self, event: ToolEngineEvent) -> None:
            seen.append(event)

    subscriber = Unbuffered()
    assert subscriber.wake() is None
    subscriber.settle()
    subscriber.discard()
    subscriber.cancel()
    assert (subscriber.dropped, subscriber.is_active) == (0, True)
    subscriber.offer(event())
    assert [each.tool_name for each in seen] == ["echo"]
    with pytest.raises(TypeError, match="offer"):
        Subscriber()  # type: ignore[abstract] # so it is


async def test_whose_cancellation_it_is() -> None:
    """A task tells its own cancellation from a CancelledError that it awaited."""
    seen: list[bool] = []

    async def awaits_cancelled() -> None:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        try:
            await future
        except asyncio.CancelledError:
            seen.append(is_being_cancelled())
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(is_being_cancelled())
            raise

    task = asyncio.create_task(awaits_cancelled())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert seen == [False, True]


async def test_drop_newest(listener: Listener) -> None:
    """With `drop_newest` what waits stays, and what comes is counted."""
    bus = EventBus()
    subscription = bus.subscribe(listener.slow, buffer=1, policy="drop_newest")
    bus.publish(event("running"))
    await asyncio.wait_for(listener.entered.wait(), BOUND)
    for name in ("a", "b"):
        bus.publish(event(name))
    assert (subscription.dropped, bus.dropped) == (1, 1)
    listener.go.set()
    await asyncio.wait_for(bus.flush(), BOUND)
    assert listener.seen == ["running", "a"]


async def test_block_none_ends_a_subscription_that_is_too_slow(listener: Listener) -> None:
    """Nothing is left out in silence: what waits is delivered, then it is over, and reported."""
    bus = EventBus()
    subscription = bus.subscribe(listener.slow, buffer=1, policy="block_none")
    bus.publish(event("running"))
    await asyncio.wait_for(listener.entered.wait(), BOUND)
    for name in ("a", "b", "c"):
        bus.publish(event(name))
    assert not subscription.is_active
    assert not bus.has_subscribers
    assert [type(failure.error) for failure in bus.failures] == [EventsLostError]
    assert bus.failures[0].event.tool_name == "b"
    listener.go.set()
    await asyncio.wait_for(bus.flush(), BOUND)
    assert listener.seen == ["running", "a"]
    assert subscription.dropped == 1
    await bus.close()
    assert bus.dropped == 1


async def test_block_none_for_what_a_plain_function_returns(listener: Listener) -> None:
    """A coroutine that is refused is closed, and the subscription ends."""
    bus = EventBus()
    bus.subscribe(listener.returns_awaitable, buffer=1, policy="block_none")
    for name in ("a", "b", "c"):
        bus.publish(event(name))
    await asyncio.wait_for(bus.flush(), BOUND)
    gc.collect()
    assert listener.seen == ["a"]
    assert not bus.has_subscribers
