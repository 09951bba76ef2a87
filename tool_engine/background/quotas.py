"""How many more tasks may an owner start?

Those that have ended count, too, as long as they are kept: they take as much room. To count all of
an owner's at each start would cost more than the start, so a count allows for several. Several
engines on one database count for themselves: together they may keep a few more than allowed.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from time import monotonic
from typing import Final

from tool_engine.errors import TooManyTasksError
from tool_engine.interfaces.task_storage import TaskStorage
from tool_engine.knowledge.shared_clock import SharedClock
from tool_engine.model.task import KeptTask

_SHARE: Final = 8
"""A count allows for this part of the room that is left, and for one task at least."""
_HOLDS: Final = 1.0
"""Seconds for which an owner is refused without another count."""
_MOST_OWNERS: Final = 10_000
"""Owners that are remembered; of one that is forgotten the tasks are counted anew."""


class _Room:
    """What is known of one owner."""

    __slots__ = ("came", "coming", "counting", "full_until", "left", "opens")

    def __init__(self) -> None:
        self.left = 0
        """How many may be started before the next count."""
        self.coming = 0
        """How many are on their way into the storage."""
        self.came = asyncio.Event()
        """Set while none is."""
        self.counting = asyncio.Lock()
        self.full_until = 0.0
        self.opens: float | None = None
        """Seconds until the first of its tasks is forgotten, when that was last looked at."""


class Quotas:
    """Bounds how many tasks each owner has.

    Args:
        storage: Where they are kept.
        clock: Says when some of them will be forgotten.
        most: How many an owner may have; None: any number.
    """

    def __init__(self, storage: TaskStorage, clock: SharedClock, most: int | None) -> None:
        self._storage = storage
        self._clock = clock
        self._most = most
        self._rooms: OrderedDict[str, _Room] = OrderedDict()

    async def take_room(self, task: KeptTask) -> KeptTask | None:
        """Count a task that is about to be kept; `leave` follows, unless this returns a task.

        Returns:
            None; or, where there is no room, the task that its owner has started with the same key.

        Raises:
            TooManyTasksError: Its owner has as many as it may have.
        """
        owner = task.state.owner
        if owner is None or self._most is None:
            return None
        room = self._find_room(owner)
        if room.left <= 0 and not await self._count_in_turn(owner, room, self._most):
            earlier = None
            if task.key is not None:
                earlier = await self._storage.get_by_key(owner, task.key)
            if earlier is None or earlier.state.is_over(self._clock.now()):
                raise self._explain_full(owner, room)
            return earlier
        room.left -= 1
        room.coming += 1
        room.came.clear()
        return None

    def leave(self, task: KeptTask) -> None:
        """Note that a task is kept now, or will never be."""
        room = self._rooms.get(task.state.owner or "")
        if room is not None and room.coming:
            room.coming -= 1
            if not room.coming:
                room.came.set()

    def look_again(self) -> None:
        """Count anew for those who were refused, since a task was forgotten."""
        for room in self._rooms.values():
            room.full_until = 0.0

    def _find_room(self, owner: str) -> _Room:
        room = self._rooms.get(owner)
        if room is None:
            room = self._rooms[owner] = _Room()
            if len(self._rooms) > _MOST_OWNERS:
                self._rooms.popitem(last=False)
        self._rooms.move_to_end(owner)
        return room

    async def _count_in_turn(self, owner: str, room: _Room, most: int) -> bool:
        """Find room for a task, while no other one looks for it; False: there is none."""
        async with room.counting:
            while room.left <= 0:
                if monotonic() < room.full_until:
                    return False
                coming = room.coming
                # What is on its way may be counted, or come while it is counted: both at most.
                free = most - await self._storage.count_kept(owner) - coming
                if free > 0:
                    room.left = max(1, free // _SHARE)
                elif coming:
                    await room.came.wait()
                else:
                    await self._note_full(owner, room)
        return True

    async def _note_full(self, owner: str, room: _Room) -> None:
        room.full_until = monotonic() + _HOLDS
        first = await self._storage.find_first_end(owner)
        seconds = None if first is None else (first - self._clock.now()).total_seconds()
        room.opens = None if seconds is None else max(seconds, _HOLDS)

    def _explain_full(self, owner: str, room: _Room) -> TooManyTasksError:
        return TooManyTasksError(
            f"{self._most:,} tasks of {owner[:80]!r} are kept, which is the most; forget some that "
            "have ended, start tasks with a shorter ttl, or allow more with max_tasks_per_owner",
            retry_after=room.opens,
        )
