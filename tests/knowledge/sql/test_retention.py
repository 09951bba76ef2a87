"""Old records go: by age, by number and by size; what nobody refers to goes with them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.knowledge.sql.conftest import BOUND, NOON, Open, ask_file, call, until
from tool_engine.errors import ConfigurationError
from tool_engine.knowledge.sql.storage import SQLRecordStorage
from tool_engine.model.record import RecordQuery
from tool_engine.model.settings.retention import RecordRetention, checked_retention


@pytest.fixture(params=["sqlite", "postgresql"])
async def storage(
    request: pytest.FixtureRequest, database: Path, open_storage: Open
) -> SQLRecordStorage:
    if request.param == "sqlite":
        return await open_storage(database)
    server = request.getfixturevalue("postgres_server")
    return await open_storage(await asyncio.to_thread(server.fresh_database))


async def numbers(storage: SQLRecordStorage) -> list[int]:
    records = await storage.query(RecordQuery(oldest_first=True))
    return [record.result["number"] for record in records]


async def test_by_age(storage: SQLRecordStorage) -> None:
    """Records that ended longer ago than `max_age` go."""
    now = datetime.now(UTC)
    for number in range(5):
        storage.add(call(number, executed_at=now - timedelta(hours=number)))
    assert await storage.prune(RecordRetention(max_age=2.5 * 3600)) == 2
    assert await numbers(storage) == [2, 1, 0]


async def test_by_count(storage: SQLRecordStorage) -> None:
    """The newest `max_count` stay, however many steps it takes."""
    for number in range(1_800):
        storage.add(call(number))
    assert await storage.prune(RecordRetention(max_count=300)) == 1_500
    assert await numbers(storage) == list(range(1_500, 1_800))
    assert await storage.prune(RecordRetention(max_count=300)) == 0


async def test_by_size(storage: SQLRecordStorage) -> None:
    """About `max_bytes` stay, and a second look removes nothing more."""
    for number in range(1_200):
        storage.add(call(number, params={"text": "x" * 1_000}))
    assert await storage.flush(BOUND)
    removed = await storage.prune(RecordRetention(max_bytes=600_000))
    assert 200 < removed < 1_150
    assert await storage.prune(RecordRetention(max_bytes=600_000)) < 100
    assert (await numbers(storage))[-1] == 1_199


async def test_file_shrinks(database: Path, open_storage: Open) -> None:
    """What the file no longer needs goes back to the disk; large results go with their calls."""
    storage = await open_storage(database)
    for number in range(600):
        large = {"number": number, "rows": [f"{number}-{at}" for at in range(500)]}
        at = NOON + timedelta(minutes=number)
        storage.add(call(number, output=large, tool_name=f"tool-{number}", executed_at=at))
    assert await storage.flush(120)
    before = await asyncio.to_thread(used, database)
    ask_file(
        database,
        "UPDATE tool_values SET used_at = "
        "(SELECT finished_at / 1000000 FROM tool_calls WHERE result_hash = hash)",
    )
    await storage.prune(RecordRetention(max_count=10))
    # Some minutes longer, so that nothing goes that a batch is about to refer to.
    ((values,),) = ask_file(database, "SELECT count(*) FROM tool_values")
    assert 10 <= values <= 16
    assert len((await storage.query(RecordQuery()))[-1].result["rows"]) == 500
    assert await asyncio.to_thread(used, database) < before / 4


def used(database: Path) -> int:
    ((pages,),) = ask_file(database, "PRAGMA page_count")
    return int(pages)


async def test_writers_are_not_held_up(database: Path, open_storage: Open) -> None:
    """While old records go, new ones come in."""
    storage = await open_storage(database)
    for number in range(8_000):
        storage.add(call(number))
    assert await storage.flush(BOUND)
    pruning = asyncio.create_task(storage.prune(RecordRetention(max_count=1)))
    written = 0
    while not pruning.done():
        storage.add(call(50_000 + written))
        assert await storage.flush(BOUND)
        written += 1
        await asyncio.sleep(0)
    assert written > 3
    removed = await pruning
    assert removed + (await storage.totals(RecordQuery())).total == 8_000 + written
    assert storage.dropped == 0


async def test_by_itself(database: Path, open_storage: Open) -> None:
    """With the setting `retention` old records go without anybody asking."""
    storage = await open_storage(database)
    for number in range(50):
        storage.add(call(number))
    await storage.close()
    keeper = await open_storage(database, retention=RecordRetention(max_count=5))
    await until(lambda: ask_file(database, "SELECT count(*) FROM tool_calls") == [(5,)])
    assert keeper.dropped == 0


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"max_age": 0}, "retention.max_age must be a positive, finite number of seconds"),
        ({"max_count": 0}, "retention.max_count must be a whole number >= 1"),
        ({"max_bytes": 1.5}, "retention.max_bytes must be a whole number >= 1"),
        ({"interval": -1}, "retention.interval must be a positive, finite number"),
        ({"max_ages": 1}, "retention has no field 'max_ages'; did you mean 'max_age'"),
        ("7d", "retention must be a RecordRetention or a mapping of its fields, got '7d'"),
    ],
)
def test_wrong_setting(value: Any, message: str) -> None:
    """A bound that cannot hold is refused."""
    with pytest.raises(ConfigurationError, match=message):
        checked_retention(value)


def test_setting_as_a_mapping() -> None:
    """The setting may be a mapping, and has no bounds by itself."""
    assert checked_retention({"max_age": 60}) == RecordRetention(max_age=60)
    assert RecordRetention(max_age=60).has_bounds
    assert not RecordRetention().has_bounds


async def test_what_was_removed_leaves_a_mark(storage: SQLRecordStorage) -> None:
    """Whoever reads later, in another process too, learns that there were older records."""
    assert await storage.removed_until() is None
    for number in range(1_200):
        storage.add(call(number))
    assert await storage.prune(RecordRetention(max_count=5_000)) == 0
    assert await storage.removed_until() is None
    assert await storage.prune(RecordRetention(max_count=200)) == 1_000
    assert await storage.removed_until() == NOON + timedelta(seconds=999)
    storage.add(call(-50))
    assert await storage.prune(RecordRetention(max_count=200)) == 1
    assert await storage.removed_until() == NOON + timedelta(seconds=999)
    other = SQLRecordStorage(str(storage.url))
    assert await other.removed_until() == NOON + timedelta(seconds=999)
    await other.close()
