"""When must a statement end, and how does its work end with it when the call is given up?"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final

from tool_engine.model.call import ToolExecutionContext

__all__ = ["Watch", "run_watched"]

_SHARE: Final = 0.1
_MARGIN: Final = 0.2
"""Seconds, at most this share of all, that the database has to end before the call's deadline."""


class Watch:
    """The end of one statement, which a thread may ask about."""

    __slots__ = ("_interrupt", "deadline", "is_stopped")

    def __init__(self, context: ToolExecutionContext) -> None:
        self.is_stopped = False
        """Whether nobody waits for the answer any more."""
        self._interrupt: Callable[[], object] | None = None
        self.deadline: float | None = None
        """On the clock of `time.monotonic`; None: there is none."""
        if context.deadline is not None:
            left = context.deadline - asyncio.get_running_loop().time()
            # Before the caller's own deadline, so that the connection is fit for another call.
            self.deadline = time.monotonic() + left - min(_MARGIN, max(left, 0.0) * _SHARE)

    @property
    def left(self) -> float | None:
        """The seconds that are left; None: as many as it takes."""
        return None if self.deadline is None else self.deadline - time.monotonic()

    @property
    def is_late(self) -> bool:
        """Whether the deadline has passed."""
        return self.deadline is not None and time.monotonic() >= self.deadline

    @property
    def is_over(self) -> bool:
        """Whether the statement has to end now."""
        return self.is_stopped or self.is_late

    def stop(self) -> None:
        """Ends the statement now: nobody waits for its answer any more."""
        self.is_stopped = True
        if self._interrupt is not None:
            self._interrupt()

    @contextmanager
    def interrupting(self, interrupt: Callable[[], object]) -> Iterator[None]:
        """Within it, `interrupt` is called on the event loop as soon as the statement must end."""
        left = self.left
        timer = None
        if left is not None:
            timer = asyncio.get_running_loop().call_later(max(left, 0.0), interrupt)
        self._interrupt = interrupt
        try:
            yield
        finally:
            self._interrupt = None
            if timer is not None:
                timer.cancel()


async def run_watched(
    work: Coroutine[Any, Any, dict[str, Any]], stop: Callable[[asyncio.Task[Any]], object]
) -> dict[str, Any]:
    """What `work` returns; when the caller is cancelled, `work` ends before the caller does.

    Args:
        work: Uses a connection, which must be in order whatever happens to the caller.
        stop: Lets the work end soon.
    """
    task = asyncio.get_running_loop().create_task(work, name="tool-engine-sql")
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        stop(task)
        await _ended(task)
        raise


async def _ended(task: asyncio.Task[Any]) -> None:
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            # Who is cancelled already is not cancelled any faster.
            continue
    if not task.cancelled():
        task.exception()
