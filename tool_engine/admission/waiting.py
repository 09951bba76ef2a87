"""What is one call that waits for a slot, and who comes first of those in one lane?"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from heapq import heapify, heappop, heappush, merge
from itertools import chain
from math import inf
from typing import Any

import msgspec

from tool_engine.admission.request import AdmissionRequest
from tool_engine.admission.slot import ConcurrencySlot, Order
from tool_engine.errors import AdmissionError


class Waiter(msgspec.Struct, eq=False):
    """One position in a queue: ends exactly once, as granted, refused or given up."""

    lane: Any
    """The `Lane` that it stands in."""
    request: AdmissionRequest
    weight: int
    order: Order
    enqueued_at: float
    future: asyncio.Future[None]
    """What its task waits for."""
    call_id: str | None = None
    timeout: float = inf
    """Seconds that it may wait."""
    is_waiting: bool = True
    is_queued: bool = False
    """Whether it counts against `queue_size`; calls made by running calls do not."""
    resumes: ConcurrencySlot | None = None
    """The parked slot that is to be taken again; None: a new one is wanted."""
    slot: ConcurrencySlot | None = None
    """What it was given."""
    due: float | None = None
    """Under `fair`: the round that it was to be served in when it became first in its lane."""
    holder: Any = None
    """The call, where that notes what it was given, and makes a slot if one is asked for."""

    def __lt__(self, other: Waiter) -> bool:
        """Whether it has come earlier: of those whose time ends at once, it expires first."""
        return self.order[1:] < other.order[1:]

    @property
    def is_new(self) -> bool:
        """Whether it asks for a call of its own, and not for one that a running call is part of."""
        return self.resumes is None and self.request.parent is None

    def wake(self, error: AdmissionError | None = None) -> None:
        """Ends the wait; a waiter whose task was cancelled meanwhile finds out by itself."""
        if self.future.done():
            return
        if error is None:
            self.future.set_result(None)
        else:
            self.future.set_exception(error)


class Arrivals:
    """Those who wait in one lane, smallest order first.

    Most come in the order in which they are served. Those who gave up stay until they come first,
    or are too many: to take one out where it stands would cost as much as all that wait.
    """

    __slots__ = ("early", "entries")

    def __init__(self) -> None:
        self.entries: deque[tuple[Order, Waiter]] = deque()
        """In order: unlike in a heap, a step finds all that it reads in one place."""
        self.early: list[tuple[Order, Waiter]] = []
        """A heap of those that go before one that had come already."""

    def __len__(self) -> int:
        """Return how many they are, with those who gave up."""
        return len(self.entries) + len(self.early)

    def __iter__(self) -> Iterator[tuple[Order, Waiter]]:
        """Yield all of them, in no order."""
        return chain(self.early, self.entries)

    def in_order(self) -> Iterator[Waiter]:
        """Yield those that still wait, smallest order first."""
        entries = merge(sorted(self.early), self.entries)
        return (waiter for _, waiter in entries if waiter.is_waiting)

    def add(self, waiter: Waiter) -> None:
        """Give a waiter the place of its order."""
        entries = self.entries
        if entries and waiter.order < entries[-1][0]:
            heappush(self.early, (waiter.order, waiter))
        else:
            entries.append((waiter.order, waiter))

    def first(self) -> tuple[Order, Waiter] | None:
        """Return the first that still waits."""
        entries, early = self.entries, self.early
        while entries and not entries[0][1].is_waiting:
            entries.popleft()
        while early and not early[0][1].is_waiting:
            heappop(early)
        if early and (not entries or early[0] < entries[0]):
            return early[0]
        return entries[0] if entries else None

    def drop(self, waiter: Waiter) -> None:
        """Take out the one that is first."""
        entries = self.entries
        if entries and entries[0][1] is waiter:
            entries.popleft()
        else:
            heappop(self.early)

    def compact(self) -> None:
        """Forget those who gave up."""
        self.entries = deque([each for each in self.entries if each[1].is_waiting])
        self.early = [each for each in self.early if each[1].is_waiting]
        heapify(self.early)
