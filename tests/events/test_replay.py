"""Reading what was published before, and going over to what happens, without a seam."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_engine.errors import ConfigurationError, EventsExpiredError, EventsLostError
from tool_engine.events import EventBus, EventLog, EventStream, MemoryEventStorage
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType

BOUND = 10.0
STARTED = ToolEngineEventType.EXECUTION_STARTED
FAILED = ToolEngineEventType.EXECUTION_FAILED


def keeping(count: int = 100_000) -> EventBus:
    return EventBus(log=EventLog(MemoryEventStorage(count)))


def publish(bus: EventBus, count: int = 1, **fields: Any) -> None:
    for _ in range(count):
        bus.publish(ToolEngineEvent(fields.pop("kind", STARTED), "echo", **fields))


async def read(stream: EventStream, count: int) -> list[int | None]:
    async with asyncio.timeout(BOUND):
        return [(await anext(stream)).sequence for _ in range(count)]


async def rest(stream: EventStream) -> list[int | None]:
    async with asyncio.timeout(BOUND):
        return [each.sequence async for each in stream]


async def test_what_was_kept_comes_first_and_then_what_happens() -> None:
    """`after` begins behind that number; no event is missing and none comes twice."""
    bus = keeping()
    publish(bus, 5)
    stream = bus.events(after=2)
    publish(bus, 3)
    assert await read(stream, 6) == [3, 4, 5, 6, 7, 8]
    waiting = asyncio.create_task(read(stream, 2))
    await asyncio.sleep(0)
    publish(bus, 2)
    assert await waiting == [9, 10]
    await bus.close()
    assert await rest(stream) == []
    assert stream.dropped == 0


async def test_a_slow_reader_misses_nothing() -> None:
    """A stream whose buffer was too small reads from what is kept what it could not hold."""
    bus = keeping()
    stream = bus.events(after=0, buffer=2)
    seen = []
    for number in range(50):
        publish(bus, 3 + number % 7)
        seen += await read(stream, number % 4)
    await bus.close()
    seen += await rest(stream)
    assert seen == list(range(1, (bus.log.sequence or 0) + 1))
    assert stream.dropped == 0


async def test_filters_apply_to_both() -> None:
    """Filters are the same before and after the seam, and cost no event."""
    bus = keeping()
    stream = bus.events("execution_failed", after=0, buffer=3)
    for number in range(40):
        publish(bus, kind=FAILED if number % 4 == 0 else STARTED)
        if number == 20:
            assert await read(stream, 2) == [1, 5]
    await bus.close()
    assert await rest(stream) == [9, 13, 17, 21, 25, 29, 33, 37]


@given(st.lists(st.sampled_from("prPR"), max_size=40), st.integers(1, 4), st.integers(0, 10))
def test_any_pace_of_both_sides(steps: list[str], buffer: int, before: int) -> None:
    """However publishing and reading alternate, the reader gets each event once, in order."""

    async def run() -> None:
        bus = keeping()
        publish(bus, before)
        stream = bus.events(after=before // 2, buffer=buffer)
        seen: list[int | None] = []
        for step in steps:
            if step in "pP":
                publish(bus, 1 if step == "p" else 5)
            else:
                left = (bus.log.sequence or 0) - before // 2 - len(seen)
                seen += await read(stream, min(left, 1 if step == "r" else 4))
        await bus.close()
        seen += await rest(stream)
        assert seen == list(range(before // 2 + 1, (bus.log.sequence or 0) + 1))

    asyncio.run(run())


class _Yielding(MemoryEventStorage):
    """Lets others run at the moments that matter."""

    def append(self, event: ToolEngineEvent) -> None:
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0)
        super().append(event)

    async def read(self, after: int, limit: int) -> list[ToolEngineEvent]:
        await asyncio.sleep(0)
        return await super().read(after, limit)


async def test_threads_publish_while_it_is_read() -> None:
    """The seam holds, and numbers rise one by one, also when threads publish all the while."""
    bus = EventBus(log=EventLog(_Yielding()))
    stream = bus.events(after=0, buffer=10)
    plain = bus.events(buffer=10_000)
    threads = [threading.Thread(target=publish, args=(bus, 100)) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert await read(stream, 400) == list(range(1, 401))
    assert await read(plain, 400) == list(range(1, 401))
    for thread in threads:
        await asyncio.to_thread(thread.join)
    await bus.close()


async def test_what_is_published_while_the_storage_answers_comes_once() -> None:
    """An event that is both in the answer and in the buffer is given to the reader once."""
    bus = EventBus(log=EventLog(_Yielding()))
    publish(bus, 3)
    stream = bus.events(after=0)
    reader = asyncio.create_task(read(stream, 6))
    await asyncio.sleep(0)
    publish(bus, 2)
    await asyncio.sleep(0)
    publish(bus)
    assert await reader == [1, 2, 3, 4, 5, 6]
    await bus.close()
    assert await rest(stream) == []


async def test_several_readers_share_a_replay() -> None:
    """Each event goes to one of the tasks that read."""
    bus = keeping()
    publish(bus, 3)
    stream = bus.events(after=0)
    readers = [asyncio.create_task(read(stream, 2)) for _ in range(3)]
    await asyncio.sleep(0)
    publish(bus, 3)
    found = [number for reader in readers for number in await reader]
    assert sorted(number or 0 for number in found) == [1, 2, 3, 4, 5, 6]
    await bus.close()


async def test_cancelled_reader_of_a_replay_loses_nothing() -> None:
    """A reader that is cancelled while it waits takes no event with it."""
    bus = keeping()
    stream = bus.events(after=0)
    reader = asyncio.create_task(read(stream, 1))
    for _ in range(5):
        await asyncio.sleep(0)
    publish(bus)
    reader.cancel()
    await asyncio.wait([reader])
    assert await read(stream, 1) == [1]
    await bus.close()


async def test_events_that_are_gone() -> None:
    """A reader that asks for what is not kept any more learns from where on it can read."""
    bus = keeping(3)
    publish(bus, 10)
    stream = bus.events(after=5)
    for _ in range(2):
        with pytest.raises(EventsExpiredError, match="the oldest is 8") as caught:
            await anext(stream)
    assert await read(bus.events(after=caught.value.oldest - 1), 3) == [8, 9, 10]
    slow = bus.events(after=10, buffer=1)
    publish(bus)
    assert await read(slow, 1) == [11]
    publish(bus, 9)
    assert await read(slow, 1) == [12]
    with pytest.raises(EventsExpiredError, match="follow number 12"):
        await anext(slow)


async def test_a_number_of_another_life() -> None:
    """A number that was never given out is an error, not a silence that lasts forever."""
    bus = keeping()
    publish(bus)
    with pytest.raises(ConfigurationError, match="there is no event 7: the newest is 1"):
        await anext(bus.events(after=7))


@pytest.mark.parametrize("after", [-1, 1.5, True, "3"])
def test_a_number_that_cannot_be(after: Any) -> None:
    """`after` is a whole number of 0 or more."""
    with pytest.raises(ConfigurationError, match="after"):
        keeping().events(after=after)


def test_nothing_to_go_back_to() -> None:
    """Without a storage `after` is refused at once, with the cure."""
    with pytest.raises(ConfigurationError, match="set keep_events"):
        EventBus().events(after=0)


async def test_block_none_without_a_storage_ends_with_an_error() -> None:
    """What was buffered is read; then the reader learns that it missed something."""
    bus = EventBus()
    stream = bus.events(buffer=2, policy="block_none")
    publish(bus, 5)
    assert await read(stream, 2) == [1, 2]
    with pytest.raises(EventsLostError, match="more than 2 events waited"):
        await anext(stream)
    assert await rest(stream) == []
    assert (stream.dropped, bus.dropped, bus.has_subscribers) == (3, 3, False)


async def test_block_none_with_a_storage_misses_nothing() -> None:
    """With a storage the same stream reads there what its buffer could not hold."""
    bus = keeping()
    publish(bus, 2)
    stream = bus.events(buffer=2, policy="block_none")
    publish(bus, 5)
    assert await read(stream, 5) == [3, 4, 5, 6, 7]
    assert bus.dropped == 0


async def test_drop_newest_keeps_the_beginning() -> None:
    """`drop_newest` keeps what came first; the jump in the numbers and `dropped` tell."""
    bus = EventBus()
    stream = bus.events(buffer=2, policy="drop_newest")
    publish(bus, 4)
    assert await read(stream, 2) == [1, 2]
    publish(bus)
    assert await read(stream, 1) == [5]
    assert (stream.dropped, bus.dropped) == (2, 2)


async def test_leaving_a_replay_early() -> None:
    """A replay that is left keeps nothing and hears nothing."""
    bus = keeping()
    publish(bus, 5)
    async with bus.events(after=0) as stream:
        assert await read(stream, 1) == [1]
    assert await rest(stream) == []
    assert bus.subscribers == 0


class _Broken:
    newest = 0

    def append(self, event: ToolEngineEvent) -> None:
        raise OSError("no space, password=hunter2-is-long")

    async def read(self, after: int, limit: int) -> Sequence[ToolEngineEvent]:
        return []


async def test_a_storage_that_breaks_its_contract_costs_no_event() -> None:
    """What a storage refuses is counted and logged; subscribers hear of it, and streams go on."""
    bus = EventBus(log=EventLog(_Broken()))
    seen: list[int | None] = []
    bus.subscribe(lambda event: seen.append(event.sequence))
    stream = bus.events(after=0)
    publish(bus, 3)
    assert seen == [1, 2, 3]
    assert bus.log.unkept == 3
    reader = asyncio.create_task(read(stream, 1))
    for _ in range(5):
        await asyncio.sleep(0)
    publish(bus)
    assert await reader == [4]
    await bus.close()


def test_the_ring_shows_what_it_holds() -> None:
    """`repr` and `len` tell how much is kept."""
    storage = MemoryEventStorage(2)
    bus = EventBus(log=EventLog(storage))
    publish(bus, 3)
    assert len(storage) == 2
    assert storage.oldest == 2
    assert repr(storage) == "<MemoryEventStorage 2 of 2, newest 3>"
