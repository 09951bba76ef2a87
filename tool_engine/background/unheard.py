"""Which tasks has the database given to this engine, which never heard of it?

The answer may have been lost. Or it is on its way, for longer than some looks at the database take:
such a task will run yet, and must not be taken for one that does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress


class UnheardTasks:
    """Separates tasks whose answer was lost from those whose answer is on its way."""

    def __init__(self) -> None:
        self._asked = 0
        # In order: the first one was asked first.
        self._open: dict[int, None] = {}
        self._asked_before: dict[str, int] = {}
        self._are_heard: asyncio.Event | None = None

    def ask(self) -> int:
        """Note that the database is asked for tasks; return the number of the question."""
        self._asked += 1
        self._open[self._asked] = None
        return self._asked

    def hear(self, question: int) -> None:
        """Note that a question was answered, and what it gave is run; or that it never will be."""
        del self._open[question]
        if self._are_heard is not None and not self._open:
            self._are_heard.set()

    async def wait_until_heard(self, seconds: float) -> None:
        """Wait until no question is open any more; no longer than `seconds`."""
        if self._open:
            self._are_heard = asyncio.Event()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._are_heard.wait()

    def find_lost(self, task_ids: Collection[str]) -> list[str]:
        """Return the tasks whose answer was lost.

        Args:
            task_ids: Those that the database gave to this engine, and that it does not run.
        """
        before = self._asked_before
        self._asked_before = {each: before.get(each, self._asked) for each in task_ids}
        first = next(iter(self._open), self._asked + 1)
        # Of two looks one at least is newer than the end of a task that has just ended.
        return [each for each in task_ids if before.get(each, first) < first]
