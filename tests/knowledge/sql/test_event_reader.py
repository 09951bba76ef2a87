"""Events of other processes, read where they keep them."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from tests.knowledge.sql.conftest import ask_file, until
from tool_engine.errors import (
    ConfigurationError,
    EventsExpiredError,
    RecordsUnavailableError,
)
from tool_engine.events import EventBus, EventLog
from tool_engine.knowledge.sql import event_reader
from tool_engine.knowledge.sql.event_reader import EventReader, EventTail
from tool_engine.knowledge.sql.sql_events import BLOCK, SQLEventStorage
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType

STARTED = ToolEngineEventType.EXECUTION_STARTED


class Writer:
    """An engine's bus and storage."""

    def __init__(self, url: str, max_events: int = 100_000) -> None:
        self.storage = SQLEventStorage(url, max_events)
        self.bus = EventBus(log=EventLog(self.storage))

    async def publish(self, count: int = 1, name: str = "echo") -> None:
        """Publishes, and waits until it is written."""
        for _ in range(count):
            self.bus.publish(ToolEngineEvent(STARTED, name))
        await until(lambda: ", 0 waiting" in repr(self.storage))

    async def close(self) -> None:
        await self.bus.close()
        await self.bus.log.close()


@asynccontextmanager
async def writing(url: str, **options: Any) -> AsyncIterator[Writer]:
    writer = Writer(url, **options)
    await writer.bus.log.open()
    try:
        yield writer
    finally:
        await writer.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/events.db"
    fresh: str = request.getfixturevalue("postgres_server").fresh_database()
    return fresh


@pytest.fixture
async def reader(url: str) -> AsyncIterator[EventReader]:
    made = EventReader(url)
    yield made
    await made.close()


def numbers(events: list[ToolEngineEvent]) -> list[int]:
    return [event.sequence or 0 for event in events]


