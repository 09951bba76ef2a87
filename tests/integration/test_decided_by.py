"""Whom does the record of a call name as the one who allowed or refused it?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import PostgresServer
from tool_engine import (
    ApprovalDecision,
    ApprovalError,
    ApprovalRequest,
    CallbackApprover,
    ToolCallConfig,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
    ToolSession,
)
from tool_engine.model.call import ToolCall
from tool_engine.model.reply import ParsedReply
from tool_engine.protocols.cycle import process_tool_calls
from tool_engine.protocols.cycle_options import CycleOptions

BOUND = 30.0
AMOUNT = {"name": "amount", "type": "integer", "required": True, "description": "How much"}
ANN = ApprovalDecision(is_approved=True, by="ann")
BOB = ApprovalDecision(is_approved=False, by="bob")


class Person:
    """Answers by the amount, and counts how often it is asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = answers
        self.asked: list[ApprovalRequest] = []

    async def approve(self, request: ApprovalRequest) -> Any:
        self.asked.append(request)
        answer = self.answers[request.params.get("amount", 0)]
        if isinstance(answer, Exception):
            raise answer
        if answer == "never":
            await asyncio.Event().wait()
        return answer


def pay(name: str = "pay", execution: str = "ask_once", **keys: Any) -> dict[str, Any]:
    return {
        "name": name,
        "description": "Pays.",
        "permission": {"execution": execution},
        "parameters": [AMOUNT],
        **keys,
    }


async def paid(amount: int) -> str:
    return f"paid {amount}"


async def deciders(engine: ToolEngine, **query: Any) -> list[str | None]:
    """Whom the records name, the oldest first."""
    flush = getattr(engine.store.storage, "flush", None)
    assert flush is None or await flush(BOUND)
    found = await engine.store.query_call_records(oldest_first=True, **query)
    return [each.decided_by for each in found]


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
async def records(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[ToolEngineConfig]:
    """Where records may be kept."""
    url = None if request.param == "memory" else f"sqlite:///{tmp_path}/calls.db"
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        url = await asyncio.to_thread(server.fresh_database)
    async with asyncio.timeout(BOUND * 2):
        yield ToolEngineConfig(records=url)


async def test_an_answer(records: ToolEngineConfig) -> None:
    """Who said yes or no; `approver`, where it does not say who; a remembered answer's giver."""
    person = Person(True, ANN, BOB, ApprovalError("no"), None)
    async with ToolEngine(records, approver=person) as engine:
        engine.register_tool(pay(), paid)
        engine.register_tool(pay("give", "auto"), paid)
        engine.register_tool(pay("burn", "deny"), paid)
        for amount in (0, 1, 1, 2, 2, 3, 4):
            await engine.execute("pay", {"amount": amount})
        await engine.execute("give", {"amount": 1})
        await engine.execute("burn", {"amount": 1})
        await engine.execute("pay", {"amount": "much"})
        await engine.execute("lend", {"amount": 1})

        assert [each.params["amount"] for each in person.asked] == [0, 1, 2, 3, 4]
        kept = await deciders(engine)
    asked = ["approver", "ann", "ann", "bob", "bob", None, None]
    assert kept == [*asked, None, "policy", None, None]


async def test_no_answer() -> None:
    """A question that ran out of time, and one that no one could be asked, were decided by none."""
    async with ToolEngine() as engine:
        engine.register_tool(pay(), paid)
        await engine.execute("pay", {"amount": 0})
        session = ToolSession(engine, "s", ToolCallConfig(approval_timeout=0.01), Person("never"))
        await session.execute("pay", {"amount": 0})
        assert await deciders(engine) == [None, None]


async def test_a_conversation() -> None:
    """A rule is named by its text; a deferred call by who answered later, yes or no."""
    rules: Any = {"pay:amount=7": "deny", "pay:amount=8": "ask_always"}
    async with ToolEngine() as engine:
        engine.register_tool(pay("pay", "auto"), paid)
        config = ToolCallConfig(rules=rules)
        session = ToolSession(engine, "s", config, CallbackApprover(lambda _: None))
        await session.execute("pay", {"amount": 7})
        tokens = [(await session.execute("pay", {"amount": 8})).approval_token for _ in range(2)]
        for token, decision in zip(tokens, (ANN, BOB), strict=True):
            assert token is not None
            await session.resume(token, decision)
        assert await deciders(engine) == ["rule:pay:amount=7", None, None, "ann", "bob"]


def asking(answer: Any) -> Any:
    """A callback before each call, async, that takes the call alone."""

    async def ask(call: ToolCall) -> Any:
        return answer

    return ask


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        (True, "approver"),
        (ANN, "ann"),
        (BOB, "bob"),
        (False, "approver"),
        ("not today", "approver"),
        (ApprovalDecision(is_approved=False, by="cyd", reason="late"), "cyd"),
        (None, None),
    ],
)
async def test_a_callback_before_a_call(answer: Any, name: str | None) -> None:
    """It names who answered; its yes is the consent where the conversation has no approver."""
    async with ToolEngine() as engine:
        engine.register_tool(pay(), paid)
        session = ToolSession(engine, "s")
        reply = ParsedReply(calls=[ToolCall(call_id="c", tool_name="pay", arguments={"amount": 1})])
        cycle = await session.process(reply, "openai", asking(answer))
        (result,) = cycle.execution_results
        assert result.is_success is (answer is True or answer is ANN)
        assert ("late" in str(result.error)) is (name == "cyd")
        assert await deciders(engine) == [name]


