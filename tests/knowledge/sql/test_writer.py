"""The buffer and the writer behind it: bounded, in order, and patient with the database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.knowledge.sql.conftest import BOUND, call, until
from tool_engine.knowledge.snapshot import snapshot
from tool_engine.knowledge.sql.buffer import RecordBuffer, size_of
from tool_engine.knowledge.sql.failing import BadRowsError, BusyError
from tool_engine.knowledge.sql.rows import Batch
from tool_engine.knowledge.sql.schema import COLUMNS
from tool_engine.knowledge.sql.writer import RecordWriter

CALL_ID = COLUMNS.index("call_id")


class Rows:
    """A database in memory, which refuses what a test wants it to."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.batches = 0
        self.failure: Callable[[Batch], Exception | None] = lambda batch: None
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.closed = 0

    async def write(self, batch: Batch) -> None:
        await self.is_open.wait()
        failure = self.failure(batch)
        if failure is not None:
            raise failure
        self.batches += 1
        self.ids += [row[CALL_ID] for row in batch.rows]

    async def close(self) -> None:
        self.closed += 1


@pytest.fixture
def rows() -> Rows:
    return Rows()


@pytest.fixture
async def make_writer(rows: Rows) -> AsyncIterator[Callable[..., RecordWriter]]:
    made: list[RecordWriter] = []

    def make(interval: float = 0.0, most: int | None = None) -> RecordWriter:
        writer = RecordWriter(rows, interval, lambda name, fields: None)
        if most is not None:
            writer.buffer = RecordBuffer(writer._attend, most)
        made.append(writer)
        return writer

    yield make
    rows.is_open.set()
    rows.failure = lambda batch: None
    for writer in made:
        await writer.close(BOUND)


def ids(*numbers: int) -> list[str]:
    return [f"call-{number}" for number in numbers]


async def test_in_order(rows: Rows, make_writer: Any) -> None:
    """Calls are written in the order in which they came, many with one commit."""
    writer = make_writer()
    for number in range(5_000):
        writer.buffer.add(call(number))
    assert await writer.flush(BOUND)
    assert rows.ids == ids(*range(5_000))
    assert rows.batches < 10
    assert (writer.written, writer.waiting, writer.dropped) == (5_000, 0, 0)


async def test_waits_for_company(rows: Rows, make_writer: Any) -> None:
    """With an interval a call waits for others; a flush and a whole lot of calls do not."""
    writer = make_writer(3600.0)
    writer.buffer.add(call(1))
    await asyncio.sleep(0.05)
    assert (rows.ids, writer.waiting) == ([], 1)
    assert await writer.flush(BOUND)
    assert rows.ids == ids(1)
    for number in range(RecordBuffer.look_every + 1):
        writer.buffer.add(call(number))
    await until(lambda: len(rows.ids) > RecordBuffer.look_every)


async def test_interval(rows: Rows, make_writer: Any) -> None:
    """After the interval calls are written without anybody asking, again and again."""
    writer = make_writer(0.01)
    for number in range(3):
        writer.buffer.add(call(number))
        await until(lambda: len(rows.ids) == number + 1)  # noqa: B023 - awaited at once


async def test_nothing_runs_while_nothing_comes(make_writer: Any) -> None:
    """A writer that has nothing to do has no task before the first call, and no timer after it."""
    writer = make_writer(0.01)
    assert writer._task is None
    writer.buffer.add(call(1))
    assert await writer.flush(BOUND)
    await until(lambda: writer._timer is None)


async def test_oldest_go(rows: Rows, make_writer: Any) -> None:
    """Beyond its bound the buffer lets the oldest go, counted, and told once."""
    writer = make_writer(most=2_000)
    rows.is_open.clear()
    writer.buffer.add(call(0))
    await until(lambda: writer.waiting == 1 and not writer.buffer)
    with capture_logs() as logs:
        for number in range(1, 9_001):
            writer.buffer.add(call(number))
        assert len(writer.buffer) == 2_000
        rows.is_open.set()
        assert await writer.flush(BOUND)
    assert rows.ids == ids(0, *range(7_001, 9_001))
    assert writer.dropped == 7_000
    assert [line["event"] for line in logs] == ["records_dropped", "records_written_again"]


async def test_bytes_are_bounded(make_writer: Any) -> None:
    """Few large calls take no more memory than the bound and a sixteenth."""
    buffer = RecordBuffer(lambda: None, most_bytes=1_000_000)
    for number in range(200):
        buffer.add(call(number, params={"text": "x" * 20_000}))
    assert sum(map(size_of, buffer._waiting)) <= 1_000_000 * 17 / 16 + 21_000
    assert buffer.dropped == 200 - len(buffer) > 100
    assert buffer._waiting[-1].call_id == "call-199"


