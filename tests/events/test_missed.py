"""What does a reader hear that goes from one engine of a database to another?"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

import pytest

from tests.effort import share_of
from tool_engine.errors import RecordsUnavailableError
from tool_engine.events import EventBus, EventLog
from tool_engine.events.missed import MOST_PLACES, Gap, MissedEvents
from tool_engine.knowledge.sql.sql_events import SQLEventStorage
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType

COMPLETED = ToolEngineEventType.EXECUTION_COMPLETED


class World:
    """Engines that come and go on one database."""

    def __init__(self, path: Path, keep: int = 10_000) -> None:
        self.path = path
        self.keep = keep
        self.buses: list[EventBus] = []
        self.published: list[int] = []

    async def begin(self) -> EventBus:
        bus = EventBus(log=EventLog(SQLEventStorage(f"sqlite:///{self.path}", self.keep)))
        await bus.log.open()
        self.buses.append(bus)
        return bus

    async def end(self, bus: EventBus) -> None:
        self.buses.remove(bus)
        await bus.close()
        await bus.log.close()

    async def kill(self, bus: EventBus) -> None:
        """Leaves the numbers of an engine as a killed process leaves them."""
        self.buses.remove(bus)
        storage = await self.write(bus)
        storage._is_closing = True
        storage._bell.set()
        if storage._task is not None:
            await asyncio.wait([storage._task])
        await storage._close_database()
        await bus.close()

    async def write(self, bus: EventBus) -> Any:
        """Has all that was published written, and returns the storage."""
        storage: Any = bus.log._storage
        await storage._write_waiting()
        return storage

    def publish(self, bus: EventBus, count: int) -> None:
        for _ in range(count):
            bus.publish(ToolEngineEvent(COMPLETED, "echo"))
            self.published.append(bus.log.current())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        async with AsyncExitStack() as stack:
            for bus in list(self.buses):
                stack.push_async_callback(self.end, bus)


class Reader:
    """Goes on after the last event that it has heard, with what the place of it said."""

    def __init__(self, *place: int) -> None:
        self.place = place
        self.heard: list[int | Gap] = []

    async def read(self, bus: EventBus, most: int = 10_000) -> list[int | Gap]:
        """Hears what there is, or the first of it; where some are missing, a Gap."""
        heard: list[int | Gap] = []
        missed = await MissedEvents.find(bus.log, self.place)
        async for each in missed.read():
            if len(heard) == most:
                break
            if isinstance(each, Gap):
                heard.append(each)
            else:
                heard.append(each.sequence or 0)
                self.place = (each.sequence or 0, *missed.others_of(each))
        else:
            for event in await bus.log.read(missed.after, 10_000):
                if len(heard) == most:
                    break
                heard.append(event.sequence or 0)
                self.place = (event.sequence or 0, *missed.others)
        self.heard += heard
        return heard


async def test_a_restart(tmp_path: Path) -> None:
    """What was kept when an engine ended follows, then what happens in the next one."""
    async with World(tmp_path / "e.db") as world:
        first = await world.begin()
        world.publish(first, 5)
        reader = Reader(2)
        await world.end(first)
        second = await world.begin()
        world.publish(second, 3)
        assert await reader.read(second) == [3, 4, 5, 6, 7, 8]
        assert reader.place == (8,)


async def test_a_kill(tmp_path: Path) -> None:
    """Nobody knows which event was the last one: that is said once, where it belongs."""
    async with World(tmp_path / "e.db") as world:
        first = await world.begin()
        world.publish(first, 5)
        reader = Reader(2)
        await world.kill(first)
        second = await world.begin()
        world.publish(second, 2)
        start = second.log.first
        assert await reader.read(second) == [3, 4, 5, Gap(None), start, start + 1]
        world.publish(second, 1)
        assert await reader.read(second) == [start + 2]


async def test_lives_between(tmp_path: Path) -> None:
    """Those that have begun and ended meanwhile are heard whole; what is pruned is counted."""
    async with World(tmp_path / "e.db", keep=4) as world:
        for count in (3, 2, 2):
            bus = await world.begin()
            world.publish(bus, count)
            await world.end(bus)
        last = await world.begin()
        await (await world.write(last))._prune_events()
        reader = Reader(1)
        assert await reader.read(last) == [Gap(2), 4, 5, 6, 7]
        assert await Reader(0).read(last) == [Gap(3), 4, 5, 6, 7]


async def test_from_a_server_to_another_and_back(tmp_path: Path) -> None:
    """It hears late what it was not there for, and nothing twice."""
    async with World(tmp_path / "e.db") as world:
        one, two = await world.begin(), await world.begin()
        base = two.log.first
        world.publish(one, 2)
        world.publish(two, 2)
        reader = Reader(0)
        assert await reader.read(one) == [1, 2]
        await world.write(one)
        # One goes on: what it does from here on is not heard.
        assert await reader.read(two) == [Gap(None), base, base + 1]
        assert list(reader.place) == [base + 1, 2]
        world.publish(one, 2)
        world.publish(two, 2)
        await world.write(two)
        assert await reader.read(one) == [base + 2, base + 3, Gap(None), 3, 4]
        assert list(reader.place) == [4, base + 3]
        await world.end(two)
        world.publish(one, 1)
        assert await reader.read(one) == [5]
        assert list(reader.place) == [5]


async def test_to_an_older_server(tmp_path: Path) -> None:
    """What that one did before is missing, which is said; it goes on from now."""
    async with World(tmp_path / "e.db") as world:
        one, two = await world.begin(), await world.begin()
        world.publish(one, 3)
        reader = Reader(two.log.first)
        # Nothing of the other one is written.
        assert await reader.read(one, most=2) == [Gap(None)]
        world.publish(two, 2)
        await world.write(two)
        assert await reader.read(one, most=2) == [two.log.first + 1, Gap(None)]


async def test_what_had_to_go_unwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hole in the numbers of a life is counted."""
    module = "tool_engine.knowledge.sql.sql_events"
    async with World(tmp_path / "e.db") as world:
        first = await world.begin()
        world.publish(first, 2)
        await world.write(first)
        monkeypatch.setattr(f"{module}._MOST_WAITING", 3)
        world.publish(first, 8)
        reader = Reader(1)
        await world.end(first)
        assert await reader.read(await world.begin()) == [2, Gap(5), 8, 9, 10]


