"""Who is next, of those that wait for units of several resources at once?

Both sides ask: the coordinator of all processes, and a process of its own calls. One that is held
up by a resource holds up those behind it which need that resource too, however little of it: a
heavy call is never starved by light ones of its bucket. It is held up by one thing at a time, by a
rate or a key before its bucket, so that a full key stands in the way of its own calls alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any

import msgspec

from tool_engine.admission.cluster.cluster_limits import ClusterLimits
from tool_engine.admission.cluster.lease_messages import IN_LINE
from tool_engine.model.settings.concurrency import BreakerPolicy

Rank = tuple[Any, ...]


class Entry(msgspec.Struct, array_like=True, eq=False):
    """One that waits, or has what it waited for.

    Args:
        owner: Whose it is: a life at the coordinator, nothing in a process.
        process: The process of the owner, which is served in its turn under `fair`.
        number: As in `Ticket`, and so are the others.
    """

    owner: str
    process: str
    number: int
    units: dict[str, int]
    place: int
    asked_at: float
    standing: int = IN_LINE
    priority: int = 5
    share: str = ""
    pace: float = 1.0
    breaker: str | None = None
    attempt: int = 0
    is_held: bool = False
    asks: bool = False
    asked_in: int = 0
    """The coordinator's message in which it came: what others say that had heard of it counts."""
    told_at: int | None = None
    """The coordinator's message since which it is known that this one, which asks, has to wait."""
    is_granted: bool = False
    line: Any = None
    """The line that it stands in; None: in none."""
    joined: int = 0
    """Which of all that ever joined it was: it may have stood in the line before."""
    limits: dict[str, int] = {}
    """In a process: as in `Ticket`, and so is the policy."""
    policy: BreakerPolicy | None = None


@dataclass(slots=True)
class Turns:
    """How much each key has been served, so that the one that got least is next."""

    served: dict[str, float] = field(default_factory=dict)
    floor: float = 0.0
    """What the last one that was served had got before: turns cannot be saved up below it."""

    def turn_of(self, key: str) -> float:
        """Return what a key has got; the smallest is next."""
        return max(self.served.get(key, 0.0), self.floor)

    def pay(self, key: str, cost: float) -> None:
        """Count what a key gets now."""
        turn = self.turn_of(key)
        self.floor = turn
        self.served[key] = turn + cost
        if len(self.served) > 1024:
            self.served = {key: turn for key, turn in self.served.items() if turn > self.floor}


