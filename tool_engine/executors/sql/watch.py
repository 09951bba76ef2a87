"""When must a statement end, and how does its work end with a cancelled call?"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final

from tool_engine.model.call import ToolExecutionContext

_SHARE: Final = 0.1
_MARGIN: Final = 0.2
"""The most seconds reserved for the database to end before the call's deadline."""


class Watch:
    """The end of one statement; threads may ask for it."""

    __slots__ = ("_interrupt", "deadline", "is_stopped")

    def __init__(self, context: ToolExecutionContext) -> None:
        self.is_stopped = False
        """True if no caller waits for the answer any more."""
        self._interrupt: Callable[[], object] | None = None
        self.deadline: float | None = None
        """On the clock of `time.monotonic`; None: no deadline."""
        if context.deadline is not None:
            left = context.deadline - asyncio.get_running_loop().time()
            # Before the caller's own deadline, so that the connection stays fit for another call.
            self.deadline = time.monotonic() + left - min(_MARGIN, max(left, 0.0) * _SHARE)

    @property
    def left(self) -> float | None:
        return None if self.deadline is None else self.deadline - time.monotonic()

    @property
    def is_late(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline

    @property
    def is_over(self) -> bool:
        return self.is_stopped or self.is_late

    def stop(self) -> None:
        """End the statement now: no caller waits for its answer any more."""
        self.is_stopped = True
        if self._interrupt is not None:
            self._interrupt()

    @contextmanager
    def interrupting(self, interrupt: Callable[[], object]) -> Iterator[None]:
        """Within it, call `interrupt` on the event loop once the statement must end."""
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
    """Return the result of `work`; a cancelled caller waits until `work` has ended.

    `work` uses a connection, which must stay in order; `stop` lets the work end soon.
    """
    task = asyncio.get_running_loop().create_task(work, name="tool-engine-sql")
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        stop(task)
        await _await_end(task)
        raise


async def _await_end(task: asyncio.Task[Any]) -> None:
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            # Another cancellation changes nothing: the work must end first.
            continue
    if not task.cancelled():
        task.exception()
