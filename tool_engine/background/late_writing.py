"""When, and in which order, are tasks written?

As soon as it is started, and each time it changes. But a caller may wait for it at first, and most
calls end meanwhile: such a task is written once it is to outlive its caller, and never before.

Of one task one change is written at a time: two connections of a database would write what came
first last, and a task that runs would be kept as one that waits, to be run again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from tool_engine.interfaces.task_storage import TaskStorage
from tool_engine.model.task import KeptTask, TaskState


class TaskWriter:
    """Writes the tasks of one engine.

    Args:
        storage: Where they are kept.
    """

    def __init__(self, storage: TaskStorage) -> None:
        self._storage = storage
        self._claiming = asyncio.Lock()
        """Held while the storage is asked for tasks that wait."""

    async def claim(
        self, worker: str, most: int, full: Collection[str], *, is_own: bool
    ) -> Sequence[KeptTask]:
        """Take tasks that wait, as `TaskStorage.claim`."""
        async with self._claiming:
            return await self._storage.claim(worker, most, full, is_own=is_own)

    def change_nowait(self, kept: KeptTask, state: TaskState) -> bool | None:
        """Write a state where that takes no time; None: it takes some, and nothing was done."""
        if kept.is_kept:
            return self._storage.change_nowait(kept, state)
        if _turn_of(kept).locked():
            return None
        kept.take_state(state)
        return True

    async def change(self, kept: KeptTask, state: TaskState) -> bool:
        """Write a state; False: the task has ended, or belongs to another engine, or is gone."""
        async with _turn_of(kept):
            # In order: what is being kept now is changed afterwards.
            if kept.is_kept:
                return await self._storage.change(kept, state)
            kept.take_state(state)
            return True

    async def write_news(self, kept: KeptTask) -> bool:
        """Write how a task is by now; False as of `change`."""
        async with _turn_of(kept):
            if not kept.is_kept or kept.state.is_final:
                return True
            return await self._storage.change(kept, kept.state)

    async def give_back(self, kept: KeptTask) -> bool:
        """Queue a task again that this engine has taken; False as of `change`."""
        # What is being asked for as an engine closes would take it once more.
        async with self._claiming:
            pass
        async with _turn_of(kept):
            return await self._storage.give_back(kept)

    async def keep(self, kept: KeptTask) -> bool:
        """Write a task that was not written so far; False: it has ended."""
        if not kept.is_kept:
            # What was begun is finished, also when its caller is cancelled in the middle of it.
            await asyncio.shield(asyncio.get_running_loop().create_task(self._keep_late(kept)))
        return kept.is_kept

    async def keep_new(self, kept: KeptTask) -> None:
        """Write a new task that has begun, with its end if it has ended."""
        async with _turn_of(kept):
            await self._storage.put(kept)
            kept.is_kept = True

    async def _keep_late(self, kept: KeptTask) -> None:
        async with _turn_of(kept):
            if not kept.is_kept and not kept.state.is_final:
                await self._storage.put(kept)
                kept.is_kept = True


def _turn_of(kept: KeptTask) -> asyncio.Lock:
    if kept.writing is None:
        kept.writing = asyncio.Lock()
    turn: asyncio.Lock = kept.writing
    return turn
