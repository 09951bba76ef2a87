"""How do tasks end because that is wished, wherever they are?

Of many at once those that wait in line end in two statements together: one takes them, and one
writes their ends. What runs is cancelled by the engine that runs it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any, Final

from tool_engine.background.feeding import Feeding
from tool_engine.background.new_task import check_owner
from tool_engine.interfaces.task_storage import TaskStorage
from tool_engine.model.call import Refusal
from tool_engine.model.checks.bounds import check_choice
from tool_engine.model.task import (
    FINAL,
    INPUT_REQUIRED,
    QUEUED,
    RUNNING,
    TASK_STATUSES,
    KeptTask,
    TaskState,
)

_PAGE: Final = 200
"""Tasks that end at once: making their results holds up the loop for that long."""


class Cancelling:
    """Ends tasks of one engine's storage.

    Args:
        storage: Where they are kept.
        feeding: Runs those of this engine.
        look_again: Reads how a task is by now.
    """

    def __init__(
        self, storage: TaskStorage, feeding: Feeding, look_again: Callable[[KeptTask], Any]
    ) -> None:
        self._storage = storage
        self._feeding = feeding
        self._look_again = look_again

    async def cancel_one(self, kept: KeptTask, reason: str | None) -> bool:
        """Cancel a task that was just read; False: it has ended."""
        refusal, runner = _make_refusal(reason), self._feeding.runner
        while not kept.state.is_final:
            task_id = kept.state.id
            if not runner.has_run(kept) and not await self._feeding.take_queued(task_id):
                return bool(await self._storage.ask_cancel([task_id], refusal.error))
            if await runner.end_run(kept, refusal) and kept.state.is_final:
                return True
            # It has ended otherwise, or another engine has it by now, which took this one for dead.
            await self._look_again(kept)
        return False

    async def cancel_all(
        self,
        owner: str | None,
        status: str | None,
        tool_name: str | None,
        reason: str | None,
        is_meant: Callable[[TaskState], bool],
    ) -> int:
        """Cancel the open tasks that are meant; return how many."""
        check_owner(owner)
        if status is not None:
            check_choice("status", status, TASK_STATUSES)
        if status in FINAL:
            return 0
        count, refusal = 0, _make_refusal(reason)
        # In the order in which a task goes through them: so none slips by.
        for each in (QUEUED, INPUT_REQUIRED, RUNNING) if status is None else (status,):
            after = None
            while page := await self._storage.list(owner, each, _PAGE, after, tool_name):
                count += await self._cancel_some([s.id for s in page if is_meant(s)], refusal)
                after = page[-1].id
        return count

    async def _cancel_some(self, task_ids: Collection[str], refusal: Refusal) -> int:
        runner = self._feeding.runner
        ended = await self._feeding.end_queued(task_ids, refusal)
        left = [each for each in task_ids if each not in ended]
        own = [
            run.kept for each in left if (run := runner.runs.get(each)) and runner.has_run(run.kept)
        ]
        ending = [asyncio.ensure_future(runner.end_run(kept, refusal)) for kept in own]
        if ending:
            await asyncio.wait(ending)
        of_others = {*left} - {kept.state.id for kept in own}
        asked = await self._storage.ask_cancel(of_others, refusal.error) if of_others else ()
        return len(ended) + sum(each.result() for each in ending) + len(asked)


def _make_refusal(reason: str | None) -> Refusal:
    return Refusal("cancelled", "the task was cancelled" + (f": {reason}" if reason else ""))
