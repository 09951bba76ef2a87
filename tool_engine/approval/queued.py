"""How does a user answer from a list, in a window or on a page?"""

from __future__ import annotations

import asyncio
import contextlib
import os

from tool_engine.approval.answers import Answer, decision_from
from tool_engine.errors import ApprovalError
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest
from tool_engine.model.checks.known_fields import KnownArguments
from tool_engine.model.json.copying import refuse_copying


@refuse_copying("pass it on as it is, or make another one")
class QueueApprover(KnownArguments):
    """Keeps requests in a list until they are answered by their token. S34.

    A request leaves the list when it is answered, when it expires, and when its call ends. To list,
    allow and refuse is possible from any thread.

    Example:
        >>> async def ui(queue: QueueApprover) -> None:
        ...     while True:
        ...         request = await queue.wait_for_request()
        ...         queue.refuse(request.token, "Not on a Sunday.")
    """

    def __init__(self) -> None:
        self._asked: dict[str, _Asked] = {}
        self._watchers: set[asyncio.Event] = set()

    def __repr__(self) -> str:
        return f"QueueApprover({len(self._asked)} pending)"

    @property
    def pending_approvals(self) -> list[ApprovalRequest]:
        """Return the requests that wait for an answer in this process, oldest first."""
        return [each.request for each in list(self._asked.values()) if each.is_here]

    def allow(self, token: str, *, is_remembered: bool | None = None) -> ApprovalRequest:
        """Let the call of a request run; `ApprovalDecision` says what is remembered.

        Raises:
            ApprovalError: No request waits under this token.
        """
        decision = ApprovalDecision(is_approved=True, is_remembered=is_remembered)
        return self.answer(token, decision)

    def refuse(
        self, token: str, reason: str | None = None, *, is_remembered: bool | None = None
    ) -> ApprovalRequest:
        """Refuse the call of a request; the model is given the reason.

        Raises:
            ApprovalError: No request waits under this token.
        """
        decision = ApprovalDecision(is_approved=False, reason=reason, is_remembered=is_remembered)
        return self.answer(token, decision)

    def answer(self, token: str, decision: Answer) -> ApprovalRequest:
        """Answer a request and remove it from the list.

        Args:
            token: The request's.
            decision: What a `CallbackApprover`'s function may say, too; None: there is no answer
                now, and the call ends as `approval_required`.

        Raises:
            ApprovalError: No request waits under this token, or in another process; or that is no
                answer: then the request waits on.
        """
        said = decision_from(decision)
        known = self._asked.get(token)
        if known is not None and not known.is_here:
            raise ApprovalError(
                f"the call of {known.request.tool_name!r} waits for its answer in process "
                f"{known.process}, from which this one was forked: answer it there"
            )
        asked = self._asked.pop(token, None)
        if asked is None:
            raise ApprovalError(
                "no request waits under this token: it was answered, it expired, or its call ended"
            )
        asked.settle(said)
        return asked.request

    async def approve(self, request: ApprovalRequest) -> ApprovalDecision | None:
        """Add a request to the list, and wait until it is answered."""
        asked = self._asked[request.token] = _Asked(request)
        for watcher in self._watchers:
            watcher.set()
        try:
            return await asked.decision
        finally:
            self._asked.pop(request.token, None)

    async def wait_for_request(self) -> ApprovalRequest:
        """Wait for and return the oldest request not yet returned here."""
        watcher = asyncio.Event()
        self._watchers.add(watcher)
        try:
            while True:
                watcher.clear()
                for asked in self._asked.values():
                    if not asked.is_seen and asked.is_here:
                        asked.is_seen = True
                        return asked.request
                await watcher.wait()
        finally:
            self._watchers.discard(watcher)


class _Asked:
    def __init__(self, request: ApprovalRequest) -> None:
        self.request = request
        self.is_seen = False
        self.process = os.getpid()
        self._loop = asyncio.get_running_loop()
        self.decision: asyncio.Future[ApprovalDecision | None] = self._loop.create_future()

    @property
    def is_here(self) -> bool:
        """Return True if its call waits in this process; a forked one has a copy of the list."""
        return self.process == os.getpid()

    def settle(self, decision: ApprovalDecision | None) -> None:
        """Hand the decision to the waiting call, from any thread."""
        # A closed loop has no call that could run.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._set_decision, decision)

    def _set_decision(self, decision: ApprovalDecision | None) -> None:
        if not self.decision.done():
            self.decision.set_result(decision)
