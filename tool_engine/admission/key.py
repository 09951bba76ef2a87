"""What do the calls of one conversation, say, share, and which lanes wait for room in it?"""

from __future__ import annotations

import sys
from heapq import heapify, heappop, heappush
from math import inf
from typing import Any, Final

from tool_engine.admission.slot import ConcurrencySlot, Order

__all__ = ["NOBODY", "Key"]

NOBODY: Final[Order] = (inf, 0, 0)
"""The order of a call that comes after all others."""
_COMPACT_FROM: Final = 64


class Key:
    """A limit that lanes of several lines share, and a share of what is free.

    Of the lanes that wait for room in it, only the best of each line above need to be tried when
    there is some: the others come after it there anyway.
    """

    __slots__ = (
        "_heaps",
        "credit",
        "first_held_up",
        "held_up",
        "holders",
        "lanes",
        "limit",
        "most",
        "name",
        "round",
        "selective",
        "used",
        "waiting",
        "weight",
    )

    def __init__(self, name: Any) -> None:
        self.name = name
        """The scope and the value."""
        self.limit: int | None = None
        self.most = sys.maxsize
        """The limit as a number that can be compared."""
        self.used = 0
        self.waiting = 0
        self.holders: set[ConcurrencySlot] = set()
        self.held_up: dict[Any, Order] = {}
        """Lanes whose first call waits for room in this key, and the turns of those calls."""
        self.selective: set[Any] = set()
        """Those of them that one free unit may not be enough for."""
        self.first_held_up: Order = NOBODY
        """The order of the first call that there was too little room for."""
        self._heaps: dict[Any, list[tuple[Order, Any]]] = {}
        self.lanes: dict[Any, None] = {}
        """Those whose calls count against it."""
        self.weight = 1.0
        self.round = 0.0
        """Under `fair`: the round in which it was served last."""
        self.credit = 0.0
        """Under `fair`: what is left of its share of that round."""

    def set_limit(self, limit: int | None) -> None:
        """None: no limit."""
        self.limit = limit
        self.most = sys.maxsize if limit is None else limit

    def lets(self, weight: int, order: Order = NOBODY) -> bool:
        """Whether a call has room, and overtakes none that waits for more; by default a new one.

        A call that goes on may be alone above a limit that has shrunk meanwhile.
        """
        is_alone = not self.used and order[0] == -inf
        return (self.used + weight <= self.most or is_alone) and order <= self.first_held_up

    def hold_up(self, lane: Any, order: Order, turn: Order, *, is_selective: bool) -> None:
        """Keeps a lane until there is room for its first call.

        Args:
            lane: The lane.
            order: The place of its first call, which later ones must not overtake in this key.
            turn: Where the lane would stand in the line above.
            is_selective: Whether one free unit may not be enough for the call.
        """
        self.first_held_up = min(self.first_held_up, order)
        self.keep(lane, turn)
        if is_selective:
            self.selective.add(lane)
        else:
            self.selective.discard(lane)

    def keep(self, lane: Any, turn: Order) -> None:
        """Notes where a lane that is held up would stand by now."""
        self.held_up[lane] = turn
        heap = self._heaps.setdefault(lane.above, [])
        if len(heap) > _COMPACT_FROM and len(heap) > 2 * len(self.held_up):
            heap[:] = [entry for entry in heap if self.held_up.get(entry[1]) == entry[0]]
            heapify(heap)
        heappush(heap, (turn, lane))

    def drop(self, lane: Any) -> None:
        """A lane is not held up any more, or there is nobody in it."""
        self.held_up.pop(lane, None)
        self.selective.discard(lane)
        if not self.held_up:
            self.first_held_up = NOBODY

    def lines(self) -> list[Any]:
        """The lines that lanes which are held up would stand in."""
        return list(self._heaps)

    def best_below(self, above: Any) -> tuple[Order, Any] | None:
        """The lane that would be the first of those held up in a line, and its turn."""
        heap = self._heaps.get(above, [])
        while heap:
            turn, lane = heap[0]
            if self.held_up.get(lane) == turn:
                return turn, lane
            heappop(heap)
        self._heaps.pop(above, None)
        return None

    def let_up(self) -> list[Any]:
        """All lanes that were held up, in the order of their first calls."""
        lanes, self.held_up = self.held_up, {}
        self.first_held_up = NOBODY
        self.selective.clear()
        self._heaps.clear()
        return sorted(lanes, key=lambda lane: lane.first())
