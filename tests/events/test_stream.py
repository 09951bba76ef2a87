"""Reading events with `async for`."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from tool_engine.events import EventBus
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType

BOUND = 20.0
ADDED = ToolEngineEventType.TOOL_ADDED
REMOVED = ToolEngineEventType.TOOL_REMOVED


def event(name: str = "echo", kind: ToolEngineEventType = ADDED) -> ToolEngineEvent:
    return ToolEngineEvent(kind, name)


async def test_stream_has_events_from_its_creation_on() -> None:
    """Events that were published before anybody read are there, in order, until the bus closes."""
    bus = EventBus()
    bus.publish(event("too early"))
    stream = bus.events()
    for name in ("a", "b", "c"):
        bus.publish(event(name))
    await bus.close()
    assert [each.tool_name async for each in stream] == ["a", "b", "c"]
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_stream_waits_for_events() -> None:
    """A reader waits until an event comes, and ends when the bus is closed."""
    bus = EventBus()
    stream = bus.events()
    read = asyncio.Event()
    seen: list[str | None] = []

    async def reading() -> None:
        async for each in stream:
            seen.append(each.tool_name)
            read.set()

    reader = asyncio.create_task(reading())
    await asyncio.sleep(0)
    bus.publish(event("a"))
    await asyncio.wait_for(read.wait(), BOUND)
    assert seen == ["a"]
    await bus.close()
    await asyncio.wait_for(reader, BOUND)


async def test_stream_filters() -> None:
    """`events` takes the filters of `subscribe`."""
    bus = EventBus()
    stream = bus.events(ADDED, tool_name="a")
    for name in ("a", "b"):
        bus.publish(event(name))
        bus.publish(event(name, REMOVED))
    await bus.close()
    assert [(each.tool_name, each.event_type) async for each in stream] == [("a", ADDED)]


async def test_full_stream_drops_the_oldest_and_counts() -> None:
    """A stream that nobody reads is bounded, and says how much it lost."""
    bus = EventBus()
    stream = bus.events(buffer=2)
    for name in ("a", "b", "c"):
        bus.publish(event(name))
    assert stream.dropped == 1
    assert repr(stream) == "<EventStream open, 2 waiting, 1 dropped>"
    await bus.close()
    assert [each.tool_name async for each in stream] == ["b", "c"]
    assert repr(stream) == "<EventStream ended, 0 waiting, 1 dropped>"


async def test_leaving_the_block_ends_the_subscription() -> None:
    """`async with` ends the stream: nothing is kept for it, and a waiting reader ends."""
    bus = EventBus()
    async with bus.events() as stream:
        bus.publish(event())
        assert (await anext(stream)).tool_name == "echo"
        reader = asyncio.create_task(anext(stream, None))
        await asyncio.sleep(0)
    assert not bus.has_subscribers
    assert await asyncio.wait_for(reader, BOUND) is None


async def test_closing_a_stream_gives_up_what_it_holds() -> None:
    """After `aclose` a stream has no more events, also not buffered ones; closing twice is fine."""
    bus = EventBus()
    stream = bus.events()
    bus.publish(event())
    await stream.aclose()
    await stream.aclose()
    assert [each async for each in stream] == []


async def test_each_event_goes_to_one_of_several_readers() -> None:
    """Two tasks that read one stream share its events."""
    bus = EventBus()
    stream = bus.events()
    readers = [asyncio.create_task(anext(stream)) for _ in range(2)]
    await asyncio.sleep(0)
    bus.publish(event("a"))
    done, _ = await asyncio.wait(readers, timeout=BOUND, return_when=asyncio.FIRST_COMPLETED)
    assert len(done) == 1
    bus.publish(event("b"))
    seen = [await asyncio.wait_for(reader, BOUND) for reader in readers]
    assert sorted(str(each.tool_name) for each in seen) == ["a", "b"]


async def test_cancelled_reader_loses_nothing() -> None:
    """A reader that is cancelled while it waits takes no event with it."""
    bus = EventBus()
    stream = bus.events()
    reader = asyncio.create_task(anext(stream))
    await asyncio.sleep(0)
    bus.publish(event("a"))
    reader.cancel()
    await asyncio.wait([reader])
    assert (await asyncio.wait_for(anext(stream), BOUND)).tool_name == "a"


async def test_thread_wakes_a_reader() -> None:
    """An event that a worker thread publishes wakes the reader on its loop."""
    bus = EventBus()
    stream = bus.events()
    reader = asyncio.create_task(anext(stream))
    await asyncio.sleep(0)
    await asyncio.to_thread(bus.publish, event("a"))
    assert (await asyncio.wait_for(reader, BOUND)).tool_name == "a"
    await bus.close()


async def test_abandoned_stream_leaves_no_subscription() -> None:
    """A stream that nobody holds any more costs nothing after the next event."""
    bus = EventBus()
    bus.events()
    gc.collect()
    assert bus.has_subscribers
    bus.publish(event())
    assert not bus.has_subscribers


async def test_close_after_a_stream_was_abandoned() -> None:
    """Closing the bus does not stumble over a stream that is gone."""
    bus = EventBus()
    bus.events()
    gc.collect()
    await bus.close()
    assert not bus.has_subscribers


async def test_waiting_reader_is_not_collected() -> None:
    """A task that waits for a stream, held by nobody else, still gets its event."""
    bus = EventBus()
    read = asyncio.Event()

    async def reading() -> None:
        async with bus.events() as stream:
            await anext(stream)
            read.set()

    reader = weakref.ref(asyncio.create_task(reading()))
    await asyncio.sleep(0)
    gc.collect()
    assert reader() is not None
    bus.publish(event("a"))
    await asyncio.wait_for(read.wait(), BOUND)


def test_stream_of_a_loop_that_ended() -> None:
    """Publishing to a stream whose reader's loop was closed raises nothing."""
    bus = EventBus()

    async def read() -> object:
        stream = bus.events()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(stream), 0.01)
        return stream

    stream = asyncio.run(read())
    bus.publish(event())
    assert repr(stream) == "<EventStream open, 1 waiting, 0 dropped>"
