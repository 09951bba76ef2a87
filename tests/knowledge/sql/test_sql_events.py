"""Events in a database: numbers across restarts and crashes, and a database that fails."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Self

import pytest
from structlog.testing import capture_logs

from tests import warm
from tests.knowledge.sql.conftest import ask_file, until
from tool_engine.errors import (
    ConfigurationError,
    EventsExpiredError,
    RecordsUnavailableError,
)
from tool_engine.events import EventBus, EventLog
from tool_engine.knowledge.sql import sql_events as events
from tool_engine.knowledge.sql.schema.schema import MIGRATIONS
from tool_engine.knowledge.sql.sql_events import BLOCK, SQLEventStorage
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType

STARTED = ToolEngineEventType.EXECUTION_STARTED


class Opened:
    """A storage and a bus that publishes into it."""

    def __init__(self, path: Path, max_events: int = 100_000) -> None:
        self.storage = SQLEventStorage(f"sqlite:///{path}", max_events)
        self.log = EventLog(self.storage)
        self.bus = EventBus(log=self.log)

    async def __aenter__(self) -> Self:
        await self.log.open()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.bus.close()
        await self.log.close()

    def publish(self, count: int = 1) -> None:
        for _ in range(count):
            self.bus.publish(ToolEngineEvent(STARTED, "echo"))

    async def numbers(self, after: int = 0, limit: int = 1000) -> list[Any]:
        return [each.sequence for each in await self.storage.read(after, limit)]

    async def written(self) -> None:
        await until(lambda: ", 0 waiting" in repr(self.storage))


async def test_numbers_go_on_where_the_last_engine_stopped(tmp_path: Path) -> None:
    """A restart leaves neither a gap nor a number that was used before."""
    path = tmp_path / "events.db"
    for run in range(3):
        async with Opened(path) as opened:
            assert opened.storage.newest == run * 5
            opened.publish(5)
            assert await opened.numbers() == list(range(1, run * 5 + 6))


KILLED = """
import asyncio, os, sys
from tool_engine.events import EventBus, EventLog
from tool_engine.knowledge.sql.sql_events import SQLEventStorage
from tool_engine.knowledge.sql.schema.schema import MIGRATIONS
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType

async def main():
    storage = SQLEventStorage(sys.argv[1])
    bus = EventBus(log=EventLog(storage))
    await bus.log.open()
    for _ in range(200):
        bus.publish(ToolEngineEvent(ToolEngineEventType.EXECUTION_STARTED, "echo"))
    while ", 0 waiting" not in repr(storage):
        await asyncio.sleep(0.01)
    for _ in range(100):
        bus.publish(ToolEngineEvent(ToolEngineEventType.EXECUTION_STARTED, "echo"))
    print(bus.log.sequence, flush=True)
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""


async def test_a_killed_process_leaves_no_number_to_be_used_twice(tmp_path: Path) -> None:
    """A subscriber may have seen numbers that were never written; they must not come again."""
    path = tmp_path / "events.db"
    seen = 0
    for _ in range(2):
        done = await asyncio.to_thread(warm.run, ["-c", KILLED, f"sqlite:///{path}"])
        assert done.returncode == -9, done.stderr
        assert int(done.stdout) == seen + 300
        seen += BLOCK
    async with Opened(path) as opened:
        assert opened.storage.newest == seen
        opened.publish(2)
        assert await opened.numbers(seen) == [seen + 1, seen + 2]
        found = await opened.numbers(0, 10_000)
        kept = [*range(1, 201), *range(BLOCK + 1, BLOCK + 201), seen + 1, seen + 2]
        assert found == kept


async def test_two_engines_at_once_have_different_numbers(tmp_path: Path) -> None:
    """Nobody is given what another one may use; and what is given back is nobody else's."""
    path = tmp_path / "events.db"
    async with Opened(path) as first, Opened(path) as second:
        first.publish(3)
        second.publish(3)
        assert await first.numbers() == [1, 2, 3]
        await first.written()
        assert (await second.numbers(3))[-1] == BLOCK + 3
    async with Opened(path) as third:
        assert third.storage.newest == BLOCK + 3


async def test_before_it_is_open_events_have_no_number(tmp_path: Path) -> None:
    """Nobody can say yet where numbers go on: the event is told, and not kept."""
    opened = Opened(tmp_path / "events.db")
    seen: list[ToolEngineEvent] = []
    opened.bus.subscribe(seen.append)
    opened.publish()
    assert seen[0].sequence is None
    assert opened.log.unkept == 1
    stream = opened.bus.events(after=0)
    with pytest.raises(ConfigurationError, match="once the engine is loaded"):
        await anext(stream)
    async with opened:
        late = opened.bus.events(policy="block_none")
        opened.publish(2)
        assert [(await anext(stream)).sequence for _ in range(2)] == [1, 2]
        assert [(await anext(late)).sequence for _ in range(2)] == [1, 2]