async def test_a_callback_beside_an_approver() -> None:
    """Its yes is no consent there, and the approver is named; its no is one everywhere."""
    async with ToolEngine() as engine:
        engine.register_tool(pay(), paid)
        session = ToolSession(engine, "s", approver=Person(BOB, ANN))
        for answer in (ApprovalDecision(is_approved=True, by="cyd"), BOB):
            reply = ParsedReply(
                calls=[ToolCall(call_id="c", tool_name="pay", arguments={"amount": 1})]
            )
            await session.process(reply, "openai", asking(answer))
        options = CycleOptions(on_before_execute=asking(BOB))
        await process_tool_calls(engine, reply, "openai", options)
        assert await deciders(engine) == ["ann", "bob", "bob"]


async def test_a_call_of_a_call() -> None:
    """The inner call that was asked about names who allowed it, and the outer one no one."""
    async with ToolEngine(approver=Person(True, ANN)) as engine:
        engine.register_tool(pay(), paid)

        @engine.tool()
        async def shop(amount: int, context: ToolExecutionContext) -> Any:
            """Buy something.

            Args:
                amount: How much.
            """
            return (await context.call("pay", {"amount": amount})).output

        assert (await engine.execute("shop", {"amount": 1})).is_success
        assert await deciders(engine) == ["ann", None]


async def test_both_that_are_asked() -> None:
    """Where a conversation and another engine are asked, both are named; a refusal by the second
    is that of the second alone."""
    person = Person(True, ANN, BOB, ApprovalDecision(is_approved=True, by="carol"))
    async with ToolEngine(approver=person) as inner, ToolEngine() as outer:
        inner.register_tool(pay("pay", "ask_always"), paid)

        @outer.tool()
        async def shop(amount: int) -> Any:
            """Buy something.

            Args:
                amount: How much.
            """
            return (await inner.execute("pay", {"amount": amount})).output

        rules: Any = {"pay": "ask_always"}
        dora = CallbackApprover(lambda _: ApprovalDecision(is_approved=True, by="dora"))
        session = ToolSession(outer, "s", ToolCallConfig(rules=rules), dora)
        for amount in (1, 2, 3):
            await session.execute("shop", {"amount": amount})
        assert await deciders(inner) == ["dora, ann", "bob", "dora, carol"]


async def test_attempts_and_shared_runs() -> None:
    """Each call names who allowed it, however often its tool ran, and for whomever."""
    person = Person(True, ANN)
    async with ToolEngine(approver=person) as engine:
        tries: list[int] = []

        async def flaky(amount: int) -> str:
            tries.append(amount)
            if len(tries) == 1:
                raise OSError("not now")
            return "paid"

        again = {"idempotent": True, "retry": {"attempts": 2, "backoff": 0.01}}
        engine.register_tool(pay("flaky", "ask_always", **again), flaky)
        assert (await engine.execute("flaky", {"amount": 1})).is_success
        assert len(tries) == 2

        release = asyncio.Event()

        async def slow(amount: int) -> str:
            await release.wait()
            return f"paid {amount}"

        one_run = {"concurrency": {"collision": "single_flight", "key": "params.amount"}}
        engine.register_tool(pay("slow", "ask_always", effect="read", **one_run), slow)
        calls = [asyncio.create_task(engine.execute("slow", {"amount": 1})) for _ in range(2)]
        while len(person.asked) < 3:  # noqa: ASYNC110 - the same loop
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        release.set()
        await asyncio.gather(*calls)
        assert await deciders(engine) == ["ann"] * 3


async def test_a_task(records: ToolEngineConfig) -> None:
    """A task that waited for consent has the record of a call that did."""
    async with ToolEngine(records) as engine:
        engine.approvals.take_questions()
        engine.register_tool(pay("pay", "ask_always"), paid)
        for decision in (True, "no"):
            handle = await engine.start("pay", {"amount": 1})
            while not (pending := await engine.approvals.pending()):  # noqa: ASYNC110 - any process
                await asyncio.sleep(0.01)
            await engine.approvals.answer(pending[0].token, decision, by="ann")
            assert (await handle.wait()).is_success is (decision is True)
        assert await deciders(engine, task_id=handle.id) == ["ann"]
        assert await deciders(engine) == ["ann", "ann"]


async def test_a_standing_decision(records: ToolEngineConfig) -> None:
    """What holds for all conversations of a principal names who gave it, after a restart too."""
    always = ApprovalDecision(is_approved=True, by="ann", always="tool")
    person = Person(True, always)
    async with ToolEngine(records, approver=person) as engine:
        engine.register_tool(pay(), paid)
        for session_id in "ab":
            session = ToolSession(engine, session_id, approver=person, principal="paul")
            await session.execute("pay", {"amount": 1})
        assert len(person.asked) == 1
        assert await deciders(engine) == ["ann", "ann"]
