"""For whom does a decision hold that was given for good, where, and until when?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.session.test_engine_approvals import engine_of
from tool_engine import (
    ApprovalDecision,
    ToolCallConfig,
    ToolEngine,
    ToolEngineEvent,
    ToolExecutionContext,
    ToolSession,
)
from tool_engine.errors import ConfigurationError
from tool_engine.model.approval import ApprovalRequest

CALL = ApprovalDecision(is_approved=True, always="call", by="op")
ONLY_NOW = ApprovalDecision(is_approved=True, is_remembered=False)
TOOL = ApprovalDecision(is_approved=True, always="tool", by="op")
NEVER = ApprovalDecision(is_approved=False, always="tool", reason="never")


class Says:
    """Gives one answer, and counts the questions."""

    def __init__(self, answer: Any = CALL) -> None:
        self.answer = answer
        self.asked: list[ApprovalRequest] = []

    async def approve(self, request: ApprovalRequest) -> Any:
        self.asked.append(request)
        await asyncio.sleep(0)
        return self.answer


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[ToolEngine]:
    made = await engine_of(tmp_path / "tools", records=f"sqlite:///{tmp_path}/calls.db")
    yield made
    await made.close()


def session_of(
    engine: ToolEngine, name: str, says: Says, principal: str | None, **config: Any
) -> Any:
    chosen = ToolCallConfig.from_dict(config)
    return ToolSession(engine, name, chosen, says, principal=principal)


async def put(session: Any, text: str = "a", **context: Any) -> bool:
    given = ToolExecutionContext(**context) if context else None
    result = await session.execute("put", {"text": text}, given)
    return bool(result.is_success)


async def test_it_holds_for_one_principal_in_all_their_sessions(engine: ToolEngine) -> None:
    """Another principal, an unknown one, and the same one for other arguments are asked."""
    says = Says()
    assert await put(session_of(engine, "s-1", says, "ann"))
    for name, principal, text, questions in (
        ("s-1", "ann", "a", 1),
        ("s-2", "ann", "a", 1),
        ("s-2", "ann", "b", 2),
        ("s-1", "bob", "a", 3),
        ("s-1", None, "a", 4),
        ("s-3", "ann", "a", 4),
    ):
        says.answer = CALL if principal == "ann" else ONLY_NOW
        assert await put(session_of(engine, name, says, principal), text)
        assert len(says.asked) == questions, (name, principal, text)


async def test_it_does_not_leak_inside_of_a_session(engine: ToolEngine) -> None:
    """Where a session serves several callers, a word that always holds is one caller's."""
    says = Says()
    session = session_of(engine, "s", says, None)
    assert await put(session, caller_id="ann", caller_type="mcp")
    assert await put(session, caller_id="ann", caller_type="mcp")
    assert [each.principal for each in says.asked] == ["ann"]
    says.answer = ApprovalDecision(is_approved=False, is_remembered=False)
    assert not await put(session, caller_id="bob", caller_type="mcp")
    assert not await put(session)
    assert [each.principal for each in says.asked] == ["ann", "bob", ""]


@pytest.mark.parametrize("kind", ["tool_sub_agent", "conversation_agent", "workflow_node"])
async def test_a_part_of_a_program_is_no_principal(engine: ToolEngine, kind: str) -> None:
    """The name of an agent is the same for all who use the program."""
    says = Says()
    for name in ("s-1", "s-2"):
        session = session_of(engine, name, says, None)
        assert await put(session, caller_id="researcher", caller_type=kind)
    assert [each.principal for each in says.asked] == ["", ""]
    assert await engine.approvals.standing() == []


async def test_helpers_and_inner_calls_have_the_principal(engine: ToolEngine) -> None:
    """Who is behind a conversation is behind all that it does."""

    @engine.tool(effect="write")
    async def twice(text: str, context: ToolExecutionContext) -> bool:
        """Puts a text."""
        return (await context.call("put", {"text": text})).is_success

    says = Says()
    session = session_of(engine, "s", says, "ann")
    assert (await session.execute("twice", {"text": "x"})).output["result"]
    assert (await session.derive().execute("twice", {"text": "x"})).output["result"]
    await session.sub_agent("helper").execute("twice", {"text": "x"})
    assert [each.principal for each in says.asked] == ["ann"]