def files(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def clear(folder: Path) -> None:
    for each in files(folder):
        each.unlink()


async def read(tail: EventTail, limit: int = 500) -> list[int]:
    """The numbers of all that there is to read now."""
    found: list[int] = []
    while events := await tail.read(limit):
        found += numbers(events)
    return found


async def test_whether_events_are_kept(url: str, reader: EventReader) -> None:
    """Without an engine that keeps its events there are none, which is no mistake."""
    assert not await reader.is_kept()
    async with writing(url):
        assert await reader.is_kept()
        assert await reader.newest(10) == []
    assert await reader.is_kept()


async def test_to_ask_makes_no_file(tmp_path: Path) -> None:
    """Who asks where nothing is leaves nothing there."""
    reader = EventReader(f"sqlite:///{tmp_path}/none.db")
    assert not await reader.is_kept()
    with pytest.raises(RecordsUnavailableError):
        await reader.tail()
    await reader.close()
    assert files(tmp_path) == []


async def test_to_ask_takes_no_number(url: str, reader: EventReader) -> None:
    """The numbers of an engine have no gap because somebody reads."""
    async with writing(url) as writer:
        await writer.publish(3)
        await read(await reader.tail(0))
        await writer.publish(2)
    assert numbers(await reader.newest(10)) == [5, 4, 3, 2, 1]


async def test_the_newest(url: str, reader: EventReader) -> None:
    """They are read backwards, page by page, from a time on."""
    async with writing(url) as writer:
        await writer.publish(5)
        middle = (await reader.newest(1))[0].timestamp.timestamp()
        await writer.publish(3)
        assert numbers(await reader.newest(3)) == [8, 7, 6]
        assert numbers(await reader.newest(3, before=6)) == [5, 4, 3]
        assert numbers(await reader.newest(10, before=3)) == [2, 1]
        assert set(numbers(await reader.newest(10, since=middle))) >= {5, 6, 7, 8}
        assert await reader.newest(10, since=middle + 3_600) == []


async def test_what_comes_is_told_once_and_in_order(url: str, reader: EventReader) -> None:
    """From now on, or from a number on; whatever the size of a page."""
    async with writing(url) as writer:
        await writer.publish(4)
        now, later, everything = await reader.tail(), await reader.tail(2), reader.whole_tail()
        assert now.last == 4
        assert await read(now) == []
        await writer.publish(5)
        assert await read(now, limit=2) == [5, 6, 7, 8, 9]
        assert await read(later) == [3, 4, 5, 6, 7, 8, 9]
        assert await read(everything, limit=4) == [1, 2, 3, 4, 5, 6, 7, 8, 9]
        await writer.publish(1)
        for tail in (now, later, everything):
            assert await read(tail) == [10]


async def test_a_number_that_there_is_not(url: str, reader: EventReader) -> None:
    """Whoever goes on from a number of another database is told."""
    async with writing(url) as writer:
        await writer.publish(2)
        with pytest.raises(ConfigurationError, match="no event 3: the newest is 2"):
            await reader.tail(3)
        assert (await reader.tail(2)).last == 2


async def test_before_the_first_event(url: str, reader: EventReader) -> None:
    """Where nothing is kept yet, what comes is told from wherever its numbers begin."""
    async with writing(url):
        tail = await reader.tail()
        assert await read(tail) == []
        async with writing(url) as second:
            await second.publish(3)
            assert await read(tail) == [BLOCK + 1, BLOCK + 2, BLOCK + 3]


async def test_what_is_not_kept_any_more(url: str, reader: EventReader) -> None:
    """A reader that is too late is told that it missed something, and where to go on."""
    async with writing(url, max_events=10) as writer:
        await writer.publish(10)
        tail = await reader.tail()
        await writer.publish(30)
        with pytest.raises(EventsExpiredError) as caught:
            await read(tail)
        oldest = caught.value.oldest
        assert await read(await reader.tail(oldest - 1)) == list(range(oldest, 41))
        with pytest.raises(EventsExpiredError):
            await read(await reader.tail(5))


async def test_several_engines_at_once(url: str, reader: EventReader) -> None:
    """Each counts on in its own numbers; nothing of either is left out or told twice."""
    async with writing(url) as low, writing(url) as high:
        await high.publish(2, "high")
        tail = await reader.tail()
        await low.publish(3, "low")
        assert await read(tail) == [1, 2, 3]
        await high.publish(2, "high")
        await low.publish(2, "low")
        assert await read(tail, limit=1) == [4, BLOCK + 3, 5, BLOCK + 4]
        whole = reader.whole_tail()
        assert sorted(await read(whole)) == [1, 2, 3, 4, 5, *range(BLOCK + 1, BLOCK + 5)]
        await low.publish(1, "low")
        late = await reader.tail()
        await low.publish(1, "low")
        assert await read(tail) == [6, 7]
        assert await read(whole) == [6, 7]
        assert await read(late) == [7]


async def test_after_a_crash(
    url: str, reader: EventReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that was killed leaves a jump behind, and what follows it is told."""
    monkeypatch.setattr(event_reader, "_MOST_RUNS", 2)
    killed = [Writer(url) for _ in range(4)]
    tail = None
    for number, writer in enumerate(killed):
        await writer.bus.log.open()
        await writer.publish(2)
        if tail is None:
            tail = await reader.tail()
        else:
            assert await read(tail) == [number * BLOCK + 1, number * BLOCK + 2]
    assert tail is not None
    assert tail.last == 3 * BLOCK + 2
    later = await reader.tail()
    assert await read(later) == []
    await killed[-1].publish(1)
    assert await read(later) == await read(tail) == [3 * BLOCK + 3]
    for writer in killed:
        await writer.close()


async def test_a_file_that_was_deleted(tmp_path: Path) -> None:
    """What the old file still held comes first, then what its engine writes into the new one."""
    path = tmp_path / "events.db"
    reader = EventReader(f"sqlite:///{path}")
    async with writing(f"sqlite:///{path}") as writer:
        tail = await reader.tail()
        await writer.publish(2)
        assert await read(tail) == [1, 2]
        await writer.publish(2)
        clear(tmp_path)
        assert numbers(await tail.read()) == [3, 4]
        await writer.publish(2)
        assert await read(tail) == [5, 6]
    await reader.close()


async def test_a_file_that_was_replaced(tmp_path: Path) -> None:
    """Another engine's file has numbers of its own: it is told from its beginning."""
    path = tmp_path / "events.db"
    reader = EventReader(f"sqlite:///{path}")
    async with writing(f"sqlite:///{path}") as writer:
        await writer.publish(5)
        tail = await reader.tail()
    clear(tmp_path)
    assert await read(tail) == []  # no file: there may be another one soon
    with closing(sqlite3.connect(path)) as empty, empty:
        empty.execute("CREATE TABLE something (id INTEGER)")
    empty.close()
    with pytest.raises(RecordsUnavailableError):
        await tail.read()
    with pytest.raises(RecordsUnavailableError):
        await tail.read()
    async with writing(f"sqlite:///{path}") as writer:
        await writer.publish(3)
        assert await read(tail) == [1, 2, 3]
    await reader.close()


async def test_a_row_of_another_version(tmp_path: Path) -> None:
    """What cannot be understood is told, and not left out."""
    path = tmp_path / "events.db"
    reader = EventReader(f"sqlite:///{path}")
    async with writing(f"sqlite:///{path}") as writer:
        await writer.publish(1)
        tail = await reader.tail(0)
        await asyncio.to_thread(ask_file, path, "UPDATE tool_events SET event_type = 'from_later'")
        for _ in range(2):
            with pytest.raises(ConfigurationError, match=r"the event 1.*the version of"):
                await tail.read()
        with pytest.raises(ConfigurationError, match="the event 1"):
            await reader.newest(1)
    await reader.close()


def test_a_url_that_is_none() -> None:
    """A URL is checked at once."""
    with pytest.raises(ConfigurationError):
        EventReader("events.db")
