"""Cancelled at any moment while somebody is asked, a call leaves its one record and no request."""

from __future__ import annotations

import asyncio
from itertools import product

import msgspec
import pytest

from tests.calls.cancel_driver import SWEEPS, Scene, Stage
from tests.calls.samples import bare
from tests.calls.sweeping import Call, busy_engine, open_on, slow
from tool_engine import (
    ApprovalRequest,
    Permission,
    PermissionRule,
    QueueApprover,
    ToolConfigLoader,
    ToolEngine,
    ToolExecutionContext,
)
from tool_engine.approval.book import ApprovalBook
from tool_engine.approval.gate import ApprovalGate
from tool_engine.approval.policy import decide
from tool_engine.knowledge.memory_approvals import MemoryApprovalStorage
from tool_engine.model.approval import ApprovalDecision

ENDS = (None, "execution_rejected", "approval_required", "engine_closed")


class Slow(MemoryApprovalStorage):
    """A database that takes its time, before and after."""

    async def put(self, request: ApprovalRequest) -> None:
        await asyncio.sleep(0.1)
        await super().put(request)
        await asyncio.sleep(0.1)

    async def claim(self, token: str) -> bool:
        await asyncio.sleep(0.1)
        return await super().claim(token)

    async def remember(self, request: ApprovalRequest, decision: ApprovalDecision) -> None:
        await asyncio.sleep(0.1)
        await super().remember(request, decision)


class Office:
    """Somebody who answers in the order of the requests, and what must be true of them at last."""

    def __init__(self, stage: Stage, *answers: bool | None) -> None:
        self.queue = QueueApprover()
        self.storage = Slow()
        self.deferred: list[str] = []
        self.answers = list(answers)
        self.gate = ApprovalGate(
            ApprovalBook("session", storage=self.storage),
            self,
            lambda tool, params: decide(tool.name, params, RULES, []),
        )
        # What is thrown in while somebody is asked looks like an approver that gave up.
        stage.is_throw_absorbed = True
        stage.guests.append(self)

    async def approve(self, request: ApprovalRequest) -> ApprovalDecision | None:
        answer = self.answers.pop(0) if self.answers else True
        if answer is None:
            return None
        return await self.queue.approve(request)

    async def check(self, *, was_shut: bool) -> None:
        """No request is open but those of calls that ended as deferred; nobody waits."""
        assert self.queue.pending_approvals == []
        kept = {each.token for each in await self.storage.pending()}
        assert {each.token for each in self.gate.book.pending()} == kept
        assert kept == set(self.deferred)
        assert self.gate.book.questions == {}


RULES = [
    PermissionRule.parse(name, Permission(execution=word))  # type: ignore[arg-type] # a text
    for name, word in (("slow", "ask_once"), ("paid", "ask_always"))
]


def office_of(stage: Stage, *answers: bool | None) -> tuple[Office, ToolExecutionContext]:
    office = Office(stage, *answers)
    return office, ToolExecutionContext(scope=office.gate)


async def called(
    engine: ToolEngine, office: Office, name: str, context: ToolExecutionContext
) -> None:
    result = await engine.execute(name, {}, context)
    assert result.error_type in ENDS, result
    if result.error_type == "approval_required":
        office.deferred.append(result.metadata["error_details"]["approval_token"])


def answering(stage: Stage, office: Office, moments: tuple[float, ...]) -> None:
    """Somebody who looks at the list at these moments, and says yes to all that is in it."""

    def allow() -> None:
        for request in office.queue.pending_approvals:
            office.queue.allow(request.token)

    for moment in moments:
        stage.beside(allow, at=moment)


async def asked(stage: Stage) -> Call:
    engine = open_on(stage)
    office, context = office_of(stage)
    answering(stage, office, (0.5,))
    return called(engine, office, "slow", context)


async def asked_and_queued(stage: Stage) -> Call:
    engine = busy_engine(stage)
    office, context = office_of(stage)
    answering(stage, office, (0.25, 0.75))
    return called(engine, office, "slow", context)


async def asked_with_others(stage: Stage) -> Call:
    """Three equal calls: whoever asks for them is struck, or one of those who wait."""
    engine = open_on(stage)
    office, context = office_of(stage)
    for _ in range(2):
        stage.beside(called, engine, office, "slow", context)
    answering(stage, office, (0.5, 0.75, 1.0))
    return called(engine, office, "slow", context)


async def asked_for_others(stage: Stage) -> Call:
    engine = open_on(stage)
    office, context = office_of(stage)
    for _ in range(2):
        stage.beside(called, engine, office, "slow", context, at=0.25)
    answering(stage, office, (0.5, 0.75, 1.0))
    return called(engine, office, "slow", context)


async def deferred(stage: Stage) -> Call:
    office, context = office_of(stage, None)
    return called(open_on(stage), office, "slow", context)


async def nested(stage: Stage) -> Call:
    engine = open_on(stage)
    office, context = office_of(stage)
    answering(stage, office, (0.5,))
    return called(engine, office, "outer", context)


async def changed_meanwhile(stage: Stage) -> Call:
    engine = open_on(stage)
    tool = ToolConfigLoader().from_mapping(bare("paid"))
    engine.register_tool(tool, slow)
    office, context = office_of(stage)

    def change() -> None:
        engine.unregister_tool("paid")
        engine.register_tool(msgspec.structs.replace(tool, version="2.0.0"), slow)

    stage.beside(change, at=0.25)
    answering(stage, office, (0.5, 0.75))
    return called(engine, office, "paid", context)


async def nobody_answers(stage: Stage) -> Call:
    office, context = office_of(stage)
    office.gate.book.timeout = 2.0
    return called(open_on(stage), office, "slow", context)


async def closing(stage: Stage) -> Call:
    engine = open_on(stage, close_timeout=0.5)
    stage.was_shut = True
    office, context = office_of(stage)
    stage.beside(called, engine, office, "slow", context, at=0.25)
    stage.beside(engine.close, at=0.5)
    return called(engine, office, "slow", context)


SCENES: tuple[Scene, ...] = (
    asked,
    asked_and_queued,
    asked_with_others,
    asked_for_others,
    deferred,
    nested,
    changed_meanwhile,
    nobody_answers,
    closing,
)


@pytest.mark.parametrize(
    ("scene", "way"),
    [
        pytest.param(scene, way, id=f"{scene.__name__}-{way}")
        for scene, way in product(SCENES, SWEEPS)
    ],
)
def test_cancelled_while_somebody_is_asked(scene: Scene, way: str) -> None:
    """C8, S26: wherever a call is struck, it has one record and one final event, no slot is held,
    no request is open but those that are deferred, the others are asked and get what is theirs."""
    assert list(SWEEPS[way](scene)) or way == "inside"