async def test_equal_questions_at_once_are_one_for_each_principal(engine: ToolEngine) -> None:
    """Five of one principal ask once; two principals ask twice."""
    says = Says()
    session = session_of(engine, "s", says, None)
    calls = [
        put(session, caller_id=name, caller_type="mcp") for name in ("ann", "bob") for _ in range(5)
    ]
    assert all(await asyncio.gather(*calls))
    assert sorted(each.principal for each in says.asked) == ["ann", "bob"]


async def test_it_outlives_the_process_and_its_session(tmp_path: Path) -> None:
    """It is kept beside the records, and goes with no conversation."""
    url = f"sqlite:///{tmp_path}/calls.db"
    says = Says()
    for _ in range(2):
        engine = await engine_of(tmp_path / "tools", records=url)
        assert await put(session_of(engine, "s", says, "ann"))
        await engine.store.sessions.delete("s")
        await engine.close()
    assert len(says.asked) == 1
    other = await engine_of(tmp_path / "other", records=url)
    assert await put(session_of(other, "s", says, "ann"))
    assert len(says.asked) == 2
    assert len(await other.approvals.standing()) == 1
    await other.close()


async def test_calls_of_no_session_have_it_too(tmp_path: Path) -> None:
    """The caller of an engine is a principal, in its sessions as well."""
    says = Says()
    engine = await engine_of(tmp_path / "tools", says)
    for _ in range(2):
        assert await put(engine, caller_id="ann")
    assert await put(session_of(engine, "s", says, "ann"))
    assert len(says.asked) == 1
    says.answer = ONLY_NOW
    assert await put(engine)
    assert await put(engine, caller_id="bob")
    assert len(says.asked) == 3
    await engine.close()


@pytest.mark.parametrize("decision", [CALL, TOOL, NEVER], ids=["call", "tool", "never"])
async def test_other_code_is_another_question(engine: ToolEngine, decision: Any) -> None:
    """Whatever was decided is about this definition and this code."""
    says = Says(decision)
    session = session_of(engine, "s", says, "ann")
    assert await put(session) is decision.is_approved
    tool = engine.get_or_raise("put")
    engine.unregister_tool("put")
    engine.register_tool(tool, lambda text: text.upper())
    await put(session)
    assert len(says.asked) == 2
    engine.unregister_tool("put")
    definition = {"name": "put", "description": "Puts.", "permission": "ask_once"}
    parameters = [{"name": "text", "type": "string", "required": True, "description": "A text"}]
    engine.register_tool({**definition, "parameters": parameters}, lambda text: text.upper())
    await put(session)
    assert len(says.asked) == 3


@pytest.mark.parametrize("rule", ["deny", "ask_always"])
async def test_stricter_words_go_before_it(engine: ToolEngine, rule: str) -> None:
    """What is denied never runs, and who is asked each time is asked."""
    says = Says(TOOL)
    assert await put(session_of(engine, "s", says, "ann"))
    says.answer = False
    strict = session_of(engine, "s-2", says, "ann", rules={"put": rule})
    assert not await put(strict)
    assert len(says.asked) == (1 if rule == "deny" else 2)
    assert await put(session_of(engine, "s-3", says, "ann"))


async def test_an_answer_to_a_question_of_each_time_stands_for_nothing(engine: ToolEngine) -> None:
    """Who answers always is asked all the same."""
    says = Says(TOOL)
    for _ in range(2):
        assert await put(session_of(engine, "s", says, "ann", rules={"put": "ask_always"}))
    assert len(says.asked) == 2
    assert await engine.approvals.standing() == []


