"""In which order are the tasks begun that wait for one tool, with one priority?

Owners take turns: each next task of an owner that waits in a line is due two turns after the one
before, and the first of an owner that has none there one turn after the first of the line. So what
others have there delays a task by one of each of them, however many they have; and since no task
joins the turn that is being served, none waits for ever while new owners come. A line that was
empty begins where others have come to, and a task that was given back goes before all.

The database does the same in its statements: see `tool_engine.knowledge.sql.task_statements`.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TypeAlias

from tool_engine.model.task import QUEUED, KeptTask

Place: TypeAlias = tuple[int, int, KeptTask]


class MemoryLine:
    """The tasks that wait for one tool, with one priority."""

    __slots__ = ("_again", "_owners", "_places")

    def __init__(self) -> None:
        # Some have left since.
        self._places: list[Place] = []
        self._again: list[Place] = []
        self._owners: dict[str | None, list[int]] = {}

    def join(self, task: KeptTask, reached: int) -> None:
        """Add a new task.

        Args:
            task: The task; its turn is noted in it.
            reached: The turn that other lines have come to.
        """
        first = _find_first(self._places)
        turn = (reached if first is None else first[0]) + 1
        own = self._owners.setdefault(task.state.owner, [0, -1])
        own[0] += 1
        task.turn = own[1] = max(turn, own[1] + 2)
        heappush(self._places, (task.turn, task.number, task))

    def join_again(self, task: KeptTask) -> None:
        """Add a task that was taken: it goes before all that were not."""
        task.turn = 0
        self._owners.setdefault(task.state.owner, [0, -1])[0] += 1
        heappush(self._again, (0, task.number, task))

    def leave(self, task: KeptTask) -> None:
        """Note that a task has been taken."""
        own = self._owners[task.state.owner]
        own[0] -= 1
        if not own[0]:
            del self._owners[task.state.owner]

    def find_first(self) -> Place | None:
        """Return the one that is next; None: none waits."""
        return _find_first(self._again) or _find_first(self._places)

    def list_places(self) -> list[Place]:
        """Return all that wait."""
        return [each for each in (*self._again, *self._places) if is_free(each[2])]


def is_free(task: KeptTask) -> bool:
    """Return True if a task waits in line."""
    return task.worker is None and task.state.status == QUEUED


def _find_first(places: list[Place]) -> Place | None:
    while places and not is_free(places[0][2]):
        heappop(places)
    return places[0] if places else None
