"""Who waits for a slot, in which order, and for what?

A *bucket* is a limit. A *lane* is a line of waiters in front of a bucket; every waiter of a lane is
held up by the same things. Calls of one bucket share a lane, but a tool with a rate has its own, so
that its waiters hold up nobody else.
"""

from __future__ import annotations

import asyncio
import sys
from heapq import heapify, heappop, heappush
from typing import Final

from tool_engine.admission.slot import ConcurrencySlot, Order
from tool_engine.admission.throttle import Throttle
from tool_engine.errors import AdmissionError

__all__ = ["Bucket", "Lane", "Waiter"]

_COMPACT_FROM: Final = 64


class Waiter:
    """One position in a queue: ends exactly once, as granted, refused or given up."""

    __slots__ = (
        "enqueued_at",
        "future",
        "is_queued",
        "is_waiting",
        "lane",
        "order",
        "resumes",
        "slot",
        "timer",
        "weight",
    )

    def __init__(self, lane: Lane, weight: int, order: Order, enqueued_at: float) -> None:
        self.lane = lane
        self.weight = weight
        self.order = order
        self.enqueued_at = enqueued_at
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_waiting = True
        self.is_queued = False
        """Whether it counts against `queue_size`; calls made by running calls do not."""
        self.resumes: ConcurrencySlot | None = None
        """The parked slot that is to be taken again; None: a new one is wanted."""
        self.slot: ConcurrencySlot | None = None
        """What it was given."""
        self.timer: asyncio.TimerHandle | None = None

    def wake(self, error: AdmissionError | None = None) -> None:
        """Ends the wait; a waiter whose task was cancelled meanwhile finds out by itself."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self.future.done():
            return
        if error is None:
            self.future.set_result(None)
        else:
            self.future.set_exception(error)


class Bucket:
    """A named limit inside the global one."""

    __slots__ = ("held_up", "limit", "most", "name", "rejected", "used", "waiting")

    def __init__(self, name: str, limit: int | None) -> None:
        self.name = name
        self.limit = limit
        """None: only the global limit applies."""
        self.most = sys.maxsize if limit is None else limit
        """The same as a number that can be compared."""
        self.used = 0
        self.waiting = 0
        self.rejected = 0
        self.held_up: list[Lane] = []
        """Lanes whose head waits for room in this bucket."""

    def has_room(self, weight: int) -> bool:
        """Whether `weight` more units fit."""
        return self.used + weight <= self.most


class Lane:
    """A line of waiters, smallest `order` first."""

    __slots__ = ("bucket", "offered", "throttle", "throttle_timer", "waiters", "waiting")

    def __init__(self, bucket: Bucket, throttle: Throttle | None = None) -> None:
        self.bucket = bucket
        self.throttle = throttle
        self.throttle_timer: asyncio.TimerHandle | None = None
        """Set while the head waits for the rate."""
        self.waiters: list[tuple[Order, Waiter]] = []
        """A heap; those who gave up stay in it until they come to its top or are too many."""
        self.waiting = 0
        self.offered: Order | None = None
        """The order under which the lane stands in the controller's line of lanes, if it does."""

    def head(self) -> Waiter | None:
        """The first waiter, or None."""
        waiters = self.waiters
        while waiters and not waiters[0][1].is_waiting:
            heappop(waiters)
        return waiters[0][1] if waiters else None

    def push(self, waiter: Waiter) -> None:
        """Adds a waiter at the place that its order gives it."""
        heappush(self.waiters, (waiter.order, waiter))
        self.waiting += 1
        self.bucket.waiting += 1

    def forget(self, waiter: Waiter) -> None:
        """Takes a waiter out, whether it was granted, refused or gave up."""
        waiter.is_waiting = False
        self.waiting -= 1
        self.bucket.waiting -= 1
        if len(self.waiters) > _COMPACT_FROM and len(self.waiters) > 2 * self.waiting:
            self.waiters = [entry for entry in self.waiters if entry[1].is_waiting]
            heapify(self.waiters)
