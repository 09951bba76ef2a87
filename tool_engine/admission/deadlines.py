"""Whose time to wait is over, with one timer for all who wait?

A timer of the event loop for each waiter would cost more memory than all the rest of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final

from tool_engine.admission.waiting import Waiter

_COMPACT_FROM: Final = 64


class Deadlines:
    """The deadlines of waiters, soonest first.

    Args:
        expire: Called for each waiter that still waits at its deadline, with the seconds that it
            was given.
    """

    __slots__ = ("_due", "_entries", "_expire", "_loop", "_number", "_timer")

    def __init__(self, expire: Callable[[Waiter, float], None]) -> None:
        self._expire = expire
        self._entries: list[tuple[float, int, float, Waiter]] = []
        self._number = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = inf
        """When the timer ends; infinity: there is none."""

    def add(self, waiter: Waiter, timeout: float, waiting: int) -> None:
        """Gives a waiter `timeout` seconds; `waiting` says how many wait at all."""
        if (loop := waiter.future.get_loop()) is not self._loop:
            self._loop, self._timer, self._due, self._entries = loop, None, inf, []
        entries = self._entries
        if len(entries) > _COMPACT_FROM and len(entries) > 2 * waiting:
            entries[:] = [entry for entry in entries if entry[3].is_waiting]
            heapify(entries)
        self._number += 1
        due = loop.time() + timeout
        heappush(entries, (due, self._number, timeout, waiter))
        if due < self._due:
            self._arm_timer(loop, due)

    def clear(self) -> None:
        """No call waits any more."""
        self._entries.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._due = None, inf

    def _arm_timer(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._due = loop.call_at(due, self._expire_due, loop), due

    def _expire_due(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer, self._due = None, inf
        entries, now = self._entries, loop.time()
        while entries and (entries[0][0] <= now or not entries[0][3].is_waiting):
            _, _, timeout, waiter = heappop(entries)
            if waiter.is_waiting:
                self._expire(waiter, timeout)
        if entries and self._timer is None:
            self._arm_timer(loop, entries[0][0])