async def test_the_whole_tool(engine: ToolEngine) -> None:
    """Whatever the arguments; what was said of one call goes before it."""
    says = Says(TOOL)
    session = session_of(engine, "s", says, "ann")
    assert await put(session, "a")
    assert await put(session, "b")
    assert len(says.asked) == 1
    await engine.approvals.revoke((await engine.approvals.standing("ann"))[0].decision_id)
    says.answer = ApprovalDecision(is_approved=False, always="call", reason="this one never")
    assert not await put(session, "a")
    says.answer = TOOL
    assert await put(session, "b")
    assert not await put(session, "a")
    assert await put(session, "c")


async def test_it_is_listed_and_revoked(engine: ToolEngine) -> None:
    """With who decided, about what; after that the next call is asked about, also elsewhere."""
    seen: list[ToolEngineEvent] = []
    engine.subscribe(seen.append, ["decision_kept", "decision_revoked"])
    says = Says()
    session = session_of(engine, "s", says, "ann")
    assert await put(session)
    (found,) = await engine.approvals.standing("ann")
    assert (found.principal, found.tool_name, found.params, found.by) == (
        "ann",
        "put",
        {"text": "a"},
        "op",
    )
    assert await engine.approvals.standing("bob") == []
    assert await engine.approvals.revoke(found.decision_id, by="boss")
    assert not await engine.approvals.revoke(found.decision_id)
    assert await put(session)
    assert len(says.asked) == 2
    common = {"decision_id": found.decision_id, "principal": "ann", "always": "call"}
    assert [(each.event_type.value, each.tool_name, each.data) for each in seen] == [
        ("decision_kept", "put", {**common, "is_approved": True, "by": "op"}),
        ("decision_revoked", "put", {**common, "by": "boss"}),
        ("decision_kept", "put", {**common, "is_approved": True, "by": "op"}),
    ]


async def test_another_engine_revokes_nothing(tmp_path: Path, engine: ToolEngine) -> None:
    """Of two on one database each lists and revokes its own."""
    other = await engine_of(tmp_path / "other", records=f"sqlite:///{tmp_path}/calls.db")
    assert await put(session_of(engine, "s", Says(), "ann"))
    (found,) = await engine.approvals.standing()
    assert await other.approvals.standing() == []
    assert not await other.approvals.revoke(found.decision_id)
    assert await engine.approvals.standing() == [found]
    await other.close()


async def test_a_deferred_answer_stands(engine: ToolEngine) -> None:
    """It holds for whoever was behind the call that asked, not for who resumes it."""
    says = Says(None)
    session = session_of(engine, "s", says, "ann")
    await put(session)
    (request,) = await engine.approvals.pending("ann")
    await session.save()
    restored = await ToolSession.restore(engine, "s", principal="bob")
    assert restored is not None
    assert (await restored.resume(request.token, CALL)).is_success
    assert [each.principal for each in await engine.approvals.standing()] == ["ann"]


@pytest.mark.parametrize("part", ["find", "keep"])
async def test_a_storage_that_fails(tmp_path: Path, part: str) -> None:
    """Nothing runs for it that was not allowed: the approver is asked again."""
    engine = await engine_of(tmp_path / "tools")

    async def fail(*args: Any) -> Any:
        raise OSError("gone")

    setattr(engine.store.approvals, f"{part}_standing", fail)
    says = Says()
    session = session_of(engine, "s", says, "ann")
    assert await put(session)
    says.answer = False
    assert not await put(session)
    assert len(says.asked) == 2
    await engine.close()


@pytest.mark.parametrize(
    "fields",
    [{"always": "ever"}, {"always": True}, {"always": "call", "is_remembered": False}, {"by": 1}],
    ids=repr,
)
def test_a_decision_that_cannot_be(fields: dict[str, Any]) -> None:
    """It is an error that says what to write."""
    with pytest.raises(ConfigurationError, match=r"always|by"):
        ApprovalDecision(is_approved=True, **fields)


def test_a_principal_that_cannot_be(engine: ToolEngine) -> None:
    """A principal is a text."""
    with pytest.raises(ConfigurationError, match="principal must be a text"):
        ToolSession(engine, "s", principal=7)  # type: ignore[arg-type]
