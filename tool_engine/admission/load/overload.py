"""Do calls of a bucket wait too long because more come than it can serve, or is it only a burst?

A burst leaves the queue again: some call waits little. Where for a whole interval none does, more
come than go, and to wait does not help.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from math import inf
from typing import Any, Final

from tool_engine.admission.slot import Order
from tool_engine.admission.waiting import Waiter
from tool_engine.model.settings.concurrency import ADAPTIVE_LIFO, CODEL, OverloadPolicy

_COMPACT_FROM: Final = 64


class OverloadWatch:
    """Whether a bucket is overloaded, from the waits of calls whose turn comes.

    It knows no clock: every `now` is a reading of one monotonic clock of the caller's.

    Args:
        policy: What is too long.
    """

    __slots__ = ("_began", "_is_over", "_least", "policy", "shed")

    def __init__(self, policy: OverloadPolicy) -> None:
        self.policy = policy
        self.shed = 0
        """Calls that were refused for it."""
        self._began = -inf
        self._least = inf
        """The shortest wait since then."""
        self._is_over = False

    def note_wait(self, waited: float, now: float) -> None:
        """Count the wait of a call whose turn has come; 0.0 for one that found an empty queue."""
        self._least = min(self._least, waited)
        if waited <= self.policy.target:
            self._is_over = False
        age = now - self._began
        if age >= self.policy.interval:
            # What is older than a second interval says nothing of now.
            self._is_over = self._least > self.policy.target and age < 2 * self.policy.interval
            self._began, self._least = now, waited

    def is_overloaded(self, now: float) -> bool:
        """Return whether calls have waited too long for a whole interval."""
        return self._is_over and now - self._began < 2 * self.policy.interval

    def refuses(self, head: Waiter, now: float) -> bool:
        """Take note of a call whose turn has come; return whether that is too late."""
        waited, policy = now - head.enqueued_at, self.policy
        # Those that the newest one has overtaken wait still.
        has_overtaken = head.order[1] < 0 and head.lane.bucket.waiting > 1
        self.note_wait(inf if has_overtaken else waited, now)
        is_late = policy.shed == CODEL and waited > 2 * policy.target and self.is_overloaded(now)
        self.shed += is_late
        return is_late

    def place_call(self, order: Order, waiting: int, now: float) -> Order:
        """Return the place in line of a call that has to wait, behind or before so many."""
        if not waiting and not order[2]:
            self.note_wait(0.0, now)
        if self.policy.order != ADAPTIVE_LIFO or not self.is_overloaded(now):
            return order
        # Numbers of arrivals are positive: below zero, the newest one is the first. What a call
        # calls is as old as that call.
        return (order[0], -order[1], -order[2])

    def to_dict(self, now: float) -> dict[str, Any]:
        """Return policy and state as JSON values."""
        policy = self.policy
        return {
            "shed": policy.shed,
            "order": policy.order,
            "target": policy.target,
            "interval": policy.interval,
            "is_overloaded": self.is_overloaded(now),
            "refused": self.shed,
        }


class Places:
    """Where those that wait in a bucket stand among others, whichever of them goes first.

    Each brings a place, the number of its arrival. One that is served uses up the first, and leaves
    its own to the waiter that had that. So the bucket is served as often as if its calls went in
    the order in which they came: the newest overtakes those of its own bucket, and none of another.
    """

    __slots__ = ("_heap", "_places")

    def __init__(self) -> None:
        self._places: dict[Waiter, tuple[int, int]] = {}
        self._heap: list[tuple[tuple[int, int], Waiter]] = []
        """The same, and those that are not true any more."""

    def add(self, waiter: Waiter, place: tuple[int, int] | None = None) -> None:
        """Note the place of a waiter; one that only goes on stands before all others."""
        if waiter.resumes is None:
            self._put_at(waiter, place or (abs(waiter.order[1]), abs(waiter.order[2])))

    def first(self) -> tuple[int, int] | None:
        """Return the first place; None: there is none."""
        heap = self._heap
        while heap:
            place, waiter = heap[0]
            if self._places.get(waiter) == place:
                return place
            heappop(heap)
        return None

    def serve(self, waiter: Waiter) -> None:
        """Give the first place to a waiter whose turn has come."""
        own, first = self._places.get(waiter), self.first()
        if own is not None and first is not None and own != first:
            other = self._heap[0][1]
            self._places[waiter] = first
            self._put_at(other, own)

    def drop(self, waiter: Waiter) -> None:
        """Forget a waiter that has left, and its place."""
        self._places.pop(waiter, None)

    def find(self, waiter: Waiter) -> tuple[int, int] | None:
        """Return the place of a waiter; None: it has none."""
        return self._places.get(waiter)

    def _put_at(self, waiter: Waiter, place: tuple[int, int]) -> None:
        self._places[waiter] = place
        if len(self._heap) > _COMPACT_FROM and len(self._heap) > 2 * len(self._places):
            self._heap = [(place, waiter) for waiter, place in self._places.items()]
            heapify(self._heap)
        else:
            heappush(self._heap, (place, waiter))