async def test_large_calls_come_in_small_batches(rows: Rows, make_writer: Any) -> None:
    """A transaction is bounded in bytes, too."""
    writer = make_writer()
    text = snapshot({"text": "x" * 60_000})
    for number in range(600):
        writer.buffer.add(call(number, whole=text))
    assert await writer.flush(BOUND)
    assert rows.batches > 1
    assert len(rows.ids) == 600


async def test_refused_row(rows: Rows, make_writer: Any) -> None:
    """A row that the database refuses costs no other, is counted and told."""
    bad = {"call-7", "call-900"}
    rows.failure = lambda batch: (
        BadRowsError("no") if any(row[CALL_ID] in bad for row in batch.rows) else None
    )
    writer = make_writer(3600.0)
    for number in range(1_000):
        writer.buffer.add(call(number))
    with capture_logs() as logs:
        assert await writer.flush(BOUND)
    assert sorted(rows.ids) == sorted(f"call-{n}" for n in range(1_000) if f"call-{n}" not in bad)
    assert (writer.dropped, writer.waiting) == (2, 0)
    assert [line["event"] for line in logs] == ["record_refused"] * 2


async def test_busy_is_no_trouble(rows: Rows, make_writer: Any) -> None:
    """A lock of somebody else is waited for without a word."""
    tries = iter([BusyError("locked"), BusyError("locked")])
    rows.failure = lambda batch: next(tries, None)
    writer = make_writer()
    writer.buffer.add(call(1))
    with capture_logs() as logs:
        assert await writer.flush(BOUND)
    assert rows.ids == ids(1)
    assert logs == []


async def test_failing_database(rows: Rows, make_writer: Any) -> None:
    """What the database does not take stays, in order; who waits is told at once."""
    failing = True
    rows.failure = lambda batch: OSError("gone") if failing else None
    writer = make_writer()
    with capture_logs() as logs:
        writer.buffer.add(call(1))
        assert not await writer.flush(BOUND)
        writer.buffer.add(call(2))
        assert not await writer.committed()
        failing = False
        await until(lambda: writer.waiting == 0)
    assert rows.ids == ids(1, 2)
    assert [line["event"] for line in logs] == ["records_not_written", "records_written_again"]
    assert logs[0]["error"] == "OSError: gone"
    assert await writer.flush(BOUND)


async def test_flush_is_bounded(rows: Rows, make_writer: Any) -> None:
    """Who waits for a database that does not answer gets its answer in time."""
    writer = make_writer()
    rows.is_open.clear()
    writer.buffer.add(call(1))
    async with asyncio.timeout(BOUND):
        assert not await writer.flush(0.05)
    rows.is_open.set()
    assert await writer.flush(BOUND)


async def test_close_writes_and_ends(rows: Rows, make_writer: Any) -> None:
    """Closing writes what is left; a second time it does nothing; what comes later is counted."""
    writer = make_writer(3600.0)
    for number in range(10):
        writer.buffer.add(call(number))
    await writer.close(BOUND)
    assert len(rows.ids) == 10
    await writer.close(BOUND)
    writer.buffer.add(call(11))
    assert (writer.dropped, len(rows.ids), rows.closed) == (1, 10, 2)


async def test_close_tries_again(rows: Rows, make_writer: Any) -> None:
    """A database that comes back while the engine is closed gets what is left."""
    tries = iter([OSError("gone")] * 3)
    rows.failure = lambda batch: next(tries, None)
    writer = make_writer()
    writer.buffer.add(call(1))
    await writer.close(BOUND)
    assert rows.ids == ids(1)


async def test_close_gives_up(rows: Rows, make_writer: Any) -> None:
    """A database that never answers holds nobody up; what is lost is counted and told."""
    writer = make_writer()
    rows.is_open.clear()
    for number in range(3):
        writer.buffer.add(call(number))
    with capture_logs() as logs:
        async with asyncio.timeout(BOUND):
            await writer.close(0.05)
    assert writer.dropped == 3
    assert [line["event"] for line in logs] == ["records_dropped"]


def test_a_second_loop(rows: Rows) -> None:
    """A writer goes on where the loop of before was closed."""
    writer = RecordWriter(rows, 0.0)

    async def keep(number: int) -> bool:
        rows.is_open = asyncio.Event()
        rows.is_open.set()
        writer.buffer.add(call(number))
        return await writer.flush(BOUND)

    async def end() -> None:
        await writer.close(BOUND)

    assert asyncio.run(keep(1))
    assert asyncio.run(keep(2))
    asyncio.run(end())
    assert rows.ids == ids(1, 2)
    assert "closed" in repr(writer)