class LineUp:
    """Those that wait, in lines of those that need the same.

    Args:
        limits: The strategy.
    """

    __slots__ = (
        *("_aging", "_lines", "_numbers", "processes", "shares", "_strategy"),
        *("counts", "owners"),
    )

    def __init__(self, limits: ClusterLimits) -> None:
        self._lines: dict[Any, list[tuple[Rank, int, Entry]]] = {}
        self._numbers = count(1)
        self.shares = Turns()
        self.processes: dict[str, Turns] = {}
        self.owners: dict[str, int] = {}
        """How many wait, by owner."""
        self.counts: dict[str, dict[str, int]] = {}
        """How many wait for a resource, by owner."""
        self.configure(limits)

    def configure(self, limits: ClusterLimits) -> None:
        """Order those that wait by another strategy, too."""
        self._strategy, self._aging = limits.strategy, limits.aging
        waiting = list(self.entries())
        for entry in waiting:
            self.leave(entry)
        self._lines.clear()
        for entry in waiting:
            self.join(entry)

    def join(self, entry: Entry) -> None:
        """Put one in its line."""
        units, owner = entry.units, entry.owner
        line: tuple[Any, ...] = (
            tuple(units) if len(units) == 1 else tuple(sorted(units)),
            entry.breaker,
        )
        if self._strategy == "fair":
            line += (entry.standing, entry.share, entry.process)
        entry.line, entry.joined = line, next(self._numbers)
        rank = self._rank_in_line(entry)
        heappush(self._lines.setdefault(line, []), (rank, entry.joined, entry))
        self.owners[owner] = self.owners.get(owner, 0) + 1
        for resource in units:
            owners = self.counts.get(resource)
            if owners is None:
                owners = self.counts[resource] = {}
            owners[owner] = owners.get(owner, 0) + 1

    def leave(self, entry: Entry) -> None:
        """Take one out, wherever it stands; its line forgets it when it comes to its head."""
        if entry.line is None:
            return
        entry.line = None
        for owners in (self.owners, *(self.counts[r] for r in entry.units)):
            owners[entry.owner] -= 1
            if not owners[entry.owner]:
                del owners[entry.owner]
        for resource in entry.units:
            if not self.counts[resource]:
                del self.counts[resource]

    def entries(self) -> list[Entry]:
        """Return all that wait, in no order."""
        return [
            entry
            for line, heap in self._lines.items()
            for _, joined, entry in heap
            if entry.line == line and entry.joined == joined
        ]

    def serve(
        self,
        has_room: Callable[[Entry, str], bool],
        may_go: Callable[[Entry], bool],
        take: Callable[[Entry], None],
    ) -> set[str]:
        """Serve all that can be served, in order.

        Args:
            has_room: Whether what one needs of a resource is free.
            may_go: Whether nothing but units holds one up.
            take: Takes the units of one, which then waits no more.

        Returns:
            The resources of which one that waits needs more.
        """
        while True:
            blocked: set[str] = set()
            touched: set[str] = set()
            heads = [self._find_head(line) for line in list(self._lines)]
            ranked = [(self.rank(each), each.joined, each) for each in heads if each is not None]
            heapify(ranked)
            while ranked:
                entry = heappop(ranked)[-1]
                # The next ones of a line are held up by the same: its first one stands for all.
                if not may_go(entry):
                    continue
                holding = self._find_holding(entry, has_room, blocked)
                if holding is not None:
                    blocked.add(holding)
                    touched |= entry.units.keys()
                    if entry.breaker is not None:
                        touched.add(entry.breaker)
                    continue
                line = entry.line
                self.leave(entry)
                self._pay_turn(entry)
                take(entry)
                # It may be another thing now that holds up one before it, as a breaker whose last
                # probe this one is; `fair` has another order.
                is_touched = entry.breaker in touched or not touched.isdisjoint(entry.units)
                if is_touched or self._strategy == "fair":
                    break
                if (head := self._find_head(line)) is not None:
                    heappush(ranked, (self.rank(head), head.joined, head))
            else:
                return blocked

    def rank(self, entry: Entry) -> Rank:
        """Return by what one is compared with all others; the smallest is next."""
        rank = self._rank_in_line(entry)
        if self._strategy != "fair":
            return rank
        processes = self.processes.get(entry.share)
        turn = 0.0 if processes is None else processes.turn_of(entry.process)
        return (entry.standing, self.shares.turn_of(entry.share), turn, *rank[1:])

    def _rank_in_line(self, entry: Entry) -> Rank:
        """Return what of its rank never changes."""
        tail = (entry.place, entry.process, entry.number)
        if self._strategy == "priority":
            key = entry.asked_at + self._aging * entry.priority
            return (entry.standing, key, *tail)
        return (entry.standing, *tail)

    def _find_head(self, line: Any) -> Entry | None:
        """Return the first of a line; an empty line is forgotten."""
        heap = self._lines[line]
        while heap and (heap[0][2].line != line or heap[0][2].joined != heap[0][1]):
            heappop(heap)
        if heap:
            return heap[0][2]
        del self._lines[line]
        return None

    def _find_holding(
        self, entry: Entry, has_room: Callable[[Entry, str], bool], blocked: set[str]
    ) -> str | None:
        """Return what holds one up; None: nothing does."""
        if behind := blocked & entry.units.keys():
            return behind.pop()  # it stands behind another one, and holds up nothing else
        for resource in sorted(entry.units, reverse=True):
            if not has_room(entry, resource):
                return resource
        return None

    def _pay_turn(self, entry: Entry) -> None:
        if self._strategy == "fair":
            cost = max(entry.units.values(), default=1)
            self.shares.pay(entry.share, cost / entry.pace)
            self.processes.setdefault(entry.share, Turns()).pay(entry.process, cost)
