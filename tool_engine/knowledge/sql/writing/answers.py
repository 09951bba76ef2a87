"""Who waits until calls are in the database, and when do they learn of it?

Those who wait do so in event loops of their own; the writer's thread wakes them.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Lock
from typing import TypeAlias

Waiter: TypeAlias = asyncio.Future[bool]


class Answers:
    """Reports whether the calls up to a number are kept; from any thread."""

    def __init__(self) -> None:
        self.is_failing = False
        """Whether the database does not take what waits: then no caller waits for it."""
        self._settled = 0
        """The newest call's number whose fate is known."""
        self._waiters: deque[tuple[int, asyncio.AbstractEventLoop, Waiter]] = deque()
        self._lock = Lock()

    def asked(self, newest: Callable[[], int]) -> bool | Waiter:
        """Return whether the calls up to `newest` are kept, or a waiter for that."""
        with self._lock:
            # Read under the lock, so that waiters stand in the order of their numbers.
            number = newest()
            if number <= self._settled:
                return True
            if self.is_failing:
                return False
            loop = asyncio.get_running_loop()
            waiter = loop.create_future()
            self._waiters.append((number, loop, waiter))
            return waiter

    def settle(self, number: int, *, is_kept: bool = True) -> None:
        """Note that the fate of the calls up to `number` is known."""
        with self._lock:
            self._settled = max(self._settled, number)
            found = self._up_to(number)
        _settle_waiters(found, is_kept=is_kept)

    def fail(self) -> None:
        """Let all waiters go until `succeed`: it may take long."""
        with self._lock:
            self.is_failing = True
            found = [waiting[1:] for waiting in self._waiters]
            self._waiters.clear()
        _settle_waiters(found, is_kept=False)

    def succeed(self) -> None:
        """Note that the database takes rows again."""
        self.is_failing = False

    def _up_to(self, number: int) -> list[tuple[asyncio.AbstractEventLoop, Waiter]]:
        found = []
        while self._waiters and self._waiters[0][0] <= number:
            found.append(self._waiters.popleft()[1:])
        return found


def _settle_waiters(
    found: Iterable[tuple[asyncio.AbstractEventLoop, Waiter]],
    *,
    is_kept: bool,
) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[Waiter]] = defaultdict(list)
    for loop, waiter in found:
        by_loop[loop].append(waiter)
    for loop, waiters in by_loop.items():
        # A waiter in a closed loop waits no more.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_answer_waiters, waiters, is_kept)


def _answer_waiters(waiters: Iterable[Waiter], is_kept: bool) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(is_kept)
