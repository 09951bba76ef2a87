"""How are tasks kept without a database?"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from datetime import datetime
from heapq import heapify, heappop, heappush
from itertools import count
from time import monotonic
from typing import Any, Final

from tool_engine.interfaces import RecordStorage
from tool_engine.model.json.copying import refuse_copying
from tool_engine.model.record import CallEntry
from tool_engine.model.task import FINAL, QUEUED, RUNNING, WAITING, KeptTask, TaskState

_RESTS: Final = 20.0
"""For how many times as long as it took the order of the queued tasks is taken for true."""
_SPARE: Final = 64
"""Ends of tasks that were forgotten early, kept beside twice as many as are there."""
_Entry = tuple[int, int, KeptTask]


@refuse_copying("make another one")
class MemoryTaskStorage:
    """Keeps tasks for one engine, as long as it lives."""

    is_shared = False
    may_put_late = False

    def __init__(self) -> None:
        self._tasks: dict[str, KeptTask] = {}
        self._by_key: dict[tuple[str | None, str], KeptTask] = {}
        self._by_owner: dict[str, dict[str, KeptTask]] = {}
        # One line for each tool: one whose window is full does not stand in the way of others.
        self._lines: dict[str, list[_Entry]] = {}
        # Of those that were queued, and of those that have ended; some are gone since.
        self._expiries: list[tuple[datetime, int, str]] = []
        self._ends: list[tuple[datetime, int, str]] = []
        self._numbers = count(1)
        self._ranks: list[tuple[int, int]] = []
        self._ranked_until = 0.0

    def __repr__(self) -> str:
        return f"<MemoryTaskStorage {len(self._tasks)} tasks>"

    async def read_time(self) -> float | None:
        """Return None: one program has it."""
        return None

    async def put(self, task: KeptTask) -> KeptTask:
        """Keep a new task, and return it; or the one with its owner and its `key`."""
        return self.put_nowait(task)

    def put_nowait(self, task: KeptTask) -> KeptTask:
        """Keep a new task at once; see `put`."""
        if task.key is not None:
            kept = self._by_key.setdefault((task.state.owner, task.key), task)
            if kept is not task:
                return kept
        task.number = next(self._numbers)
        state = task.state
        self._tasks[state.id] = task
        if state.owner is not None:
            self._by_owner.setdefault(state.owner, {})[state.id] = task
        if state.status == QUEUED and task.worker is None:
            self._queue_task(task)
        elif state.status in FINAL:
            self._note_end(task)
        return task

    async def get(self, task_id: str, owner: str | None = None) -> KeptTask | None:
        """Return a task, or None; with an owner, one of others is none."""
        found = self._tasks.get(task_id)
        return found if found is not None and owner in (None, found.state.owner) else None

    async def get_by_key(self, owner: str, key: str) -> KeptTask | None:
        """Return the task that an owner has started with a key, or None."""
        return self._by_key.get((owner, key))

    async def count_kept(self, owner: str) -> int:
        """Return how many tasks of an owner are kept."""
        return len(self._by_owner.get(owner, ()))

    async def find_first_end(self, owner: str) -> datetime | None:
        """Return when the first of an owner's ended tasks is forgotten."""
        own = self._by_owner.get(owner, {}).values()
        return min((each.state.expires_at for each in own if each.state.is_final), default=None)

    async def list(
        self,
        owner: str | None,
        status: str | None,
        limit: int,
        after: str | None,
        tool_name: str | None = None,
        *,
        results: bool = False,
        now: datetime | None = None,
    ) -> Sequence[TaskState]:
        """Return states, the newest first."""
        last = self._tasks.get(after) if after is not None else None
        found: list[TaskState] = []
        known = self._tasks if owner is None else self._by_owner.get(owner, {})
        for task in reversed(known.values()):
            if len(found) >= limit:
                break
            state = task.state
            is_older = last is None or task.number < last.number
            is_meant = status in (None, state.status) and tool_name in (None, state.tool_name)
            if is_older and is_meant and not state.is_over(now):
                found.append(state if results else state.without_result())
        return found

    async def count_ahead(self, task: KeptTask, most: int) -> int:
        """Return how many queued tasks come before a queued one, or `most` where more do."""
        began = monotonic()
        if began >= self._ranked_until:
            lines = self._lines.values()
            free = (entry for line in lines for entry in line if _is_free(entry[2]))
            self._ranks = sorted((priority, number) for priority, number, _ in free)
            # However many ask at once, this takes a small part of the time.
            self._ranked_until = began + (monotonic() - began) * _RESTS
        return min(most, bisect_left(self._ranks, (task.priority, task.number)))

    async def claim(
        self, worker: str, limit: int, full: Collection[str] = (), *, is_own: bool = False
    ) -> Sequence[KeptTask]:
        """Give queued tasks to the engine, the first in order: all are its own."""
        del is_own
        found: list[KeptTask] = []
        open_lines = {name: line for name, line in self._lines.items() if name not in full}
        while len(found) < limit and open_lines:
            name, line = min(open_lines.items(), key=lambda each: each[1][0][:2])
            task = heappop(line)[2]
            if not line:
                del self._lines[name], open_lines[name]
            if _is_free(task):
                task.worker = worker
                found.append(task)
        return found

    async def claim_expired(self, worker: str, now: datetime, limit: int) -> Sequence[KeptTask]:
        """Give queued tasks to the engine whose time is over."""
        found: list[KeptTask] = []
        while len(found) < limit and self._expiries and self._expiries[0][0] <= now:
            task = self._tasks.get(heappop(self._expiries)[2])
            if task is not None and _is_free(task):
                task.worker = worker
                found.append(task)
        return found

    async def take(self, task_id: str, worker: str) -> KeptTask | None:
        """Give a queued task that is not taken to the engine."""
        task = self._tasks.get(task_id)
        if task is None or not _is_free(task):
            return None
        task.worker = worker
        return task

    async def change(self, task: KeptTask, state: TaskState) -> bool:
        """Write a state; False: the task has ended, or is gone."""
        return self.change_nowait(task, state)

    def change_nowait(self, task: KeptTask, state: TaskState) -> bool:
        """Write a state at once; see `change`."""
        before = task.state
        if before.status in FINAL or self._tasks.get(before.id) is not task:
            return False
        if before.status == RUNNING and state.status in WAITING:
            return False
        task.take_state(state)
        if state.status in FINAL:
            self._note_end(task)
        return True

    def _note_end(self, task: KeptTask) -> None:
        heappush(self._ends, (task.state.expires_at, task.number, task.state.id))
        if len(self._ends) > _SPARE + 2 * len(self._tasks):
            self._tidy_ends()

    def _tidy_ends(self) -> None:
        """Leave out those that were forgotten before their time was over."""
        self._ends = [each for each in self._ends if each[2] in self._tasks]
        heapify(self._ends)

    def hold_record(self, task_id: str, record: CallEntry, records: RecordStorage) -> bool:
        """Return False: memory is written at once."""
        del task_id, record, records
        return False

    def release_record(self, task_id: str) -> None:
        """Do nothing: none is held."""

    async def give_back(self, task: KeptTask) -> bool:
        """Queue a task again."""
        if task.state.is_final:
            return False
        task.worker = None
        self._queue_task(task)
        return True

    async def ask_cancel(self, task_id: str, reason: str) -> bool:
        """Return False: an engine's own tasks are cancelled directly."""
        del task_id, reason
        return False

    async def beat(self, worker: str) -> dict[str, int]:
        """Return the only worker that there is."""
        return {worker: 1}

    async def list_own(self, worker: str) -> Sequence[tuple[str, str | None]]:
        """Return none: see `ask_cancel`."""
        del worker
        return []

    async def retire(self, worker: str) -> None:
        """Do nothing: an engine's memory goes with it."""

    async def inherit(self, worker: str, heir: str) -> Sequence[KeptTask]:
        """Return none: an engine's memory goes with it."""
        del worker, heir
        return []

    async def remove(self, task_id: str) -> bool:
        """Forget a task that has ended; False: it has not, or is gone."""
        task = self._tasks.get(task_id)
        if task is None or not task.state.is_final:
            return False
        self._forget_task(task)
        return True

    async def remove_expired(self, now: datetime) -> int:
        """Forget the ended tasks whose time is over."""
        ends, count_removed = self._ends, 0
        while ends and ends[0][0] <= now:
            task = self._tasks.get(heappop(ends)[2])
            if task is not None:
                self._forget_task(task)
                count_removed += 1
        return count_removed

    def _forget_task(self, task: KeptTask) -> None:
        state = task.state
        del self._tasks[state.id]
        if state.owner is not None:
            own = self._by_owner[state.owner]
            del own[state.id]
            if not own:
                del self._by_owner[state.owner]
        if task.key is not None:
            del self._by_key[state.owner, task.key]

    def _queue_task(self, task: KeptTask) -> None:
        state = task.state
        heappush(self._expiries, (state.expires_at, task.number, state.id))
        line = self._lines.setdefault(state.tool_name, [])
        heappush(line, (task.priority, task.number, task))


def _is_free(task: Any) -> bool:
    return task.worker is None and task.state.status == QUEUED
