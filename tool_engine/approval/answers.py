"""Who can be asked for consent, and what does somebody's answer decide?"""

from __future__ import annotations

from inspect import isawaitable
from typing import Any, TypeAlias

from tool_engine.errors import ApprovalError, ConfigurationError
from tool_engine.interfaces import Approver
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest
from tool_engine.model.json.output import shown

__all__ = ["Answer", "check_approver", "decision_from", "said_by"]

Answer: TypeAlias = ApprovalDecision | bool | str | None
"""A decision; True or False; the reason of a refusal; None: nobody can answer now."""


def check_approver(approver: object) -> None:
    """Raises ConfigurationError for what cannot be asked."""
    # Of a class, `approve` is nothing that could be called.
    if isinstance(approver, type) or not callable(getattr(approver, "approve", None)):
        raise ConfigurationError(
            f"approver must have 'async def approve(request)', got {shown(approver)[:80]}; for a "
            "function write CallbackApprover(function)"
        )


def decision_from(answer: Any) -> ApprovalDecision | None:
    """What somebody's answer decides; None: nobody can answer now.

    Raises:
        ApprovalError: It is no answer; nothing but True and a decision lets a call run.
    """
    if answer is None or isinstance(answer, ApprovalDecision):
        return answer
    if isinstance(answer, bool):
        return ApprovalDecision(is_approved=answer)
    if isinstance(answer, str):
        return ApprovalDecision(is_approved=False, reason=answer or None)
    raise ApprovalError(
        f"{shown(answer)[:80]} is no answer: answer with True, False, the reason of a refusal, an "
        "ApprovalDecision, or None if nobody can answer now"
    )


async def said_by(approver: Approver, request: ApprovalRequest) -> ApprovalDecision | None:
    """What an approver answers, whether its method is a coroutine or a plain one.

    Raises:
        ApprovalError: It is no answer.
    """
    answer: Any = approver.approve(request)
    return decision_from(await answer if isawaitable(answer) else answer)
