"""How is a person asked for consent?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tool_engine.model.approval import ApprovalDecision, ApprovalRequest


class Approver(Protocol):
    """Asks a person for consent.

    `approve` may take its time: the call holds no slot meanwhile. It is cancelled when the request
    expires or its call ends. What it raises is a refusal. It returns None when no answer can be had
    now: the call ends as `approval_required`, and may be resumed with the request's token. True,
    False and the reason of a refusal are taken for a decision, too.
    """

    async def approve(self, request: ApprovalRequest) -> ApprovalDecision | None:
        """Return the decision about one request."""


class Behind(Approver, Protocol):
    """What a front stands before; it publishes that a person is asked, once it can be answered."""

    def note_asked(self, request: ApprovalRequest) -> None:
        """Publish that a person is asked: the front asks, and not what is behind it."""


class Front(Protocol):
    """Stands in front of what waits for answers: `engine.approvals.put_in_front(front)`.

    A surface that knows who calls may answer itself, or ask the caller.
    """

    async def approve(self, request: ApprovalRequest, behind: Behind) -> ApprovalDecision | None:
        """Return the decision, as an `Approver` does; `behind` is asked in the usual way."""

    def note_answer(self, request: ApprovalRequest, decision: ApprovalDecision | None) -> None:
        """Hear how a request ended, in the task of its call; None: without an answer."""
