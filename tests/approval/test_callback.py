"""How does a function answer?"""

from __future__ import annotations

from typing import Any

import pytest

from tests.approval.people import NO, TOOL, YES, gate_of
from tool_engine.approval.book import ApprovalBook
from tool_engine.approval.callback import CallbackApprover, DeferredApprover
from tool_engine.errors import ApprovalError, ConfigurationError
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest

REQUEST = ApprovalBook("s").ask(TOOL, {"x": 1})


@pytest.mark.parametrize(
    ("answer", "decision"),
    [
        (YES, YES),
        (NO, NO),
        (True, YES),
        (False, ApprovalDecision(is_approved=False)),
        ("Not today.", NO),
        ("", ApprovalDecision(is_approved=False)),
        (None, None),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
async def test_answers(answer: Any, decision: ApprovalDecision | None, is_async: bool) -> None:
    """S20: a decision, True or False, a reason, or nothing for now; sync or async."""
    asked: list[ApprovalRequest] = []

    def plain(request: ApprovalRequest) -> Any:
        asked.append(request)
        return answer

    async def waiting(request: ApprovalRequest) -> Any:
        return plain(request)

    assert await CallbackApprover(waiting if is_async else plain).approve(REQUEST) == decision
    assert asked == [REQUEST]


@pytest.mark.parametrize("answer", [1, "yes", "True", [True], {"is_approved": True}, object()])
async def test_what_is_no_yes(answer: Any) -> None:
    """Nothing but True and a decision lets a call run: a text is the reason of a refusal, and what
    is no answer is an error, which the gate makes a refusal of."""
    approver = CallbackApprover(lambda _: answer)
    refusal = await gate_of(approver, "ask_always").consent("c", TOOL, {})
    assert refusal is not None
    assert refusal.error_type == "execution_rejected"
    if not isinstance(answer, str):
        with pytest.raises(ApprovalError, match="answer with True, False, the reason"):
            await approver.approve(REQUEST)


def test_what_is_no_function() -> None:
    """A mistake of the program shows when it is made."""
    with pytest.raises(ConfigurationError, match="takes a function of one request, got 5"):
        CallbackApprover(5)  # type: ignore[arg-type]


async def test_nobody_for_now() -> None:
    """Every call waits for an answer that comes later."""
    assert await DeferredApprover().approve(REQUEST) is None
