"""How do changes that are asked for at once share a commit?

A file takes one change after the other, and a commit costs more than what is in it. So those that
are asked for in one turn of the loop, or while another one is written, are written together, by one
thread.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final

import msgspec

from tool_engine.knowledge.sql.database_errors import BadRowsError
from tool_engine.knowledge.sql.schema.rows import Batch

MOST: Final = 64
"""The most changes in one commit."""


class Change(msgspec.Struct, eq=False):
    """What is written as a whole, or not at all."""

    steps: Sequence[tuple[str, Any]]
    """Statements with their values."""
    prepare: Callable[[], Batch | None] | None = None
    """Completes the values, and returns the calls that are written with them; in the thread that
    writes, once for each try."""
    is_lasting: bool = True
    """Whether the commit waits for the disk, where commits do."""
    found: list[tuple[list[Any], int]] = []
    """The rows and the count of each step, once they are committed."""
    error: Exception | None = None
    """Why they are not."""
    is_done: bool = False
    end: asyncio.Future[None] | None = None
    """What its caller waits for."""


class ChangeQueue:
    """The changes that wait for their turn.

    Args:
        write: Makes and commits all of them, or none; in another thread.
    """

    def __init__(self, write: Callable[[Sequence[Change]], None]) -> None:
        self._write = write
        self._waiting: deque[Change] = deque()
        self._is_taken = False
        self._thread: ThreadPoolExecutor | None = None

    async def make(self, change: Change) -> None:
        """Write a change; what comes of it is noted in it.

        A caller that is cancelled waits for that: what was sent may be written after what follows.
        """
        loop, cancelled = asyncio.get_running_loop(), None
        self._waiting.append(change)
        if not self._is_taken:
            self._is_taken = True
            # What else is asked for in this turn of the loop shares the commit.
            loop.call_soon(self._pass_on)
        while not change.is_done:
            change.end = loop.create_future()
            try:
                await change.end
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled
        if change.error is not None:
            raise change.error

    def close(self) -> None:
        """End the thread, once it has written what it was given; it may be needed again."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown(wait=False)

    def _pass_on(self) -> None:
        """Let the next ones have their turn."""
        waiting = self._waiting
        group = [waiting.popleft() for _ in range(min(len(waiting), MOST))]
        if group:
            self._send_group(group)
        else:
            self._is_taken = False

    def _send_group(self, group: Sequence[Change]) -> None:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "tool-engine-changes")
        try:
            self._thread.submit(self._write_group, group, asyncio.get_running_loop())
        except RuntimeError as error:
            # The program ends: threads begin nothing more.
            for change in group:
                change.error = OSError(str(error))
            self._end_group(group)

    def _write_group(self, group: Sequence[Change], loop: asyncio.AbstractEventLoop) -> None:
        """Write changes, in the thread, and say so."""
        self._write_all(group)
        # A closed loop has none who waits.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._end_group, group)

    def _write_all(self, group: Sequence[Change]) -> None:
        try:
            self._write(group)
        except BadRowsError as error:
            if len(group) == 1:
                group[0].error = error
            else:
                for change in group:
                    self._write_all([change])
        except Exception as error:  # noqa: BLE001 - each of them learns of it
            for change in group:
                change.error = error

    def _end_group(self, group: Sequence[Change]) -> None:
        for change in group:
            change.is_done = True
            if change.end is not None and not change.end.done():
                change.end.set_result(None)
        self._pass_on()
