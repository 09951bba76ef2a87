"""How many tasks may ask for a slot now, and how soon have others had one?"""

from __future__ import annotations

from collections import deque
from collections.abc import Set as AbstractSet
from time import monotonic
from typing import Final

MOST: Final = 64
"""The most tasks that wait in line at once."""
EACH: Final = 4
"""The most of one tool."""
_ASKING: Final = 1_000
"""The most tasks of one tool that wait for consent at once: others need none of the answers."""
_LOOKED_AT: Final = 64
"""Tasks whose beginnings say how soon the next ones will come."""


class Places:
    """Counts the tasks that wait in line for a slot, and those that wait for consent."""

    __slots__ = ("_asking", "_begun", "_full", "_in_all", "_of_tools")

    def __init__(self) -> None:
        self._in_all = 0
        self._asking: dict[str, int] = {}
        self._of_tools: dict[str, int] = {}
        self._full: set[str] = set()
        self._begun: deque[float] = deque(maxlen=_LOOKED_AT)

    def __repr__(self) -> str:
        return f"<Places {self._in_all} in line, {sum(self._asking.values())} asking>"

    @property
    def room(self) -> int:
        """How many tasks more may come into the line, of as many tools."""
        return MOST - self._in_all

    def has_room(self, tool_name: str) -> bool:
        """Return True if a task of a tool may come into the line."""
        return self._in_all < MOST and tool_name not in self._full

    @property
    def full(self) -> AbstractSet[str]:
        """The tools of which no more may come."""
        return self._full

    @property
    def share(self) -> int:
        """How many may be taken at once, of whichever tools."""
        return min(self.room, EACH)

    def join_line(self, tool_name: str) -> None:
        """Note that a task waits in line."""
        count = self._of_tools[tool_name] = self._of_tools.get(tool_name, 0) + 1
        self._in_all += 1
        if count >= EACH:
            self._full.add(tool_name)

    def leave_line(self, tool_name: str) -> None:
        """Note that a task waits there no more."""
        count = self._of_tools.pop(tool_name) - 1
        self._in_all -= 1
        if count:
            self._of_tools[tool_name] = count
        self._look_for_room(tool_name)

    def note_asking(self, tool_name: str, change: int) -> None:
        """Note that a task waits for consent, or does so no more."""
        self._asking[tool_name] = self._asking.get(tool_name, 0) + change
        self._look_for_room(tool_name)
        if not self._asking[tool_name]:
            del self._asking[tool_name]

    def _look_for_room(self, tool_name: str) -> None:
        asking, in_line = self._asking.get(tool_name, 0), self._of_tools.get(tool_name, 0)
        if in_line >= EACH or asking >= _ASKING:
            self._full.add(tool_name)
        else:
            self._full.discard(tool_name)

    def note_begun(self) -> None:
        """Note that a task has its slot."""
        self._begun.append(monotonic())

    def estimate_wait(self, ahead: int) -> float | None:
        """Return the seconds until so many tasks and those in line have begun, as of late.

        None: there is nothing to go by.
        """
        if len(self._begun) < 2:
            return None
        now, first, last = monotonic(), self._begun[0], self._begun[-1]
        each = (last - first) / (len(self._begun) - 1)
        # Where none has begun for longer than that, it goes on more slowly.
        each = max(each, (now - first) / len(self._begun))
        return (ahead + self._in_all + 1) * each - min(now - last, each)
