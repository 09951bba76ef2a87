"""How are tasks kept without a database?"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from heapq import heapify, heappop, heappush
from itertools import count
from time import monotonic
from typing import Final

from tool_engine.interfaces import RecordStorage
from tool_engine.knowledge.ended_tasks import EndedTasks
from tool_engine.knowledge.memory_line import MemoryLine, is_free
from tool_engine.model.json.copying import refuse_copying
from tool_engine.model.record import CallEntry
from tool_engine.model.task import FINAL, QUEUED, RUNNING, WAITING, KeptTask, TaskState

_RESTS: Final = 20.0
"""For how many times as long as it took the order of the queued tasks is taken for true."""
_SPARE: Final = 64
"""Ends of tasks that were forgotten early, kept beside twice as many as are there."""


@refuse_copying("make another one")
class MemoryTaskStorage:
    """Keeps tasks for one engine, as long as it lives."""

    is_shared = False
    may_put_late = False

    def __init__(self) -> None:
        self._tasks: dict[str, KeptTask] = {}
        self._by_key: dict[tuple[str | None, str], KeptTask] = {}
        self._by_owner: dict[str, dict[str, KeptTask]] = {}
        # One whose tool has no place does not stand in the way of others.
        self._lines: dict[tuple[int, str], MemoryLine] = {}
        # The latest turn that was given to the engine, by priority.
        self._reached: dict[int, int] = {}
        # Of those that were queued, and of those that have ended; some are gone since.
        self._expiries: list[tuple[datetime, int, str]] = []
        self._ends: list[tuple[datetime, int, str]] = []
        self._ended = {status: EndedTasks(self._tasks.keys()) for status in FINAL}
        self._numbers = count(1)
        self._ranks: list[tuple[int, int, int]] = []
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
            self._line_of(task).join(task, self._reached.get(task.priority, 0))
            self._note_expiry(task)
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
        found: list[TaskState] = []
        last = self._tasks.get(after) if after is not None else None
        for task in self._list_newest(owner, status, None if last is None else last.number):
            if len(found) >= limit:
                break
            state = task.state
            is_own = owner in (None, state.owner)
            is_meant = status in (None, state.status) and tool_name in (None, state.tool_name)
            if is_own and is_meant and not state.is_over(now):
                found.append(state if results else state.without_result())
        return found

    def _list_newest(
        self, owner: str | None, status: str | None, before: int | None
    ) -> Iterable[KeptTask]:
        """Return tasks of which those that are meant are some, the newest first."""
        if owner is None and status in self._ended:
            return self._ended[status].list_newest(before)
        known = self._tasks if owner is None else self._by_owner.get(owner, {})
        newest = reversed(known.values())
        return newest if before is None else (each for each in newest if each.number < before)

    async def count_ahead(self, task: KeptTask, most: int) -> int:
        """Return how many queued tasks come before a queued one, or `most` where more do."""
        began = monotonic()
        if began >= self._ranked_until:
            self._ranks = sorted(
                (priority, turn, number)
                for (priority, _), line in self._lines.items()
                for turn, number, _ in line.list_places()
            )
            # However many ask at once, this takes a small part of the time.
            self._ranked_until = began + (monotonic() - began) * _RESTS
        return min(most, bisect_left(self._ranks, (task.priority, task.turn, task.number)))

    async def claim(
        self, worker: str, limit: int, full: Collection[str] = (), *, is_own: bool = False
    ) -> Sequence[KeptTask]:
        """Give queued tasks to the engine, the first in order: all are its own."""
        del is_own
        found: list[KeptTask] = []
        while len(found) < limit:
            firsts = [
                (priority, *first)
                for (priority, tool_name), line in list(self._lines.items())
                if tool_name not in full and (first := line.find_first()) is not None
            ]
            if not firsts:
                break
            priority, turn, _, task = min(firsts)
            self._reached[priority] = max(turn, self._reached.get(priority, 0))
            self._give_task(task, worker)
            found.append(task)
        return found

    def _give_task(self, task: KeptTask, worker: str) -> None:
        line = self._line_of(task)
        line.leave(task)
        task.worker = worker
        if line.find_first() is None:
            del self._lines[task.priority, task.state.tool_name]

    async def claim_expired(self, worker: str, now: datetime, limit: int) -> Sequence[KeptTask]:
        """Give queued tasks to the engine whose time is over."""
        found: list[KeptTask] = []
        while len(found) < limit and self._expiries and self._expiries[0][0] <= now:
            task = self._tasks.get(heappop(self._expiries)[2])
            if task is not None and is_free(task):
                self._give_task(task, worker)
                found.append(task)
        return found

    async def take(self, task_ids: Collection[str], worker: str) -> Sequence[KeptTask]:
        """Give those tasks to the engine that are queued and not taken."""
        found = [self._tasks[each] for each in task_ids if each in self._tasks]
        free = [task for task in found if is_free(task)]
        for task in free:
            self._give_task(task, worker)
        return free

    async def change(self, task: KeptTask, state: TaskState) -> bool:
        """Write a state; False: the task has ended, or is gone."""
        return self.change_nowait(task, state)

    async def end_all(self, ends: Sequence[tuple[KeptTask, TaskState]]) -> Collection[str]:
        """Write the last states of tasks."""
        return {state.id for task, state in ends if self.change_nowait(task, state)}

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
        self._ended[task.state.status].add(task)
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
        self._line_of(task).join_again(task)
        self._note_expiry(task)
        return True

    async def ask_cancel(self, task_ids: Collection[str], reason: str) -> Collection[str]:
        """Return none: an engine's own tasks are cancelled directly."""
        del task_ids, reason
        return ()

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
        self._ended[state.status].note_gone()

    def _line_of(self, task: KeptTask) -> MemoryLine:
        return self._lines.setdefault((task.priority, task.state.tool_name), MemoryLine())

    def _note_expiry(self, task: KeptTask) -> None:
        heappush(self._expiries, (task.state.expires_at, task.number, task.state.id))
