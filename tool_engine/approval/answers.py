"""Who can be asked for consent, and what does an answer decide?"""

from __future__ import annotations

import contextlib
import os
from importlib import import_module
from inspect import isawaitable
from typing import Any, TypeAlias

from tool_engine.errors import ApprovalError, ConfigurationError
from tool_engine.interfaces import Approver
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest
from tool_engine.model.json.returned_value import safe_repr

Answer: TypeAlias = ApprovalDecision | bool | str | None
"""A decision; True or False; the reason of a refusal; None: no answer now."""


def check_approver(approver: object) -> None:
    """Raise ConfigurationError for an object that cannot be asked."""
    # On a class, `approve` is not a bound method.
    if isinstance(approver, type) or not callable(getattr(approver, "approve", None)):
        raise ConfigurationError(
            f"approver must have 'async def approve(request)', got {safe_repr(approver)[:80]}; for "
            "a function write CallbackApprover(function)"
        )


def decision_from(answer: Any) -> ApprovalDecision | None:
    """Return the decision that an answer means; None: no answer now.

    Raises:
        ApprovalError: It is no answer; only True and a decision let a call run.
    """
    if answer is None or isinstance(answer, ApprovalDecision):
        return answer
    if isinstance(answer, bool):
        return ApprovalDecision(is_approved=answer)
    if isinstance(answer, str):
        return ApprovalDecision(is_approved=False, reason=answer or None)
    raise ApprovalError(
        f"{safe_repr(answer)[:80]} is no answer: answer with True, False, the reason of a refusal, "
        "an ApprovalDecision, or None if there is no answer yet"
    )


def name_at_terminal() -> str:
    """Return `terminal:` and the user of the system who types there; without one, `terminal`."""
    # There is no such module on Windows.
    with contextlib.suppress(ImportError, KeyError, OSError):
        users = import_module("pwd")
        return f"terminal:{users.getpwuid(os.getuid()).pw_name}"
    return "terminal"


async def said_by(approver: Approver, request: ApprovalRequest) -> ApprovalDecision | None:
    """Ask an approver whose `approve` may be async or plain.

    Raises:
        ApprovalError: It is no answer.
    """
    answer: Any = approver.approve(request)
    return decision_from(await answer if isawaitable(answer) else answer)
