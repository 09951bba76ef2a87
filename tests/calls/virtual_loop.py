"""An event loop whose time jumps to the next timer as soon as nothing else is left to do.

So an hour of deadlines, back-offs and queue timeouts passes at once and always in the same order.
While the loop's own thread pool works, its time stands still.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from typing import Any

HANG = 5.0
"""Real seconds without any event after which a loop without timers is taken for dead."""


class DeadlockError(AssertionError):
    """Every task waits, and nothing is left that could wake one."""


class _Jump(selectors.DefaultSelector):
    """Moves the clock instead of waiting."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        if timeout is None or self.loop.busy:
            events = super().select(HANG)
            if not events and timeout is None:
                raise DeadlockError("nothing will ever happen on this loop")
            return events
        events = super().select(0)
        if not events:
            self.loop.now += timeout
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the module."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.busy = 0
        selector = _Jump()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.now

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as asyncio names it
        """Wait in real time: since 3.12 a runner gives the threads some seconds of the loop's."""
        del timeout
        await super().shutdown_default_executor()

    def run_in_executor(  # type: ignore[override] # the same, counted
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future = super().run_in_executor(executor, func, *args)
        self.busy += 1
        future.add_done_callback(self._rest)
        return future

    def _rest(self, future: asyncio.Future[Any]) -> None:
        del future
        self.busy -= 1
