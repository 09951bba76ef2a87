"""How do the calls that wait come into the database, whatever happens to it meanwhile?

One task takes them in batches. A batch that the database does not take stays in hand and is tried
again, later and later; only a row that the database refuses for what it says is let go.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from tool_engine.knowledge.sql.address import explained
from tool_engine.knowledge.sql.buffer import RecordBuffer
from tool_engine.knowledge.sql.failing import BadRowsError, BusyError
from tool_engine.knowledge.sql.rows import Batch, RowMaker
from tool_engine.logger import get_logger

__all__ = ["BATCH", "Database", "RecordWriter", "Trouble"]

_log: Final = get_logger(__name__)
BATCH: Final = 2_000
"""Calls per transaction at most."""
_BATCH_BYTES: Final = 16 * 1024 * 1024
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 2.0
_COMMIT_LIMIT: Final = 5.0
"""Seconds that a call waits for the commit of its record at most."""

Trouble = Callable[[str, dict[str, Any]], None]
"""Told the name and the fields of what is logged."""


class Database(Protocol):
    """What takes the rows: all that differs between two databases when writing."""

    async def write(self, batch: Batch) -> None:
        """Writes and commits all rows, or none; a row that is there already is left as it is.

        Connects first, and again after a failure.

        Raises:
            BadRowsError: It refuses one of the rows, and would again.
            BusyError: Somebody else holds the database locked.
        """
        ...

    async def close(self) -> None:
        """Gives up the connection; it may be opened again."""
        ...


class RecordWriter:
    """Writes what is added to its buffer, behind the calls.

    Args:
        database: Where to.
        interval: Seconds that a call may wait for others to be written with it.
        trouble: Told when records cannot be written, are dropped, and are written again.
    """

    def __init__(self, database: Database, interval: float, trouble: Trouble | None = None) -> None:
        self.buffer = RecordBuffer(self._attend)
        self.is_failing = False
        """Whether the database did not take the last batch, for another reason than a lock."""
        self.refused = 0
        """Calls that no row could be made of, or whose row the database refused."""
        self.written = 0
        self._database = database
        self._interval = interval
        self._trouble = trouble
        self._rows = RowMaker()
        self._batch: Batch | None = None
        self._in_hand = 0
        self._last_in_hand = 0
        self._settled = 0
        """The number of the newest call of which it is known whether it is kept."""
        self._waiters: deque[tuple[int, asyncio.Future[bool]]] = deque()
        self._bell = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_closing = False
        self._abandoned = 0
        self._told_dropped = 0
        self._is_dropping = False

    def __repr__(self) -> str:
        state = "closed" if self._is_closing else "failing" if self.is_failing else "writing"
        return f"<RecordWriter {state}, {self.waiting} waiting, {self.dropped} dropped>"

    @property
    def waiting(self) -> int:
        """Calls that are not in the database yet."""
        return len(self.buffer) + self._in_hand

    @property
    def dropped(self) -> int:
        """Calls that are kept nowhere."""
        return self.buffer.dropped + self.refused + self._abandoned

    async def flush(self, limit: float) -> bool:
        """Waits until all that was added is in the database.

        Returns:
            Whether it is; False at once while the database takes nothing, and after `limit`
            seconds.
        """
        number = self.buffer.added
        if number <= self._settled:
            return True
        if self.is_failing or self._is_closing or not self._start():
            return False
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiters.append((number, waiter))
        self._bell.set()
        try:
            async with asyncio.timeout(limit):
                return await waiter
        except TimeoutError:
            return False

    async def committed(self) -> bool:
        """Waits for the commit of all that was added, many calls for one commit."""
        return await self.flush(_COMMIT_LIMIT)

    async def close(self, limit: float) -> None:
        """Writes what is left, within `limit` seconds; what comes later is dropped."""
        if self.waiting and not self._is_closing:
            self._start()
        self._is_closing = True
        self._bell.set()
        task, self._task = self._task, None
        if task is not None and self._loop is asyncio.get_running_loop():
            await asyncio.wait([task], timeout=limit)
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
        self._stop_timer()
        self._settle(self.buffer.added, is_kept=not self.waiting)
        self._abandoned += self._in_hand
        self._in_hand, self._batch = 0, None
        self._let_go()
        await self._database.close()

    def _let_go(self) -> None:
        """After the end nothing is written any more."""
        self.buffer.clear()
        self.buffer.rest()
        self._tell_dropped()

    def _attend(self) -> None:
        """Something was added after a rest, or a lot was."""
        if self._is_closing:
            if self._task is None:
                self._let_go()
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._attend_elsewhere()
            return
        if not self._start(loop):
            return
        if len(self.buffer) >= self.buffer.look_every or self._interval == 0.0:
            self._ring()
        elif self._timer is None:
            self._timer = loop.call_later(self._interval, self._ring)
        self._tell_dropped()

    def _attend_elsewhere(self) -> None:
        """It was added by another thread, or while no loop runs: then by the next who asks."""
        self.buffer.rest()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._bell.set)

    def _start(self, loop: asyncio.AbstractEventLoop | None = None) -> bool:
        """Whether the task runs; starts it where it does not, also on a new loop."""
        loop = loop or asyncio.get_running_loop()
        if self._task is not None and not self._task.done():
            if self._loop is loop:
                return True
            if self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._bell.set)
                return False
        self._loop, self._timer, self._bell = loop, None, asyncio.Event()
        self._waiters.clear()
        self._task = loop.create_task(self._run(), name="tool-engine-records")
        return True

    def _ring(self) -> None:
        self._stop_timer()
        self._bell.set()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _run(self) -> None:
        pause = _FIRST_PAUSE
        await self._next_bell()
        while True:
            if not await self._write_waiting():
                await self._pause(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
                continue
            pause = _FIRST_PAUSE
            if self._is_closing and not self.waiting:
                return
            self.buffer.rest()
            if self.buffer:
                self._attend()
            await self._next_bell()

    async def _next_bell(self) -> None:
        await self._bell.wait()
        self._bell.clear()

    async def _pause(self, seconds: float) -> None:
        """Waits until the next try; what is added is no reason to try sooner, the end is."""
        if self._is_closing:
            await asyncio.sleep(_FIRST_PAUSE)
            return
        try:
            async with asyncio.timeout(seconds):
                while not self._is_closing:
                    await self._next_bell()
        except TimeoutError:
            pass

    async def _write_waiting(self) -> bool:
        """Writes what waits now; whether the database took it."""
        newest = self.buffer.added
        while self._batch is not None or self._has_due(newest):
            if self._batch is None:
                await self._take()
            try:
                await self._write(self._batch)
            except BusyError:
                return False
            except Exception as error:  # noqa: BLE001 - every driver has failures of its own
                self._fail(error)
                return False
            self._succeed()
        return True

    def _has_due(self, newest: int) -> bool:
        """Whether calls wait that are not newer than `newest`, or a whole lot of newer ones."""
        waiting = len(self.buffer)
        is_old = self.buffer.added - waiting < newest
        return waiting > 0 and (is_old or waiting >= self.buffer.look_every or self._is_closing)

    async def _take(self) -> None:
        kept = self.buffer.take(BATCH, _BATCH_BYTES)
        self._in_hand = len(kept)
        self._last_in_hand = self.buffer.added - len(self.buffer)
        batch = await asyncio.to_thread(self._rows.batch, kept)
        if batch.unreadable:
            self._refuse(batch.unreadable, batch.error)
        self._batch = batch

    async def _write(self, batch: Batch | None) -> None:
        """Writes a batch; where a row is refused, all the others."""
        if batch is None or not batch.rows:
            return
        try:
            await self._database.write(batch)
            self.written += len(batch.rows)
        except BadRowsError as error:
            if len(batch.rows) == 1:
                self._refuse(1, explained(error))
                return
            middle = len(batch.rows) // 2
            await self._write(batch.part(0, middle))
            await self._write(batch.part(middle, None))

    def _succeed(self) -> None:
        self._batch, self._in_hand = None, 0
        self._settle(self._last_in_hand, is_kept=True)
        self._tell_dropped()
        if self.is_failing or self._is_dropping:
            self.is_failing = self._is_dropping = False
            self._tell("warning", "records_written_again", dropped=self.dropped)

    def _fail(self, error: Exception) -> None:
        if not self.is_failing:
            self.is_failing = True
            self._tell(
                "error",
                "records_not_written",
                error=explained(error),
                waiting=self.waiting,
                hint="they are tried again until the database takes them",
            )
        self._answer(self.buffer.added, is_kept=False)

    def _settle(self, number: int, *, is_kept: bool) -> None:
        self._settled = max(self._settled, number)
        self._answer(number, is_kept=is_kept)

    def _answer(self, number: int, *, is_kept: bool) -> None:
        while self._waiters and self._waiters[0][0] <= number:
            _, waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(is_kept)

    def _refuse(self, count: int, error: str) -> None:
        self.refused += count
        self._tell("error", "record_refused", count=count, error=error)

    def _tell_dropped(self) -> None:
        """Once, when it begins; how many it were is told when records are written again."""
        dropped = self.buffer.dropped + self._abandoned
        if dropped > self._told_dropped and not self._is_dropping:
            self._is_dropping = True
            self._tell("error", "records_dropped", dropped=dropped, waiting=self.waiting)
        self._told_dropped = dropped

    def _tell(self, level: str, name: str, **fields: Any) -> None:
        getattr(_log, level)(name, **fields)
        if self._trouble is not None:
            self._trouble(name, fields)
