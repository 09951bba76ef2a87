"""Do the rules of both hold where a tool of one conversation has another one make a call?

Looked at: a call that either of them defers, the calls that it makes in its turn, its result, the
answer in the process that asked and in another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.approval.people import Person
from tests.session.catalogs import definition, engine_over, write
from tool_engine import DeferredApprover, ToolEngine, ToolExecutionContext
from tool_engine.errors import ApprovalError
from tool_engine.session.reading.result import SessionResult
from tool_engine.session.session import ToolSession

BOUND = 20.0
SAID = {"text": "hi"}
ASK = {"rules": {"pay": "ask_always"}}


class Two:
    """A conversation, and another one in which its tool `helped` calls what it is told to."""

    def __init__(self, engine: ToolEngine) -> None:
        self.engine = engine
        self.settings: dict[str, Any] = {}
        self.approver: Any = None
        self.made: list[ToolSession] = []
        self.ended: list[SessionResult] = []

        @engine.tool(effect="write")
        async def helped(text: str) -> str:
            """Has another conversation call it."""
            inner = ToolSession(engine, "inner", self.settings, self.approver)
            self.made.append(inner)
            self.ended.append(await inner.execute(text, SAID))
            return "done"

        @engine.tool(effect="write")
        async def outer_pay(text: str, context: ToolExecutionContext) -> str:
            """Pays."""
            return str((await context.call("pay", {"text": text})).is_success)

    def outer(self, settings: Any = ASK) -> ToolSession:
        return ToolSession(self.engine, "outer", settings, DeferredApprover())

    async def paid(self) -> int:
        records = await self.engine.query_call_records(tool_name="pay", is_success=True)
        return len(records)


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Two]:
    write(tmp_path, definition("pay"))
    async with asyncio.timeout(BOUND), engine_over(tmp_path) as engine:
        yield Two(engine)


@pytest.mark.parametrize("settings", [{"rules": {"pay": "deny"}}, {"permission": "ask_always"}])
async def test_what_the_inner_one_refuses_is_not_asked_later(two: Two, settings: Any) -> None:
    """X3: the outer one's approver answers later; what the inner one forbids ends at once."""
    two.settings, two.approver = settings, Person(False)
    outer = two.outer()
    await outer.execute("helped", {"text": "pay"})
    assert [each.error_type for each in two.ended] == ["execution_rejected"]
    assert outer.gate.book.pending() == []
    assert outer.deferred == {}


async def test_both_have_consented_when_it_runs(two: Two) -> None:
    """X3: the inner one is asked at once, and not again."""
    two.settings, two.approver = ASK, (person := Person(True))
    outer = two.outer()
    await outer.execute("helped", {"text": "pay"})
    token = two.ended[0].approval_token
    assert token is not None
    assert len(person.asked) == 1
    result = await outer.resume(token, True)
    assert result.is_success, result.error
    assert (len(person.asked), await two.paid()) == (1, 1)


async def test_a_rule_of_the_inner_one_that_comes_later_holds(two: Two) -> None:
    """X3: what it forbids by the time of the answer does not run, whoever said yes before."""
    outer = two.outer()
    await outer.execute("helped", {"text": "pay"})
    two.made[0].toolbox.config = ToolSession(two.engine, "x", {"rules": {"pay": "deny"}}).config
    result = await outer.resume(str(two.ended[0].approval_token), True)
    assert result.error_type == "execution_rejected"
    assert await two.paid() == 0


async def test_what_it_calls_in_its_turn_is_asked_of_both(two: Two) -> None:
    """X3: the rules of the inner one hold for calls that the resumed call makes."""
    two.settings = {"rules": {"pay": "deny"}}
    outer = two.outer({"rules": {"outer_pay": "ask_always"}})
    await outer.execute("helped", {"text": "outer_pay"})
    result = await outer.resume(str(two.ended[0].approval_token), True)
    assert result.output == {"result": "False"}
    assert await two.paid() == 0


async def test_the_inner_one_has_its_say_about_the_result(two: Two) -> None:
    """U35: who is asked by the inner one about results is asked where the outer one resumes."""
    two.settings = {"rules": {"pay": {"result": "always"}}}
    outer = two.outer()
    await outer.execute("helped", {"text": "pay"})
    result = await outer.resume(str(two.ended[0].approval_token), True)
    assert result.error_type == "approval_required"
    assert result.final_text is None


@pytest.mark.parametrize("is_denied", [True, False])
async def test_the_outer_one_holds_where_the_inner_one_resumes(two: Two, is_denied: bool) -> None:
    """X3: the same the other way round."""
    two.settings = {"rules": {"outer_pay": "ask_always"}}
    two.approver = DeferredApprover()
    outer = two.outer({"rules": {"pay": "deny"}} if is_denied else {})
    await outer.execute("helped", {"text": "outer_pay"})
    result = await two.made[0].resume(str(two.ended[0].approval_token), True)
    assert result.output == {"result": str(not is_denied)}


async def test_two_that_answer_later(two: Two) -> None:
    """X3: of two yeses that come later, neither is good without the other one: it is refused."""
    two.settings, two.approver = ASK, DeferredApprover()
    outer = two.outer()
    await outer.execute("helped", {"text": "pay"})
    assert two.ended[0].error_type == "execution_rejected"
    assert "two conversations" in str(two.ended[0].error)
    assert outer.gate.book.pending() == two.made[0].gate.book.pending() == []


async def test_another_process_knows_of_the_inner_one(two: Two) -> None:
    """X3: where the inner one is not, a yes is refused and a no is taken."""
    outer = two.outer()
    await outer.execute("helped", {"text": "pay"})
    token, data = str(two.ended[0].approval_token), outer.to_dict()
    later = ToolSession.from_dict(data, two.engine)
    with pytest.raises(ApprovalError, match="another conversation"):
        await later.resume(token, True)
    assert (await later.resume(token, False)).error_type == "execution_rejected"
    assert await two.paid() == 0
