"""How long did code of this process hold up the event loop, however busy the machine is?

A heartbeat runs beside an attack, in the same event loop. What counts of a late beat is what the
process did with the time: computing, waiting for a lock, sleeping. The time in which the thread
was ready to run and other programs had the processors is the machine's, and Linux tells it to the
nanosecond. Elsewhere only the processor time of this process counts, and blocking calls are found
by the guard in `tests/conftest.py` alone.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Self

import pytest

INTERVAL = 0.005
MOST = 0.1
"""Seconds; without its defence each attack holds up the loop for several of them."""
TRACED = 5
"""How much longer everything may take under coverage or a debugger."""
LIMIT = 60.0
"""Seconds for one attack."""
TRIES = 3
"""A collection of garbage or a fault of a page may hit one of them, but hardly each."""
WAITED = "/proc/thread-self/schedstat"


class Heartbeat:
    """Beats every 5 ms, and knows for how long it was held up at most."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._file: int | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._file = os.open(WAITED, os.O_RDONLY) if counts_waiting() else None
        self._task = asyncio.create_task(self._beat())
        await asyncio.sleep(4 * INTERVAL)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.sleep(4 * INTERVAL)
        assert self._task is not None
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        if self._file is not None:
            os.close(self._file)

    async def _beat(self) -> None:
        while True:
            began, others = time.monotonic(), self._others()
            await asyncio.sleep(INTERVAL)
            late = time.monotonic() - began - INTERVAL
            self.longest = max(self.longest, late - max(0.0, self._others() - others))

    def _others(self) -> float:
        """Seconds so far in which this thread did not run because of other programs."""
        if self._file is None:
            return time.monotonic() - time.process_time()
        return int(os.pread(self._file, 100, 0).split()[1]) / 1e9


def counts_waiting() -> bool:
    """Whether the machine tells how long a thread waited for a processor."""
    with suppress(OSError), open(WAITED, encoding="ascii") as file:  # noqa: PTH123 - in the loop
        return file.read().split()[0] != "0"  # what a kernel says that does not count
    return False


def most_seconds() -> float:
    """Seconds for which an attack may hold up the loop."""
    monitoring = getattr(sys, "monitoring", None)
    tools = [] if monitoring is None else [monitoring.get_tool(number) for number in range(6)]
    return MOST * TRACED if sys.gettrace() is not None or any(tools) else MOST


async def assert_beats_on(attack: Callable[[], Awaitable[object]]) -> None:
    """Fails unless the heartbeat goes on while what `attack` returns is awaited, in a few tries."""
    longest = []
    for _ in range(TRIES):
        bound = most_seconds()  # a tracer may leave in the middle
        awaitable = attack()
        async with asyncio.timeout(LIMIT), Heartbeat() as heart:
            await awaitable
        if heart.longest <= bound:
            return
        longest.append(round(heart.longest, 3))
    pytest.fail(f"the event loop was held up for {longest} s, more than {bound} s")
