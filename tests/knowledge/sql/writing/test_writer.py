"""The buffer and the writer behind it: bounded, in order, and patient with the database."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests import warm
from tests.knowledge.sql.conftest import BOUND, call, until
from tool_engine.knowledge.snapshot import take_snapshot
from tool_engine.knowledge.sql.database_errors import BadRowsError, BusyError
from tool_engine.knowledge.sql.schema.rows import Batch
from tool_engine.knowledge.sql.schema.schema import COLUMNS
from tool_engine.knowledge.sql.writing import writer as writing
from tool_engine.knowledge.sql.writing.buffer import RecordBuffer, size_of
from tool_engine.knowledge.sql.writing.writer import BATCH, RecordWriter

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

    def prepare(self, batch: Batch) -> None:
        pass

    async def write(self, batch: Batch) -> None:
        while not self.is_open.is_set():  # noqa: ASYNC110 - it is set in another loop
            await asyncio.sleep(0.001)
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
            writer.buffer = RecordBuffer(writer._attend_call, most)
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
    assert rows.batches < 500
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


async def test_one_that_is_being_added(rows: Rows, make_writer: Any) -> None:
    """A call that another thread is adding just now hides no older one, and hurries nothing."""
    writer = make_writer(3600.0)
    writer.buffer.add(call(1))
    assert await writer.flush(BOUND)
    # Between its two steps: there, and not counted.
    writer.buffer._append(call(2))
    assert writer.buffer.passed == 1
    assert not writer._has_due(1)


async def test_interval(rows: Rows, make_writer: Any) -> None:
    """After the interval calls are written without anybody asking, again and again."""
    writer = make_writer(0.01)
    for number in range(3):
        writer.buffer.add(call(number))
        await until(lambda: len(rows.ids) == number + 1)  # noqa: B023 - awaited at once
    assert rows.ids == ids(0, 1, 2)


async def test_nothing_runs_while_nothing_comes(make_writer: Any) -> None:
    """A writer has no thread before the first call, and after the last one it sleeps."""
    writer = make_writer(0.01)
    assert writer._thread is None
    writer.buffer.add(call(1))
    assert await writer.flush(BOUND)
    await until(lambda: writer._urgency == 0)


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
    text = take_snapshot({"text": "x" * 60_000})
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
    with capture_logs() as logs:
        for number in range(1_000):
            writer.buffer.add(call(number))
        assert await writer.flush(BOUND)
    assert sorted(rows.ids) == sorted(f"call-{n}" for n in range(1_000) if f"call-{n}" not in bad)
    assert (writer.dropped, writer.waiting) == (2, 0)
    assert [line["event"] for line in logs] == ["record_refused"] * 2


async def test_busy_is_no_trouble(rows: Rows, make_writer: Any) -> None:
    """A lock of somebody else is waited for without a word, as long as it is short."""
    tries = iter([BusyError("locked"), BusyError("locked")])
    rows.failure = lambda batch: next(tries, None)
    writer = make_writer()
    writer.buffer.add(call(1))
    with capture_logs() as logs:
        assert await writer.flush(BOUND)
    assert rows.ids == ids(1)
    assert logs == []


@pytest.mark.parametrize("is_locked", [True, False])
async def test_a_database_that_takes_too_long(
    rows: Rows, make_writer: Any, monkeypatch: pytest.MonkeyPatch, is_locked: bool
) -> None:
    """Whether it is locked or silent, that is told once; then nobody waits until it is over."""
    monkeypatch.setattr(writing, "_COMMIT_LIMIT", 0.2)
    is_stuck = True
    if is_locked:
        rows.failure = lambda batch: BusyError("locked") if is_stuck else None
    else:
        rows.is_open.clear()
    writer = make_writer()
    with capture_logs() as logs:
        for number in (1, 2, 3):
            writer.buffer.add(call(number))
            assert not await writer.flush(BOUND)
        assert writer.is_failing
        is_stuck = False
        rows.is_open.set()
        await until(lambda: writer.waiting == 0)
    assert sorted(rows.ids) == ids(1, 2, 3)
    assert [line["event"] for line in logs] == ["records_not_written", "records_written_again"]
    assert "another process holds it locked, or it does not answer" in logs[0]["error"]
    writer.buffer.add(call(4))
    assert await writer.flush(BOUND)
    assert not writer.is_failing


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


# The writer's own thread.


async def test_the_loop_of_the_calls_does_none_of_it(rows: Rows, make_writer: Any) -> None:
    """Rows are made and written in other threads: the loop pays for the appends only."""
    threads = set()
    rows.failure = lambda batch: threads.add(threading.current_thread())
    writer = make_writer(3600.0)
    for number in range(RecordBuffer.look_every - 1):
        writer.buffer.add(call(number, params={"rows": list(range(500))}))
    paid = time.thread_time()
    assert await writer.flush(BOUND)
    paid = time.thread_time() - paid
    assert threading.current_thread() not in threads
    assert len(threads) == 1
    # The time of this thread only, whatever else the machine does: making the rows takes longer.
    assert paid < 0.010


async def test_the_next_rows_are_made_meanwhile(rows: Rows, make_writer: Any) -> None:
    """While the database works on one batch the rows of the next are made."""
    prepared: list[int] = []
    rows.prepare = lambda batch: prepared.append(len(batch.rows))  # type: ignore[method-assign]
    writer = make_writer(3600.0)
    meanwhile: list[int] = []

    async def write(batch: Batch) -> None:
        async with asyncio.timeout(BOUND):
            # The first one only: of the last there is no next.
            while not meanwhile and len(prepared) < 2:
                assert batch.under_way is not None
                batch.under_way()
                await asyncio.sleep(0.001)
        meanwhile.append(len(prepared))

    rows.write = write  # type: ignore[method-assign]
    for number in range(3 * BATCH):
        writer.buffer.add(call(number))
    assert await writer.flush(BOUND)
    assert writer.written == 3 * BATCH
    assert meanwhile[0] == 2


async def test_dropping_is_told_once(rows: Rows, make_writer: Any) -> None:
    """A database that is too slow for long is told of once, not with each batch."""
    writer = make_writer(most=20_000)
    with capture_logs() as logs:
        for turn in range(3):
            # One batch comes in, and then no more for a while.
            rows.failure = lambda batch: rows.is_open.clear()
            rows.is_open.clear()
            for number in range(24_000):
                writer.buffer.add(call(number))
            rows.is_open.set()
            await until(lambda: rows.batches > turn)  # noqa: B023 - awaited at once
        rows.failure = lambda batch: None
        rows.is_open.set()
        assert await writer.flush(BOUND)
    assert [line["event"] for line in logs] == ["records_dropped", "records_written_again"]
    assert logs[-1]["dropped"] == writer.dropped
    assert len(rows.ids) + writer.dropped == 72_000


async def test_trouble_is_told_in_the_loop(rows: Rows) -> None:
    """Whoever is told of trouble need not be ready for other threads."""
    told: list[tuple[str, Any]] = []
    writer = RecordWriter(
        rows, 0.0, lambda name, fields: told.append((name, asyncio.get_running_loop()))
    )
    tries = iter([OSError("gone")])
    rows.failure = lambda batch: next(tries, None)
    writer.buffer.add(call(1))
    await until(lambda: len(told) == 2)
    loop = asyncio.get_running_loop()
    assert told == [("records_not_written", loop), ("records_written_again", loop)]
    await writer.close(BOUND)


async def test_the_thread_ends_with_the_writer(rows: Rows, make_writer: Any) -> None:
    """After `close` no thread is left, and the database was closed where it was used."""
    writer = make_writer()
    closed_in = []
    close = rows.close

    async def noted() -> None:
        closed_in.append(threading.current_thread().name)
        await close()

    rows.close = noted  # type: ignore[method-assign]
    writer.buffer.add(call(1))
    assert await writer.flush(BOUND)
    thread = writer._thread
    await writer.close(BOUND)
    assert not thread.is_alive()
    assert closed_in == ["tool-engine-records"]


async def test_nobody_is_told_at_the_end_of_a_closed_loop(rows: Rows) -> None:
    """A writer whose last loop is gone tells from where it is."""
    told: list[str] = []
    writer = RecordWriter(rows, 0.0, lambda name, fields: told.append(name))

    async def add() -> None:
        writer.buffer.add(call(1))
        assert await writer.flush(BOUND)

    await asyncio.to_thread(lambda: asyncio.run(add()))
    rows.failure = lambda batch: OSError("gone") if "records_not_written" not in told else None
    await asyncio.to_thread(writer.buffer.add, call(2))
    await until(lambda: told == ["records_not_written", "records_written_again"])
    await writer.close(BOUND)


FORGETFUL = """
import asyncio, sys
from tests.knowledge.sql.conftest import call
from tool_engine.knowledge.sql.storage import SQLRecordStorage

async def main():
    storage = SQLRecordStorage(sys.argv[1])
    await storage.open()
    for number in range(int(sys.argv[2])):
        storage.add(call(number))

asyncio.run(main())
"""


@pytest.mark.parametrize("count", [3, 5_000])
def test_a_program_that_forgets_to_close(tmp_path: Path, count: int) -> None:
    """It ends, at once and in silence, though its records are lost."""
    words = ["-c", FORGETFUL, f"sqlite:///{tmp_path}/calls.db", str(count)]
    done = warm.run(words, timeout=BOUND)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