async def test_of_before_lives_were_written_down(tmp_path: Path) -> None:
    """Events of an older version are heard, and that it is not known whether these are all."""
    async with World(tmp_path / "e.db") as world:
        first = await world.begin()
        world.publish(first, 3)
        await world.end(first)
        second = await world.begin()
        storage = await world.write(second)
        await storage._execute_statement("DELETE FROM tool_event_lives WHERE first = 1", {})
        reader = Reader(1)
        assert await reader.read(second) == [2, 3, Gap(None)]


async def test_a_database_that_is_gone(tmp_path: Path) -> None:
    """It is an error of the kind that all have, before anything is heard."""
    async with World(tmp_path / "e.db") as world:
        bus = await world.begin()
        storage = await world.write(bus)
        await storage._execute_statement("DROP TABLE tool_event_lives", {})
        with pytest.raises(RecordsUnavailableError):
            await MissedEvents.find(bus.log, [0])


@pytest.mark.parametrize("seed", range(share_of(60)))
async def test_wherever_it_goes(tmp_path: Path, seed: int) -> None:
    """Nothing is heard twice, each life in order, and nothing is left out without a word."""
    dice = random.Random(seed)  # noqa: S311 - a test, no secret
    async with World(tmp_path / "e.db") as world:
        readers = [Reader(1) for _ in range(3)]
        world.publish(await world.begin(), 1)
        most = dice.choice((1, 1, 3))
        for _ in range(25):
            if not world.buses or (len(world.buses) < most and dice.random() < 0.3):
                await world.begin()
            bus = dice.choice(world.buses)
            world.publish(bus, dice.randrange(4))
            match dice.randrange(6):
                case 0:
                    await world.end(bus)
                case 1:
                    await world.kill(bus)
                case 2:
                    await world.write(bus)
                case _:
                    reader = dice.choice(readers)
                    await reader.read(bus, dice.choice((0, 1, 3, 1000)))
        for bus in list(world.buses):
            await world.end(bus)
        last = await world.begin()
        for reader in readers:
            await reader.read(last)
            check_heard(world, reader, is_alone=most == 1)


def check_heard(world: World, reader: Reader, *, is_alone: bool) -> None:
    heard = [each for each in reader.heard if not isinstance(each, Gap)]
    assert len(set(heard)) == len(heard)
    if is_alone:
        # Whatever a kill left open, all that was written is there.
        assert heard == [each for each in world.published if each > 1]
        return
    lives: dict[int, list[int]] = defaultdict(list)
    for number in heard:
        lives[number // 10_000_000_000].append(number)
    assert all(each == sorted(each) for each in lives.values())
    if not any(isinstance(each, Gap) for each in reader.heard):
        assert sorted(heard) == sorted(world.published)[1:]
    assert len(reader.place) <= MOST_PLACES
