"""Which records are written together with the end of their tasks?

A task's last state and the record of its call are one commit: so a kill leaves both or neither, and
the end of a task costs as much as that of a call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import msgspec

from tool_engine.errors import RecordsUnavailableError
from tool_engine.knowledge.sql.database_errors import BadRowsError
from tool_engine.knowledge.sql.schema.rows import Batch, RowMaker
from tool_engine.knowledge.sql.writing.answers import Answers
from tool_engine.model.record import CallEntry


class HeldRecord(msgspec.Struct, eq=False):
    """A record that waits for the end of its task."""

    record: CallEntry
    batch: Batch | None = None
    """Its rows, once they were made: another try writes the same ones, so they are there once."""


class HeldRecords:
    """Holds the records of calls that have ended until their tasks are written.

    Args:
        add: Takes a record that is written as any other one.
    """

    def __init__(self, add: Callable[[CallEntry], None]) -> None:
        self.add = add
        self._held: dict[str, HeldRecord] = {}
        self._rows = RowMaker()
        self._sent = 0
        self._answers = Answers()

    def hold(self, task_id: str, record: CallEntry) -> None:
        """Hold a record until its task is written; never waits."""
        self._held[task_id] = HeldRecord(record)

    def take(self, task_id: str) -> HeldRecord | None:
        """Return the record of a task that is about to be written; None: none is held."""
        return self._held.pop(task_id, None)

    def make_rows(self, held: HeldRecord) -> Batch:
        """Return the rows of a record; in one thread at a time."""
        if held.batch is None:
            held.batch = self._rows.batch([held.record])
        return held.batch

    def release(self, task_id: str) -> None:
        """Let a record be written as any other one, unless its task was written."""
        held = self._held.pop(task_id, None)
        if held is not None:
            self.add(held.record)

    @contextmanager
    def writing(self, task_id: str, held: HeldRecord | None) -> Iterator[None]:
        """Take note of what is written within; the record is held again where that fails."""
        if held is None:
            yield
            return
        self._sent = number = self._sent + 1
        try:
            yield
            if held.batch is not None and held.batch.unreadable:
                # The writer of the others says so.
                self.add(held.record)
        except RecordsUnavailableError as error:
            if isinstance(error.__cause__, BadRowsError):
                self.add(held.record)
            else:
                self._held[task_id] = held
            raise
        finally:
            # In order: a file takes one change after the other.
            self._answers.settle(number)

    async def settle(self, limit: float) -> None:
        """Wait until those that are being written are; the others are written as any other one.

        Args:
            limit: Seconds to wait at most.
        """
        for task_id in list(self._held):
            self.release(task_id)
        answer = self._answers.asked(lambda: self._sent)
        if not isinstance(answer, bool):
            with suppress(TimeoutError):
                async with asyncio.timeout(limit):
                    await answer
