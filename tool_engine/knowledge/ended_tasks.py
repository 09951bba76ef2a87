"""Which tasks have ended in one way, the newest first?"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterator

from tool_engine.model.task import KeptTask

_SPARE = 64
"""Tasks that are gone and still listed, beside as many as are there."""


class EndedTasks:
    """The tasks that ended in one way, in the order in which they were started.

    Args:
        kept: The ids of all tasks; what is not among them is gone.
    """

    __slots__ = ("_gone", "_kept", "_tasks")

    def __init__(self, kept: Collection[str]) -> None:
        self._kept = kept
        self._tasks: list[KeptTask] = []
        self._gone = 0

    def add(self, task: KeptTask) -> None:
        """Note that a task has ended so."""
        tasks = self._tasks
        if not tasks or tasks[-1].number < task.number:
            tasks.append(task)
        else:
            insort(tasks, task, key=_number_of)

    def note_gone(self) -> None:
        """Note that one of them is gone: the list of them may hold it for a while."""
        self._gone += 1
        if self._gone > _SPARE + len(self._tasks) // 2:
            self._tasks = [each for each in self._tasks if each.state.id in self._kept]
            self._gone = 0

    def list_newest(self, before: int | None) -> Iterator[KeptTask]:
        """Return them, the newest first; with a number, those that are older."""
        tasks, kept = self._tasks, self._kept
        end = len(tasks) if before is None else bisect_left(tasks, before, key=_number_of)
        return (tasks[at] for at in range(end - 1, -1, -1) if tasks[at].state.id in kept)


def _number_of(task: KeptTask) -> int:
    return task.number
