"""Somebody to ask, and something to ask about."""

from __future__ import annotations

import asyncio
from typing import Any

from tool_engine.approval.book import ApprovalBook
from tool_engine.approval.gate import ApprovalGate
from tool_engine.approval.policy import PermissionRule, decide
from tool_engine.interfaces import ApprovalStorage
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest
from tool_engine.model.permission import Permission
from tool_engine.model.tool import Tool, ToolCategory

YES = ApprovalDecision(is_approved=True)
NO = ApprovalDecision(is_approved=False, reason="Not today.")
TOOL = Tool(
    "pay",
    "pay",
    "1.0.0",
    "Pays.",
    ToolCategory.CUSTOM,
    [],
    [],
    {},
    effect="write",
    definition_hash="abc",
)


class Clock:
    """Unix time that stands still."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Person:
    """Says the same to everybody, and remembers what was asked."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.asked: list[ApprovalRequest] = []

    async def approve(self, request: ApprovalRequest) -> ApprovalDecision | None:
        self.asked.append(request)
        answer: Any = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        await asyncio.sleep(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer  # type: ignore[no-any-return]


class Nobody:
    """Takes for ever."""

    def __init__(self) -> None:
        self.asked: list[ApprovalRequest] = []

    async def approve(self, request: ApprovalRequest) -> ApprovalDecision | None:
        self.asked.append(request)
        await asyncio.Event().wait()
        return None


def gate_of(
    approver: Any,
    execution: str | None = None,
    result: str | None = None,
    *,
    is_silent: bool = False,
    storage: ApprovalStorage | None = None,
    clock: Clock | None = None,
    **hooks: Any,
) -> ApprovalGate:
    """A gate before `pay`."""
    permission = Permission(execution=execution, result=result)  # type: ignore[arg-type]
    rules = [PermissionRule.parse("pay" + "::SilentReject" * is_silent, permission)]
    book = ApprovalBook("session_1", 60.0, clock=clock or Clock(), storage=storage)
    return ApprovalGate(
        book, approver, lambda tool, params: decide(tool.name, params, rules, []), **hooks
    )