async def test_what_has_no_database_to_go_to_is_tried_again(tmp_path: Path) -> None:
    """A database that fails for a while loses nothing, and says so once."""
    path = tmp_path / "events.db"
    with capture_logs() as logs:
        async with Opened(path) as opened:
            opened.publish()
            await opened.written()
            ask_file(path, "ALTER TABLE tool_events RENAME TO gone")
            opened.publish(5)
            await until(lambda: opened.storage.is_failing)
            with pytest.raises(RecordsUnavailableError):
                await opened.storage.read(0, 10)
            assert await opened.numbers(1) == [2, 3, 4, 5, 6]
            ask_file(path, "ALTER TABLE gone RENAME TO tool_events")
            await opened.written()
            assert await opened.numbers() == [1, 2, 3, 4, 5, 6]
    names = [line["event"] for line in logs]
    assert names.count("events_not_written") == 1
    assert names.count("events_written_again") == 1


async def test_where_more_come_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each batch has its time: what is written is not late because there is always one more."""
    loop, timers, left = asyncio.get_running_loop(), list[asyncio.TimerHandle](), 9
    async with Opened(tmp_path / "events.db") as opened:
        write, begin = opened.storage._execute_statement, loop.call_later

        async def publish_meanwhile(statement: str, rows: Any) -> Any:
            nonlocal left
            if left:
                left -= 1
                opened.publish()
            assert [each.cancelled() for each in timers].count(False) == 1
            return await write(statement, rows)

        def note_timer(delay: float, callback: Any, *args: Any, **options: Any) -> Any:
            timer = begin(delay, callback, *args, **options)
            if callback == opened.storage._report_failure:
                timers.append(timer)
            return timer

        monkeypatch.setattr(loop, "call_later", note_timer)
        monkeypatch.setattr(opened.storage, "_execute_statement", publish_meanwhile)
        opened.publish()
        await opened.written()
        monkeypatch.undo()
    assert (left, len(timers)) == (0, 10)


async def test_what_waits_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While nothing can be written the oldest go, counted and told; numbers stay as they are."""
    monkeypatch.setattr(events, "_MOST_WAITING", 10)
    path = tmp_path / "events.db"
    with capture_logs() as logs:
        async with Opened(path) as opened:
            opened.publish(25)
            assert opened.storage.dropped == 15
            assert (await opened.numbers(15))[0] == 16
            await opened.written()
            assert opened.storage.newest == 25
    assert [line["event"] for line in logs] == ["events_dropped"]


async def test_a_block_that_is_used_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers beyond the engine's own are not kept: they may be another engine's."""
    monkeypatch.setattr(events, "BLOCK", 3)
    async with Opened(tmp_path / "events.db") as opened:
        opened.publish(5)
        assert await opened.numbers() == [1, 2, 3]
        assert opened.storage.dropped == 2


async def test_closing_writes_what_is_left_and_twice_is_fine(tmp_path: Path) -> None:
    """What was published before the end is in the database; what comes later is counted."""
    path = tmp_path / "events.db"
    opened = Opened(path)
    async with opened:
        opened.publish(2_500)
    await opened.log.close()
    assert ask_file(path, "SELECT count(*) FROM tool_events") == [(2_500,)]
    opened.storage.append(ToolEngineEvent(STARTED, sequence=2_501))
    assert opened.storage.dropped == 1
    assert repr(opened.storage) == "<SQLEventStorage closed, 0 waiting, newest 2500>"


async def test_closing_while_the_database_fails_is_bounded(tmp_path: Path) -> None:
    """`close` does not wait for a database that takes nothing; what is lost is counted."""
    path = tmp_path / "events.db"
    async with Opened(path) as opened:
        opened.publish()
        await opened.written()
        ask_file(path, "DROP TABLE tool_events")
        ask_file(path, "CREATE VIEW tool_events AS SELECT 1")
        opened.publish(4)
        await until(lambda: opened.storage.is_failing)
        assert "failing" in repr(opened.storage)
    assert opened.storage.dropped == 4


async def test_a_table_that_was_dropped(tmp_path: Path) -> None:
    """It is made again; what was in it is gone, and what waited is written."""
    path = tmp_path / "events.db"
    async with Opened(path) as opened:
        opened.publish()
        await opened.written()
        ask_file(path, "DROP TABLE tool_events")
        opened.publish(2)
        await opened.written()
        assert await opened.numbers(after=1) == [2, 3]
    assert opened.storage.dropped == 0


async def test_a_thread_may_publish(tmp_path: Path) -> None:
    """Events of a thread are written by the loop's task, also those that come before it."""
    async with Opened(tmp_path / "events.db") as opened:
        await asyncio.to_thread(opened.publish, 3)
        assert await opened.numbers() == [1, 2, 3]
        opened.publish()
        await opened.written()
        await asyncio.to_thread(opened.publish, 3)
        await opened.written()
        assert await opened.numbers() == list(range(1, 8))


