"""How do changes that are asked for at once share a commit?

A file takes one change after the other, and a commit costs more than what is in it. So who comes to
the turn to write takes along what the others wait for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import msgspec

from tool_engine.knowledge.sql.connection.database_errors import BadRowsError
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
    found: list[tuple[list[Any], int]] = []
    """The rows and the count of each step, once they are committed."""
    error: Exception | None = None
    """Why they are not."""
    is_done: bool = False


class ChangeQueue:
    """The changes that wait for their turn.

    Args:
        write: Makes and commits all of them, or none.
    """

    def __init__(self, write: Callable[[Sequence[Change]], Awaitable[None]]) -> None:
        self._write = write
        self._waiting: deque[Change] = deque()

    async def make(self, change: Change, turn: AbstractAsyncContextManager[Any]) -> None:
        """Write a change, with those that wait meanwhile; what comes of it is noted in it.

        Args:
            change: The change.
            turn: Held by one at a time, in the order in which they come.
        """
        self._waiting.append(change)
        async with turn:
            if not change.is_done:
                await self._write_group(change)
        if change.error is not None:
            raise change.error

    async def _write_group(self, first: Change) -> None:
        waiting = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST))]
        group = [change for change in waiting if not change.is_done]
        if first not in group:
            group.append(first)
        try:
            await self._write(group)
        except BadRowsError as error:
            if len(group) == 1:
                first.error = error
            else:
                await self._write_each(group)
        except Exception as error:  # noqa: BLE001 - each of them learns of it
            for change in group:
                change.error = error
        for change in group:
            change.is_done = True

    async def _write_each(self, group: Sequence[Change]) -> None:
        for change in group:
            try:
                await self._write([change])
            except Exception as error:  # noqa: BLE001 - each of them learns of its own
                change.error = error
