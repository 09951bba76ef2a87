"""How does the event loop wait for a command, so that a cancelled call leaves no process?

Each run has a thread of its own, which does all that blocks (see `supervisor`). The event loop only
waits for the thread: it needs no child watcher, and a loop that is blocked or closed keeps no
program alive.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from time import monotonic

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.commands.supervisor import Bell, Command, Finished, Supervisor

__all__ = ["ProcessGroup"]


class ProcessGroup:
    """One run of one command, with all that it starts.

    Args:
        prepare: Makes the command; called in the run's thread, where it may block.
        timeout: Seconds that the run may take, with its end; None: no limit.
    """

    def __init__(self, prepare: Callable[[], Command], timeout: float | None) -> None:
        self._prepare = prepare
        self._deadline = None if timeout is None else monotonic() + timeout
        self._bell = Bell()
        self._outcome: Finished | BaseException | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def run(self) -> Finished:
        """Starts the program and waits for the end of its group.

        A cancellation asks the group to end, and a second one kills it; it passes on when nothing
        of the group is left.

        Raises:
            ToolExecutionError: The program cannot be started.
        """
        loop = asyncio.get_running_loop()
        self._start_thread(loop)
        try:
            await self._wait(loop)
        except asyncio.CancelledError:
            self._bell.ring()
            await self._outlast(loop)
            raise
        except BaseException:
            # The coroutine is being closed: it must not wait any more.
            self._bell.ring()
            raise
        if not isinstance(self._outcome, Finished):
            raise self._outcome or RuntimeError("the thread of a command ended without outcome")
        return self._outcome

    def _start_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            self._bell.open()
            # No daemon: the interpreter must not end before the program has.
            threading.Thread(target=self._supervise, args=(loop,), name="tool-command").start()
        except (OSError, RuntimeError) as error:
            self._bell.close()
            raise ToolExecutionError(
                f"the command cannot be started: {error}; this process has used up what it may, "
                "run fewer calls at once"
            ) from None

    async def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._outcome is None:
            self._waiter = loop.create_future()
            await self._waiter

    async def _outlast(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._outcome is None:
            try:
                await self._wait(loop)
            except asyncio.CancelledError:
                self._bell.ring()

    def _supervise(self, loop: asyncio.AbstractEventLoop) -> None:
        """What the thread does."""
        outcome: Finished | BaseException
        try:
            outcome = Supervisor(self._prepare(), self._deadline, self._bell).run()
        except BaseException as error:  # noqa: BLE001 - it travels to the caller
            outcome = error
        finally:
            self._bell.close()
        # A closed loop: nobody is left to hear of it.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(self._end, outcome)

    def _end(self, outcome: Finished | BaseException) -> None:
        self._outcome = outcome
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
