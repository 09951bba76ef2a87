"""How do waiting calls reach the database, whatever happens to it?

A thread with a loop of its own takes them in batches, so that calls that never suspend do not block
it, and it blocks no call. While one batch is written, the rows of the next are made. A batch that
the database does not take stays in hand and is tried again, later and later; only a row that the
database refuses for its content is dropped.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Protocol

import msgspec

from tool_engine.knowledge.sql.connection.address import explain_error
from tool_engine.knowledge.sql.database_errors import BadRowsError, BusyError
from tool_engine.knowledge.sql.schema.rows import Batch, RowMaker
from tool_engine.knowledge.sql.writing import finish_at_exit
from tool_engine.knowledge.sql.writing.answers import Answers
from tool_engine.knowledge.sql.writing.buffer import RecordBuffer
from tool_engine.logger import get_logger

_log: Final = get_logger(__name__)
BATCH: Final = 4_000
"""The most calls per transaction."""
_BATCH_BYTES: Final = 2 * 1024 * 1024
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 2.0
_COMMIT_LIMIT: Final = 5.0
"""The most seconds that a call waits for the commit of its record."""
_TOO_LATE: Final = (
    f"it has not taken them for {_COMMIT_LIMIT:g} s: another process holds it locked, or it does "
    "not answer"
)
_END_LIMIT: Final = 5.0
"""Seconds that a thread gets to end after its work was given up."""
_SOON, _NOW, _END = 1, 2, 3
"""Urgency: within the interval, at once, and at once for the last time."""

Trouble = Callable[[str, dict[str, Any]], None]
"""Called with the name and the fields of each logged line."""


class Database(Protocol):
    """The writing side that differs between two databases.

    It is called in the writer's own loop. `close` also in another one, where nothing was written.
    """

    def prepare(self, batch: Batch) -> None:
        """Prepare what needs no connection; never fails."""

    async def write(self, batch: Batch) -> None:
        """Write and commit all rows or none; existing rows stay as they are.

        Connects first, and again after a failure.

        Raises:
            BadRowsError: It refuses one of the rows, and would again.
            BusyError: Another connection holds the database locked.
        """

    async def close(self) -> None:
        """Close the connection; it may be opened again."""


class _Made(msgspec.Struct):
    batch: Batch
    count: int
    last: int


class RecordWriter:
    """Writes what is added to its buffer, behind the calls.

    Args:
        database: The database to write to.
        interval: Seconds that a call may wait for others to be written with it.
        trouble: Called when records cannot be written, are dropped, and are written again; in the
            loop that added records last.
    """

    def __init__(self, database: Database, interval: float, trouble: Trouble | None = None) -> None:
        self.buffer = RecordBuffer(self._attend_call)
        self.refused = 0
        """Calls that no row could be made of, or whose row was refused."""
        self.written = 0
        self._database = database
        self._interval = interval
        self._trouble = trouble
        self._rows = RowMaker()
        self._made: deque[_Made] = deque()
        self._answers = Answers()
        self._urgency = 0
        self._is_due = False
        self._late: asyncio.TimerHandle | None = None
        """Set while the database has not taken what it was given."""
        self._bell = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._home: asyncio.AbstractEventLoop | None = None
        self._is_closing = False
        self._abandoned = 0
        self._told_dropped = 0
        self._is_dropping = False

    def __repr__(self) -> str:
        state = "closed" if self._is_closing else "failing" if self.is_failing else "writing"
        return f"<RecordWriter {state}, {self.waiting} waiting, {self.dropped} dropped>"

    @property
    def is_failing(self) -> bool:
        """Whether the last batch was refused, or is pending for too long."""
        return self._answers.is_failing

    @property
    def waiting(self) -> int:
        return self.buffer.waiting

    @property
    def dropped(self) -> int:
        return self.buffer.dropped + self.refused + self._abandoned

    async def flush(self, limit: float) -> bool:
        """Wait until all that was added is in the database.

        Returns:
            Whether it is; False at once while the database takes nothing, and after `limit`
            seconds.
        """
        answer = self._answers.asked(lambda: self.buffer.added)
        if isinstance(answer, bool) or self._is_closing:
            return answer is True
        self._home = asyncio.get_running_loop()
        self._start_thread()
        self._ring_bell(_NOW)
        try:
            async with asyncio.timeout(limit):
                return await answer
        except TimeoutError:
            return False

    async def committed(self) -> bool:
        """Wait for the commit of all that was added; many calls share one."""
        return await self.flush(_COMMIT_LIMIT)

    async def close(self, limit: float) -> None:
        """Write what is left, within `limit` seconds; later calls are dropped."""
        if self.waiting and not self._is_closing:
            self._start_thread()
        finish_at_exit.forget_writer(self)
        self._is_closing = True
        self._ring_bell(_END)
        thread, self._thread = self._thread, None
        if thread is not None and not await _has_ended(thread, limit):
            self._give_up()
            await _has_ended(thread, _END_LIMIT)
        self._answers.settle(self.buffer.added, is_kept=not self.waiting)
        self._abandoned += self._let_go()
        self._made.clear()
        self._tell_dropped()
        if thread is None:
            await self._database.close()

    def finish(self, limit: float) -> None:
        """Write what is left when the program ends without closing."""
        if self._is_closing or not self.waiting:
            return
        self._start_thread()
        self._is_closing = True
        self._ring_bell(_END)
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(limit)
        self._abandoned += self._let_go()
        self._tell_dropped()

    def _give_up(self) -> None:
        loop, task = self._loop, self._task
        if loop is not None and task is not None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(task.cancel)

    def _let_go(self) -> int:
        """Drop what waits, for good; return how many were in hand."""
        left = self.buffer.clear()
        self.buffer.rest()
        return left

    def _attend_call(self) -> None:
        """React to a call added after a rest, or to a whole lot of calls."""
        if self._is_closing:
            if self._thread is None:
                # A call refused by a closed engine: its record is not missed.
                self._let_go()
                self._told_dropped = self.buffer.dropped + self._abandoned
            return
        self._home = _running_loop() or self._home
        self._start_thread()
        is_much = len(self.buffer) >= self.buffer.look_every
        self._ring_bell(_NOW if is_much or self._interval == 0.0 else _SOON)
        self._tell_dropped()

    def _start_thread(self) -> None:
        """Start the thread unless it runs, as after a fork."""
        if self._thread is not None and self._thread.is_alive():
            return
        if sys.is_finalizing():
            # A call that is broken off when its coroutine is collected: no thread begins any more,
            # and `start` would wait for ever for one that does.
            return
        with self._starting:
            if self._is_closing or (self._thread is not None and self._thread.is_alive()):
                return
            self._loop = self._task = None
            # A program that forgets to close must be able to end.
            self._thread = threading.Thread(
                target=lambda: asyncio.run(self._run_thread()),
                name="tool-engine-records",
                daemon=True,
            )
            self._thread.start()
            finish_at_exit.remember_writer(self)

    def _ring_bell(self, urgency: int) -> None:
        """Wake the thread for work; from any thread."""
        if urgency > self._urgency:
            self._urgency = urgency
            if self._loop is not None:
                with suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(self._bell.set)

    async def _run_thread(self) -> None:
        self._bell, self._task = asyncio.Event(), asyncio.current_task()
        # From here on a ring wakes the loop; earlier ones are seen in `_urgency`.
        self._loop = asyncio.get_running_loop()
        try:
            with suppress(asyncio.CancelledError):
                await self._write_until_stopped()
        finally:
            self._stop_watch()
            await self._database.close()

    async def _write_until_stopped(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            await self._wait_for_work()
            while not await self._write_waiting():
                await self._pause_writing(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            pause = _FIRST_PAUSE
            if self._is_closing and not self.waiting:
                return
            self.buffer.rest()
            if self.buffer:
                self._ring_bell(_NOW if self._interval == 0.0 else _SOON)

    async def _wait_for_work(self) -> None:
        """Wait until there is work, and for more calls to share its commit."""
        await self._at_least(_SOON)
        if self._urgency == _SOON:
            await self._at_least(_NOW, self._interval)
        self._urgency = _END if self._is_closing else 0

    async def _at_least(self, urgency: int, seconds: float | None = None) -> None:
        """Wait for this urgency, for the seconds, or for the end."""
        self._is_due = False
        loop = asyncio.get_running_loop()
        timer = None if seconds is None else loop.call_later(seconds, self._mark_due)
        while self._urgency < urgency and not (self._is_closing or self._is_due):
            self._bell.clear()
            await self._bell.wait()
        if timer is not None:
            timer.cancel()

    def _mark_due(self) -> None:
        self._is_due = True
        self._bell.set()

    async def _pause_writing(self, seconds: float) -> None:
        """Wait for the next try; only the end shortens this, not new calls."""
        if self._is_closing:
            await asyncio.sleep(_FIRST_PAUSE)
            return
        await self._at_least(_END, seconds)

    async def _write_waiting(self) -> bool:
        """Write what waits now; return whether the database took it."""
        newest = self.buffer.added
        while self._made or self._has_due(newest):
            if not self._made:
                self._make_batch()
            batch = self._made[0].batch
            batch.under_way = self._make_ahead
            self._start_watch()
            try:
                await self._write_batch(batch)
            except BusyError:
                return False
            except Exception as error:  # noqa: BLE001 - every driver has failures of its own
                self._note_failure(error)
                return False
            self._note_success(self._made.popleft())
        newest = self.buffer.added
        if not self.waiting:
            self._answers.settle(newest)
        return True

    def _start_watch(self) -> None:
        """Set a time limit after which a locked or silent database is failing."""
        if self._late is None:
            loop = asyncio.get_running_loop()
            self._late = loop.call_later(_COMMIT_LIMIT, self._tell_late)

    def _tell_late(self) -> None:
        if not self._is_closing:  # losses at the end are reported then
            self._note_failure(TimeoutError(_TOO_LATE))

    def _stop_watch(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _has_due(self, newest: int) -> bool:
        """Return True if calls up to `newest`, or a whole lot of newer ones, wait."""
        waiting = len(self.buffer)
        is_old = self.buffer.passed < newest
        return waiting > 0 and (is_old or waiting >= self.buffer.look_every or self._is_closing)

    def _make_ahead(self) -> None:
        """Make the next rows while the database works; from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._make_second)

    def _make_second(self) -> None:
        if len(self._made) == 1 and len(self.buffer) >= self.buffer.look_every:
            self._make_batch()

    def _make_batch(self) -> None:
        kept = self.buffer.take(BATCH, _BATCH_BYTES)
        last = self.buffer.passed
        batch = self._rows.batch(kept)
        if batch.unreadable:
            self._note_refused(batch.unreadable, batch.error)
        self._database.prepare(batch)
        self._made.append(_Made(batch, len(kept), last))

    async def _write_batch(self, batch: Batch) -> None:
        """Write a batch; if a row is refused, all the others."""
        if not batch.rows:
            return
        try:
            await self._database.write(batch)
            self.written += len(batch.rows)
        except BadRowsError as error:
            if len(batch.rows) == 1:
                self._note_refused(1, explain_error(error))
                return
            middle = len(batch.rows) // 2
            await self._write_batch(batch.part(0, middle))
            await self._write_batch(batch.part(middle, None))

    def _note_success(self, made: _Made) -> None:
        was_failing = self.is_failing
        self._stop_watch()
        self.buffer.done(made.count)
        self._answers.succeed()
        self._tell_dropped()
        # Not before there is room: else the warning would repeat again and again.
        has_room = len(self.buffer) <= self.buffer.most_entries // 2
        if was_failing or (self._is_dropping and has_room):
            self._is_dropping = False
            self._log_state("warning", "records_written_again", dropped=self.dropped)
        # Last: the waiters may look at everything else.
        self._answers.settle(made.last)

    def _note_failure(self, error: Exception) -> None:
        if not threading.main_thread().is_alive():
            # The program ends without a call of `close`.
            return
        if not self.is_failing:
            self._log_state(
                "error",
                "records_not_written",
                error=explain_error(error),
                waiting=self.waiting,
                hint="they are tried again until the database takes them",
            )
        # Last: the waiters may look at everything else.
        self._answers.fail()

    def _note_refused(self, count: int, error: str) -> None:
        self.refused += count
        self._log_state("error", "record_refused", count=count, error=error)

    def _tell_dropped(self) -> None:
        """Report dropped calls once, when it begins; their number comes on recovery."""
        dropped = self.buffer.dropped + self._abandoned
        if dropped > self._told_dropped and not self._is_dropping:
            self._is_dropping = True
            self._log_state("error", "records_dropped", dropped=dropped, waiting=self.waiting)
        self._told_dropped = dropped

    def _log_state(self, level: str, name: str, **fields: Any) -> None:
        getattr(_log, level)(name, **fields)
        if self._trouble is None:
            return
        if self._home is not None and self._home is not _running_loop():
            with suppress(RuntimeError):
                self._home.call_soon_threadsafe(self._trouble, name, fields)
                return
        self._trouble(name, fields)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def _has_ended(thread: threading.Thread, limit: float) -> bool:
    """Return True if a thread has ended within `limit` seconds."""
    await asyncio.to_thread(thread.join, limit)
    return not thread.is_alive()
