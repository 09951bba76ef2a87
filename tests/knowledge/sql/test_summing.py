"""What calls add up to: the same from the statistics that are kept as from the calls themselves."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from tests.effort import IS_WHOLE
from tests.knowledge.sql.conftest import BOUND, NOON, Open, ask_file, call
from tests.knowledge.sql.test_queries import plan_of
from tool_engine.knowledge.sql import queries
from tool_engine.knowledge.sql.schema.schema import MIGRATIONS
from tool_engine.knowledge.sql.storage import SQLRecordStorage
from tool_engine.knowledge.sql.summing import split_hours
from tool_engine.model.record import RecordQuery
from tool_engine.model.settings.retention import RecordRetention
from tool_engine.model.statistics import CallStatistics, RecordTotals

OLD = Path(__file__).with_name("version_2.sql")
"""A database of 24 calls that the version before statistics were kept has written."""
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
TIMES: tuple[dict[str, Any], ...] = (
    {},
    {"start": NOON},
    {"end": NOON},
    {"start": NOON + HOUR},
    {"start": NOON - 2 * HOUR, "end": NOON + 3 * HOUR},
    {"start": NOON - 90 * MINUTE, "end": NOON + 100 * MINUTE},
    {"start": NOON + 1 * MINUTE, "end": NOON + 59 * MINUTE},
    {"start": NOON + 50 * MINUTE, "end": NOON + 70 * MINUTE},
    {"start": NOON + 10 * MINUTE},
    {"end": NOON + 10 * MINUTE},
    {"start": NOON, "end": NOON},
    {"start": datetime.max.replace(tzinfo=UTC)},
    {"end": datetime.max.replace(tzinfo=UTC)},
    {"start": datetime.min.replace(tzinfo=UTC), "end": datetime.max.replace(tzinfo=UTC)},
)
CONDITIONS: tuple[dict[str, Any], ...] = (
    {},
    {"tool_name": "tool-1"},
    {"is_success": True},
    {"is_success": False},
    {"outcome": "rejected"},
    {"error_type": "timeout"},
    {"error_type": ""},
    {"tool_name": "tool-2", "is_success": False},
    {"conversation_id": "chat-1"},
    {"session_id": "session-1"},
    {"call_id_prefix": "call-1"},
)


@pytest.fixture(params=["sqlite", "postgresql"])
async def storage(
    request: pytest.FixtureRequest, database: Path, open_storage: Open
) -> SQLRecordStorage:
    if request.param == "sqlite":
        return await open_storage(database)
    server = request.getfixturevalue("postgres_server")
    return await open_storage(await asyncio.to_thread(server.fresh_database))


async def fill(storage: SQLRecordStorage, count: int = 300) -> None:
    """Calls of some hours around noon, with all that statistics tell apart."""
    chance = random.Random(7)  # noqa: S311 - no secret
    for number in range(count):
        storage.add(
            call(
                number,
                chance.choice((None, None, None, "timeout", "queue_full", "execution_error")),
                executed_at=NOON + timedelta(seconds=chance.uniform(-9_000, 9_000)),
                tool_name=f"tool-{number % 3}",
                bucket=chance.choice((None, "http", "files")),
                execution_time=chance.choice((0.0, 1e-7, 0.25, chance.lognormvariate(-2, 2))),
                queue_wait=chance.choice((0.0, 0.0, 1e-7, chance.uniform(0.0, 3.0))),
                conversation_id=f"chat-{number % 4}",
                session_id=f"session-{number % 5}",
            )
        )
    assert await storage.flush(BOUND)


def rounded(value: Any) -> Any:
    """Sums of the same numbers may differ in their last digits."""
    # A database may give a sum as a decimal, which is no JSON.
    assert isinstance(value, dict | int | float), value
    if isinstance(value, dict):
        return {name: rounded(item) for name, item in value.items()}
    return round(value, 9) if isinstance(value, float) else value


def fields(found: Any) -> dict[str, Any]:
    return {name: rounded(getattr(found, name)) for name in found.__struct_fields__}


async def agrees(storage: SQLRecordStorage, query: RecordQuery) -> int:
    """How many calls match; fails where what they add up to is not what the calls say."""
    records = await storage.query(query)
    assert fields(await storage.statistics(query)) == fields(CallStatistics.of_records(records))
    totals = RecordTotals.of(records, dropped=storage.dropped)
    assert fields(await storage.totals(query)) == fields(totals)
    return len(records)


async def test_agree_with_the_calls(storage: SQLRecordStorage) -> None:
    """K46: for every filter and time, what is kept says what the calls themselves say."""
    await fill(storage)
    counts = [
        await agrees(storage, RecordQuery(**time, **conditions))
        for at, time in enumerate(TIMES)
        for number, conditions in enumerate(CONDITIONS)
        if IS_WHOLE or at == 0 or (at + number) % 3 == 0
    ]
    assert counts[0] == 300
    assert len(set(counts)) > 20


async def test_agree_after_pruning(storage: SQLRecordStorage) -> None:
    """What retention removes is in no number any more, to the last call."""
    await fill(storage)
    for count in (299, 150, 1):
        await storage.prune(RecordRetention(max_count=count))
        for time in TIMES[:6]:
            await agrees_but_for_the_longest(storage, RecordQuery(**time))
        assert (await storage.statistics(RecordQuery())).total == count
    await storage.prune(RecordRetention(max_age=1.0))
    assert await storage.statistics(RecordQuery()) == CallStatistics.of([], [])
    assert await rows_of(storage, "SELECT count(*) FROM tool_statistics") == [(0,)]


async def agrees_but_for_the_longest(storage: SQLRecordStorage, query: RecordQuery) -> None:
    """The longest time of a bin may be one that was removed: within the 3 % of the bin."""
    records = await storage.query(query)
    found, exact = await storage.statistics(query), CallStatistics.of_records(records)
    assert (found.total, found.outcomes, found.error_types) == (
        exact.total,
        exact.outcomes,
        exact.error_types,
    )
    assert {name: each["total"] for name, each in found.by_tool.items()} == {
        name: each["total"] for name, each in exact.by_tool.items()
    }
    for measure in ("execution_time", "queue_wait"):
        for name, seconds in getattr(exact, measure).items():
            shown = getattr(found, measure)[name]
            if name == "avg":
                assert shown == pytest.approx(seconds, abs=1e-9)
            else:
                assert seconds <= shown <= max(seconds * 1.03, 1e-6)


async def rows_of(storage: SQLRecordStorage, sql: str) -> list[tuple[Any, ...]]:
    async with storage._database.reader.connection() as connection:
        return [tuple(row) for row in await connection.execute(text(sql))]


async def test_calls_that_are_there_are_counted_once(storage: SQLRecordStorage) -> None:
    """A record that is added again, alone or among new ones, changes no number."""
    await fill(storage, 50)
    for record in await storage.query(RecordQuery()):
        storage.add(record)
    storage.add(call(1_000, tool_name="new"))
    assert await storage.flush(BOUND)
    assert await agrees(storage, RecordQuery()) == 51


async def test_two_engines_count_together(storage: SQLRecordStorage, open_storage: Open) -> None:
    """Two that write to one database lose no call of the other."""
    other = await open_storage(str(storage.url))
    await asyncio.gather(fill(storage, 200), fill(other, 200))
    assert (await storage.statistics(RecordQuery())).total == 400
    await agrees_but_for_the_longest(storage, RecordQuery())


async def test_refused_rows_are_not_counted(storage: SQLRecordStorage) -> None:
    """A row that the database refuses is in no number."""
    is_sqlite = storage.url.startswith("sqlite")
    await forbid(storage, "tool_name <> 'bad'", is_sqlite=is_sqlite)
    for number in range(20):
        storage.add(call(number, tool_name="bad" if number % 7 == 3 else "good"))
    assert await storage.flush(BOUND)
    assert storage.dropped == 3
    assert await agrees(storage, RecordQuery()) == 17


async def forbid(storage: SQLRecordStorage, condition: str, *, is_sqlite: bool) -> None:
    async with storage._database.reader.connection() as connection:
        if is_sqlite:
            await connection.execute(
                text(
                    "CREATE TRIGGER refuse BEFORE INSERT ON tool_calls "
                    f"WHEN NOT (NEW.{condition}) BEGIN SELECT RAISE(ABORT, 'refused'); END"
                )
            )
        else:
            await connection.execute(text(f"ALTER TABLE tool_calls ADD CHECK ({condition})"))


async def test_statistics_look_at_no_call(database: Path, open_storage: Open) -> None:
    """K46: without a filter, per tool and of whole hours the cost does not grow with the calls."""
    storage = await open_storage(database)
    for fields_ in ({}, {"tool_name": "a"}, {"is_success": False}, {"start": NOON, "end": None}):
        query = RecordQuery(**fields_)
        hours, parts = split_hours(query)
        assert parts == []
        assert hours is not None
        for statement in (
            queries.kept_statistics(query, hours),
            queries.kept_totals(query, hours),
        ):
            plan = await plan_of(storage, statement)
            assert "SEARCH tool_statistics USING PRIMARY KEY" in plan
            assert "tool_calls" not in plan


def test_parts_of_hours() -> None:
    """Of a time only the parts of an hour at its ends are asked of the calls."""
    start, end = NOON - 90 * MINUTE, NOON + 100 * MINUTE
    hours, (first, last) = split_hours(RecordQuery(start=start, end=end))
    assert hours is not None
    assert hours[1] - hours[0] == 2  # type: ignore[operator]
    assert (first.start, first.end) == (start, NOON - HOUR)
    assert (last.start, last.end) == (NOON + HOUR, end)


# Databases of before.


async def test_old_database(tmp_path: Path, open_storage: Open) -> None:
    """What an older version has written is migrated: every record, and what they add up to."""
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(OLD.read_text())
    storage = await open_storage(path)
    assert ask_file(path, "SELECT version FROM tool_engine_schema") == [(len(MIGRATIONS),)]
    assert [record.call_id for record in await storage.query(RecordQuery(oldest_first=True))] == [
        f"call-{number}" for number in range(24)
    ]
    for time in TIMES:
        await agrees(storage, RecordQuery(**time))
    storage.add(call(24 * 700, "timeout", tool_name="tool-0", queue_wait=0.5))
    assert await storage.flush(BOUND)
    assert await agrees(storage, RecordQuery()) == 25
    assert (await storage.totals(RecordQuery(conversation_id="chat-0"))).total == 8


async def test_as_an_older_version_left_it(storage: SQLRecordStorage, open_storage: Open) -> None:
    """Statistics are counted anew from calls that came before there were any; in both databases."""
    await fill(storage)
    async with storage._database.reader.connection() as connection:
        for statement in (
            "DROP TABLE tool_statistics",
            "DROP INDEX tool_calls_conversation",
            "CREATE INDEX tool_calls_conversation ON tool_calls (conversation_id)",
            "UPDATE tool_engine_schema SET version = 2",
        ):
            await connection.execute(text(statement))
    await storage.close()
    again = await open_storage(str(storage.url))
    assert await agrees(again, RecordQuery()) == 300
    for time in TIMES[:6]:
        await agrees(again, RecordQuery(**time))


async def test_calls_before_1970(storage: SQLRecordStorage) -> None:
    """An hour before 1970 begins where it begins: databases divide towards zero."""
    for number in range(-3, 4):
        at = datetime(1970, 1, 1, tzinfo=UTC) + number * 40 * MINUTE
        storage.add(call(number, executed_at=at))
    assert await storage.flush(BOUND)
    for shift in range(-2, 3):
        start = datetime(1970, 1, 1, tzinfo=UTC) + shift * HOUR
        await agrees(storage, RecordQuery(start=start, end=start + HOUR))
    async with storage._database.reader.connection() as connection:
        await connection.execute(text("UPDATE tool_engine_schema SET version = 2"))
        await connection.execute(text("DROP TABLE tool_statistics"))
    await storage._database.close_reader()
    await storage.open()
    for shift in range(-2, 3):
        start = datetime(1970, 1, 1, tzinfo=UTC) + shift * HOUR
        await agrees(storage, RecordQuery(start=start, end=start + HOUR))
