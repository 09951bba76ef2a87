"""Who else may answer a call that waits, besides the approver that was asked?"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Awaitable, Callable

from tool_engine.approval.queued import QueueApprover
from tool_engine.errors import ApprovalError
from tool_engine.interfaces import Approver
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest
from tool_engine.model.foreign import ends_caller


class Waiting:
    """One question to an approver: the first answer counts, its own or that of another.

    Args:
        approver: Who was asked.
        request: What about.
        clock: Ends the wait for the approver.
        ask: Asks the approver.
    """

    def __init__(
        self,
        approver: Approver,
        request: ApprovalRequest,
        clock: asyncio.Timeout,
        ask: Callable[[], Awaitable[ApprovalDecision | None]],
    ) -> None:
        self._approver = approver
        self._request = request
        self._clock = clock
        self._ask = ask
        self._loop = asyncio.get_running_loop()
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._is_over = False
        self._decision: ApprovalDecision | None = None

    async def decide(self) -> ApprovalDecision | None:
        """Return the first answer; None: there is none now.

        Raises:
            TimeoutError: The clock ran out.
        """
        before = count_cancellations()
        try:
            async with self._clock:
                decision = await self._ask()
        except BaseException as error:
            other = self._end_wait()
            # A call that was cancelled is over, whatever was answered.
            if other is None or ends_caller(error) or count_cancellations() > before:
                raise
            return other
        other = self._end_wait()
        return decision if other is None else other

    def answer(self, decision: ApprovalDecision) -> None:
        """Take the answer of another than the approver, from any thread.

        Raises:
            ApprovalError: There is an answer already, or its call waits in another process.
        """
        if self._process != os.getpid():
            raise ApprovalError(
                f"the call of {self._request.tool_name!r} waits for its answer in process "
                f"{self._process}, from which this one was forked: answer it there"
            )
        if isinstance(self._approver, QueueApprover):
            # Its list decides who is first.
            self._approver.answer(self._request.token, decision)
            return
        with self._lock:
            if self._is_over or self._loop.is_closed():
                raise ApprovalError(
                    "no request waits under this token: it was answered, it expired, or its call "
                    "ended"
                )
            self._is_over, self._decision = True, decision
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._wake_call)

    def _end_wait(self) -> ApprovalDecision | None:
        with self._lock:
            self._is_over = True
            return self._decision

    def _wake_call(self) -> None:
        # It has ended by itself meanwhile, or it ends now.
        with contextlib.suppress(RuntimeError):
            self._clock.reschedule(self._loop.time())


def count_cancellations() -> int:
    """Return how often the call was cancelled, not just an awaited part."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()
