"""How does the event loop wait for a process without losing it to a cancellation?

Each run has a thread of its own, which does all that blocks (see `supervisor`). The event loop only
waits for the thread: it needs no child watcher, and no program lives on in a blocked
or closed loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from time import monotonic
from typing import Generic, NamedTuple, TypeVar

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.commands.supervisor import Bell, Command, Finished, Supervisor

OutcomeT = TypeVar("OutcomeT")


class _Outcome(NamedTuple, Generic[OutcomeT]):
    value: OutcomeT | None = None
    error: BaseException | None = None


class OwnThread(ABC, Generic[OutcomeT]):
    """One run of `work` in its own thread, within `timeout` seconds if given."""

    def __init__(self, timeout: float | None) -> None:
        self._deadline = None if timeout is None else monotonic() + timeout
        self._bell = Bell()
        self._outcome: _Outcome[OutcomeT] | None = None
        self._waiter: asyncio.Future[None] | None = None

    @abstractmethod
    def work(self, deadline: float | None, bell: Bell) -> OutcomeT:
        """Do the work, which may block.

        Args:
            deadline: When all must be over, on the monotonic clock; None: no limit.
            bell: Rings when the run is to end early, and again when it is urgent.
        """

    async def run(self) -> OutcomeT:
        """Start the thread and wait for its end; `ToolExecutionError` if it cannot start.

        Each cancellation rings the bell and passes on only when the work has ended.
        """
        loop = asyncio.get_running_loop()
        self._start_thread(loop)
        try:
            await self._wait_for_outcome(loop)
        except asyncio.CancelledError:
            self._bell.ring()
            await self._outlast_cancellation(loop)
            raise
        except BaseException:
            # The coroutine is being closed: it must not wait any more.
            self._bell.ring()
            raise
        outcome = self._outcome
        if outcome is None:
            raise RuntimeError("the thread of a command ended without outcome")
        if outcome.error is not None:
            raise outcome.error
        return outcome.value  # type: ignore[return-value] # a run without error has its value

    def _start_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            self._bell.open()
            # No daemon: the interpreter must not end before the program does.
            threading.Thread(
                target=self._supervise_thread, args=(loop,), name="tool-command"
            ).start()
        except (OSError, RuntimeError) as error:
            self._bell.close()
            raise ToolExecutionError(
                f"the command cannot be started: {error}; this process has used up what it may, "
                "run fewer calls at once"
            ) from None

    async def _wait_for_outcome(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._outcome is None:
            self._waiter = loop.create_future()
            await self._waiter

    async def _outlast_cancellation(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._outcome is None:
            try:
                await self._wait_for_outcome(loop)
            except asyncio.CancelledError:
                self._bell.ring()

    def _supervise_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        outcome: _Outcome[OutcomeT]
        try:
            outcome = _Outcome(self.work(self._deadline, self._bell))
        except BaseException as error:  # noqa: BLE001 - it travels to the caller
            outcome = _Outcome(error=error)
        finally:
            self._bell.close()
        # A closed loop: no caller is waiting.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(self._set_outcome, outcome)

    def _set_outcome(self, outcome: _Outcome[OutcomeT]) -> None:
        self._outcome = outcome
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class ProcessGroup(OwnThread[Finished]):
    """One run of a command, which `prepare` makes in the run's thread."""

    def __init__(self, prepare: Callable[[], Command], timeout: float | None) -> None:
        super().__init__(timeout)
        self._prepare = prepare

    def work(self, deadline: float | None, bell: Bell) -> Finished:
        return Supervisor(self._prepare(), deadline, bell).run()
