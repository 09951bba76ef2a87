"""What may a helper do that works for a conversation? Nothing that the conversation may not."""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine import ToolEngine
from tool_engine.approval.callback import CallbackApprover
from tool_engine.errors import ConfigurationError, ToolNotFoundError
from tool_engine.model.approval import ApprovalRequest
from tool_engine.model.group import ToolGroup
from tool_engine.model.permission import ExecutionPolicy, Permission
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.session import ToolSession
from tool_engine.session.variables.store import Variable

DENY = Permission(execution=ExecutionPolicy.DENY)
ONCE = Permission(execution=ExecutionPolicy.ASK_ONCE)


def names(session: ToolSession) -> set[str]:
    return {tool.name for tool in session.tools()} & {"half", "put", "numbers", "fail", "mine"}


async def test_never_more_tools(engine: ToolEngine) -> None:
    """A helper has at most the tools that are on, whatever it is asked to have."""
    session = ToolSession(engine, "s", ToolCallConfig(tool_toggles={"put": False}))
    assert names(session.derive()) == {"half", "numbers", "fail"}
    assert names(session.derive(tools=["half"])) == {"half"}
    for wanted in ("put", "nope"):
        with pytest.raises(ToolNotFoundError):
            session.derive(tools=[wanted])
    with pytest.raises(ConfigurationError, match=r"a list of names, got 'half'; write \['half'\]"):
        session.derive(tools="half")
    child = session.derive(tools=["half"])
    assert not (await child.execute("numbers", {"count": 1})).is_success


async def test_what_is_turned_off_is_off_for_helpers(engine: ToolEngine) -> None:
    """Also while they work."""
    session = ToolSession(engine, "s")
    child = session.derive()
    grandchild = child.derive()
    session.toolbox.set_tool_enabled("half", False)
    for helper in (child, grandchild):
        assert (await helper.execute("half", {"number": 1})).error_type == "rejected"
        assert "half" not in names(helper)
    child.toolbox.set_tool_enabled("put", False)
    assert (await grandchild.execute("put", {"text": "x"})).error_type == "rejected"
    assert engine.puts == []  # type: ignore[attr-defined]


async def test_tools_of_the_session_only_when_they_are_named(engine: ToolEngine) -> None:
    """What was registered for one conversation is not everybody's."""
    session = ToolSession(engine, "s")
    session.register_tool({"name": "mine", "description": "Only here."}, lambda: "x")
    assert "mine" not in names(session.derive())
    child = session.derive(tools=["mine", "read_var"])
    assert (await child.execute("mine")).is_success


async def test_never_more_rights(engine: ToolEngine) -> None:
    """Rules, group permissions and remembered decisions hold for helpers, too."""
    asked: list[ApprovalRequest] = []

    def allow(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    config = ToolCallConfig(rules={"half": DENY, "put": ONCE})
    session = ToolSession(engine, "s", config, CallbackApprover(allow))
    group = ToolGroup(name="g", tools=("numbers",), permission=DENY, is_enabled=True)
    session.toolbox.register_group(group)
    child = session.derive()
    assert not (await child.execute("half", {"number": 1})).is_success
    assert not (await child.execute("numbers", {"count": 1})).is_success
    await session.execute("put", {"text": "x"})
    assert (await child.execute("put", {"text": "x"})).is_success
    assert len(asked) == 1
    changes: list[dict[str, Any]] = [{"rules": {}}, {"enabled": True}, {"mode": "auto"}]
    for change in changes:
        with pytest.raises(ConfigurationError, match="cannot have other"):
            session.derive(**change)


async def test_never_more_means(engine: ToolEngine) -> None:
    """What a helper spends, the conversation spends."""
    session = ToolSession(engine, "s", ToolCallConfig(max_calls=2))
    child = session.derive(max_calls=50)
    await child.execute("half", {"number": 1})
    await session.execute("half", {"number": 1})
    assert (await child.execute("half", {"number": 1})).error_type == "limit_reached"
    assert (session.usage().calls, child.usage().calls) == (2, 1)


async def test_what_it_remembers_is_its_own(engine: ToolEngine) -> None:
    """S35: variables are not shared; the conversation's id begins that of the helper."""
    session = ToolSession(engine, "s", conversation_id="talk")
    await session.execute("half", {"number": 1})
    child = session.derive("helper")
    assert len(child.variables) == 0
    await child.execute("half", {"number": 1})
    assert len(session.variables) == 2
    records = await engine.query_call_records()
    assert [record.session_id for record in records] == ["s/helper", "s"]
    assert {record.conversation_id for record in records} == {"talk"}
    assert session.derive().session_id != session.derive().session_id


async def test_whoever_listens_hears_of_its_requests(engine: ToolEngine) -> None:
    """A helper's request is told where the conversation's are."""
    heard: list[Any] = []
    config = ToolCallConfig(require_confirmation=True)
    session = ToolSession(engine, "s", config, CallbackApprover(lambda request: True))
    child = session.derive()
    session.gate.on_request = heard.append
    session.gate.on_answer = lambda request, decision: heard.append(decision)
    await child.execute("half", {"number": 1})
    assert [getattr(each, "tool_name", "answer") for each in heard] == ["half", "answer"]


PAGE = (
    "The meeting of the board is on the ninth of May at the old mill, and nobody else may know it"
)


def with_page_and_mail(engine: ToolEngine) -> None:
    text = {"name": "text", "type": "string", "required": True, "description": "What is sent"}
    mail = {"name": "mail", "description": "Sends.", "accepts": ["user"], "parameters": [text]}
    engine.register_tool({"name": "page", "description": "Reads."}, lambda: PAGE)
    engine.register_tool(mail, lambda text: text)


@pytest.mark.parametrize("is_gone", [False, True])
@pytest.mark.parametrize("generations", [1, 2])
async def test_what_the_conversation_read_is_no_free_text_for_its_helpers(
    engine: ToolEngine, generations: int, is_gone: bool
) -> None:
    """N33: once a conversation has read a page, its helpers mail nothing that they type.

    Looked at: what is read before and after the helper is made, what is gone from the variables, a
    helper of a helper, a variable that the helper writes, and a helper that goes on by itself.
    """
    with_page_and_mail(engine)
    for is_before in (True, False):
        session = child = ToolSession(engine, "s")
        if is_before:
            await session.execute("page")
        for _ in range(generations):
            child = child.derive()
        own = Variable(name="own", value="We meet tomorrow at noon.")
        child.variables.add(own)
        assert (await child.execute("mail", {"text": "hi"})).is_success is not is_before
        if not is_before:
            await session.execute("page")
        if is_gone:
            session.variables.remove([each.name for each in session.variables])
        alone = ToolSession.from_dict(child.to_dict(), engine)
        for each in (child, alone):
            refused = await each.execute("mail", {"text": "hi"})
            assert refused.error_type == "execution_rejected"
            await each.execute("write_var", {"name": "mine", "value": "hi"})
            kept = await each.execute("mail", {"text": "$VAR_REF{{mine}}"})
            assert kept.error_type == "execution_rejected"
            assert (await each.execute("mail", {"text": "$VAR_REF{{own}}"})).is_success


async def test_what_a_helper_reads(engine: ToolEngine) -> None:
    """N33: the conversation that it works for has not read it, unless it is told."""
    with_page_and_mail(engine)
    session = ToolSession(engine, "s")
    child = session.derive()
    await child.execute("page")
    assert (await child.execute("mail", {"text": "hi"})).error_type == "execution_rejected"
    assert (await session.execute("mail", {"text": "hi"})).is_success