async def test_a_database_that_is_none(tmp_path: Path) -> None:
    """What only a person can mend is an error when the engine opens."""
    path = tmp_path / "events.db"
    path.write_text("no database at all, but a text that is long enough to be looked at\n" * 20)
    with pytest.raises(ConfigurationError, match="cannot be used"):
        await SQLEventStorage(f"sqlite:///{path}").open()


async def test_a_database_that_is_locked(tmp_path: Path) -> None:
    """Without the number of the last event there is nothing to go on from."""
    path = tmp_path / "events.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        with pytest.raises(RecordsUnavailableError, match="leave out keep_events"):
            await SQLEventStorage(f"sqlite:///{path}").open()


def test_a_wrong_url() -> None:
    """A URL that no database has is refused when the storage is made."""
    with pytest.raises(ConfigurationError):
        SQLEventStorage("mysql://x")


def test_a_storage_outlives_a_loop(tmp_path: Path) -> None:
    """An engine that is used in one loop after another goes on writing."""
    opened = Opened(tmp_path / "events.db")

    async def first() -> None:
        await opened.log.open()
        opened.publish(2)

    async def second() -> list[Any]:
        opened.publish(2)
        await opened.written()
        found = await opened.numbers()
        await opened.log.close()
        return found

    asyncio.run(first())
    assert asyncio.run(second()) == [1, 2, 3, 4]


async def test_a_file_that_is_deleted_is_made_anew(tmp_path: Path) -> None:
    """What is published later is in a new file, not in one that nobody can see any more."""
    path = tmp_path / "events.db"
    async with Opened(path) as opened:
        opened.publish(3)
        await opened.written()
        for file in await asyncio.to_thread(lambda: list(tmp_path.iterdir())):
            file.unlink()
        opened.publish(2)
        await opened.written()
        assert await opened.numbers(3) == [4, 5]
    assert ask_file(path, "SELECT sequence FROM tool_events") == [(4,), (5,)]
    async with Opened(path) as opened:
        assert opened.storage.newest == 5
        await opened.log.open()
        assert opened.storage.newest == 5


async def test_a_row_that_nobody_understands(tmp_path: Path) -> None:
    """An event of a newer version, or a broken row, is an error that names it."""
    path = tmp_path / "events.db"
    async with Opened(path) as opened:
        opened.publish(2)
        await opened.written()
        for change in ("body = 'x'", "event_type = 'of_next_year'", "body = '{}'"):
            ask_file(path, f"UPDATE tool_events SET {change} WHERE sequence = 2")  # noqa: S608 - the test's own text
            with pytest.raises(RecordsUnavailableError, match="the event 2 in the database"):
                await opened.numbers(1)


async def test_nothing_is_kept_at_all(tmp_path: Path) -> None:
    """Where all rows are gone, those who ask for older ones are told which number is next."""
    path = tmp_path / "events.db"
    async with Opened(path) as opened:
        opened.publish(2)
        await opened.written()
        ask_file(path, "DELETE FROM tool_events")
        with pytest.raises(EventsExpiredError, match="the oldest is 3"):
            await opened.numbers()
        assert await opened.numbers(2) == []


async def test_a_database_of_an_older_version_gets_the_tables(tmp_path: Path) -> None:
    """Records that were there before events were kept stay, and events are kept beside them."""
    path = tmp_path / "events.db"
    async with Opened(path):
        pass
    for statement in (
        "DROP TABLE tool_events",
        "DROP TABLE tool_event_numbers",
        "UPDATE tool_engine_schema SET version = 1",
    ):
        ask_file(path, statement)
    async with Opened(path) as opened:
        opened.publish()
        await opened.written()
    assert ask_file(path, "SELECT count(*) FROM tool_events") == [(1,)]
    assert ask_file(path, "SELECT version FROM tool_engine_schema") == [(len(MIGRATIONS),)]
