"""How many calls of one key may run, and which lanes wait for room in it?"""

from __future__ import annotations

import sys
from heapq import heapify, heappop, heappush
from math import inf
from typing import Any, Final

from tool_engine.admission.slot import ConcurrencySlot, Order

COMES_LAST: Final[Order] = (inf, 0, 0)
"""The order of a call that comes after all others."""
SHARED: Final = "cluster "
"""Before the name of a field: the scope of its keys whose limit processes share."""
_COMPACT_FROM: Final = 64


def name_resource(kind: str, value: str) -> str:
    """Return how processes name the units of a key that they share."""
    return f"key:{kind}:{value}"


def name_key(name: tuple[str, object]) -> str:
    """Return what people read for the name of a key."""
    scope, value = name
    is_of_tool = scope and not scope.startswith(SHARED)
    return f"the key of tool {scope!r}" if is_of_tool else f"key {value!r}"


def bound_usable(limit: int | None, leased: int, used: int) -> int:
    """Return how many units calls here may use: what other processes do with theirs is unknown."""
    units = max(leased, used, 1)
    return units if limit is None else min(units, limit)


class Key:
    """A limit that lanes of several lines share, and a share of what is free.

    Of the lanes that wait for room in it, only the best of each line above need to be tried when
    there is some: the others come after it there anyway.
    """

    __slots__ = (
        "__weakref__",
        "_heaps",
        "aside",
        "blocked",
        "credit",
        "first_blocked",
        "holders",
        "is_of_cluster",
        "lanes",
        "limit",
        "most",
        "name",
        "resource",
        "round",
        "selective",
        "used",
        "waiting",
        "weight",
    )

    def __init__(self, name: Any) -> None:
        self.name = name
        """The scope and the value."""
        self.resource: str | None = None
        """What its units are called among processes; None: it is this one's own."""
        self.is_of_cluster = False
        """Whether its tool's definition says that processes share it."""
        self.limit: int | None = None
        self.most = sys.maxsize
        """The limit as a number that can be compared; of one that processes share, the units that
        this one may use."""
        self.used = 0
        self.waiting = 0
        self.aside = 0
        """Those of them that count against no bound, as `Waiter.is_queued` says."""
        self.holders: set[ConcurrencySlot] = set()
        self.blocked: dict[Any, Order] = {}
        """Lanes whose first call waits for room in this key, and the turns of those calls."""
        self.selective: set[Any] = set()
        """Those of them that one free unit may not be enough for."""
        self.first_blocked: Order = COMES_LAST
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
        if self.resource is None:
            self.most = sys.maxsize if limit is None else limit

    def find_usable(self) -> int | None:
        """Return how many units its calls here may use, as `Bucket.find_usable`; None: any."""
        if self.resource is None:
            return self.limit
        return bound_usable(self.limit, self.most, self.used)

    def lets(self, weight: int, order: Order = COMES_LAST) -> bool:
        """Whether a call has room, and overtakes none that waits for more; by default a new one.

        A call that goes on may be alone above a limit that has shrunk meanwhile.
        """
        # What has run before must be able to go on, or it would wait without an end. Of a key that
        # processes share, another one may have what it lent: that is decided for all of them.
        is_alone = not self.used and order[0] == -inf and self.resource is None
        return (self.used + weight <= self.most or is_alone) and order <= self.first_blocked

    def block(self, lane: Any, order: Order, turn: Order, *, is_selective: bool) -> None:
        """Keep a lane until there is room for its first call.

        Args:
            lane: The lane.
            order: The place of its first call, which later ones must not overtake in this key.
            turn: Where the lane would stand in the line above.
            is_selective: Whether one free unit may not be enough for the call.
        """
        self.first_blocked = min(self.first_blocked, order)
        self.note_turn(lane, turn)
        if is_selective:
            self.selective.add(lane)
        else:
            self.selective.discard(lane)

    def note_turn(self, lane: Any, turn: Order) -> None:
        """Note where a lane that is blocked would stand by now."""
        self.blocked[lane] = turn
        # One heap for each line above: when there is room, only the best of each needs to be tried.
        heap = self._heaps.setdefault(lane.above, [])
        if len(heap) > _COMPACT_FROM and len(heap) > 2 * len(self.blocked):
            heap[:] = [entry for entry in heap if self.blocked.get(entry[1]) == entry[0]]
            heapify(heap)
        heappush(heap, (turn, lane))

    def unblock(self, lane: Any) -> None:
        """Forget a lane that is not blocked any more, or in which no call waits."""
        self.blocked.pop(lane, None)
        self.selective.discard(lane)
        if not self.blocked:
            self.first_blocked = COMES_LAST

    def lines(self) -> list[Any]:
        """Return the lines that lanes which are blocked would stand in."""
        return list(self._heaps)

    def best_below(self, above: Any) -> tuple[Order, Any] | None:
        """Return the lane that would be the first of those blocked in a line, and its turn."""
        heap = self._heaps.get(above, [])
        while heap:
            turn, lane = heap[0]
            if self.blocked.get(lane) == turn:
                return turn, lane
            heappop(heap)
        self._heaps.pop(above, None)
        return None

    def unblock_all(self) -> list[Any]:
        """Unblock all lanes, and return them in the order of their first calls."""
        lanes, self.blocked = self.blocked, {}
        self.first_blocked = COMES_LAST
        self.selective.clear()
        self._heaps.clear()
        return sorted(lanes, key=lambda lane: lane.first())
