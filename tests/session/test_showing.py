"""Is a conversation told of nothing that it was not shown, by whichever tool?

Looked at: every tool that knows more than its conversation (`read_result`, `search_tools`, the
variable tools, workflows), and every way back to a result: its record, its variables, `resume`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.approval.people import Person
from tests.session.catalogs import definition, engine_over, write
from tool_engine.engine import ToolEngine
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.permission import Permission
from tool_engine.session.reading.result import SessionResult
from tool_engine.session.session import ToolSession
from tool_engine.sources.composition import keep, rename

BOUND = 20.0
SECRET = "Ada earns 99999"
ID = {"name": "call_id", "type": "string", "description": "Which", "required": True}
WHO = {"name": "who", "type": "string", "description": "Whose"}
RULES = {"rules": {"salary": Permission(result="always")}}  # type: ignore[arg-type]
WITHHELD = ("result_rejected", "approval_required")


def entry(handler: str) -> dict[str, Any]:
    return {"entry": {"type": "builtin", "handler": handler}}


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[ToolEngine]:
    query = {"name": "query", "type": "string", "description": "What", "required": True}
    mail = {"name": "text", "type": "string", "description": "What", "required": True}
    write(
        tmp_path,
        definition("read_result", parameters=[ID], **entry("read_result")),
        definition("search_tools", parameters=[query], **entry("search_tools")),
        definition(
            "send_mail",
            parameters=[mail],
            effect="write",
            accepts=["user", "effect:read"],
            **entry("echo"),
        ),
    )
    async with asyncio.timeout(BOUND), engine_over(tmp_path) as engine:

        @engine.tool(effect="read")
        async def salary(who: str = "ada") -> str:
            """Tells a salary."""
            return SECRET

        @engine.tool(effect="unknown")
        async def page(note: str = "") -> str:
            """Reads a page."""
            return "pw: hunter2"

        @engine.tool(effect="read")
        async def peek(call_id: str, context: ToolExecutionContext) -> Any:
            """Reads a result for another tool."""
            read = await context.call("read_result", {"call_id": call_id})
            return read.output or read.error

        yield engine


async def reads(session: ToolSession, call_id: str | None) -> SessionResult:
    return await session.execute("read_result", {"call_id": call_id})


def tells(result: SessionResult) -> bool:
    return SECRET in f"{result.output} {result.final_text} {result.error} {result.metadata}"


@pytest.mark.parametrize("answer", [False, None])
async def test_what_was_not_shown_is_read_by_no_tool(engine: ToolEngine, answer: Any) -> None:
    """After a no, and before a deferred answer: here, inside, in a helper, in other sessions."""
    session = ToolSession(engine, "s", RULES, Person(answer))
    first = await session.execute("salary")
    assert first.error_type in WITHHELD
    call_id = first.call_id
    others = [
        session,
        session.derive(),
        ToolSession(engine, "s", RULES, Person(True)),
        ToolSession(engine, "other", agent_id="s", conversation_id="s"),
        await restored(engine, session),
    ]
    for each in others:
        assert not tells(await reads(each, call_id))
        assert not tells(await each.execute("peek", {"call_id": call_id}))
    me = ToolExecutionContext(caller_id="s", caller_type="conversation_agent", conversation_id="s")
    bare = await engine.execute("read_result", {"call_id": call_id}, me)
    assert SECRET not in f"{bare.output} {bare.error}"


async def restored(engine: ToolEngine, session: ToolSession) -> ToolSession:
    data = session.to_dict()
    # Whatever the settings are by now: somebody has said no.
    data["config"] = {}
    return ToolSession.from_dict(data, engine)


async def test_what_was_shown_is_read(engine: ToolEngine) -> None:
    """A yes, at once or later on, lets it be read; a no to one call is none to another."""
    session = ToolSession(engine, "s", RULES, Person(True, None, False))
    first = await session.execute("salary")
    assert tells(await reads(session, first.call_id))
    later = await session.execute("salary", {"who": "bob"})
    token = later.approval_token
    assert token is not None
    assert not tells(await reads(session, later.call_id))
    assert tells(await session.resume(token, True))
    assert tells(await reads(session, later.call_id))
    refused = await session.execute("salary", {"who": "eve"})
    assert not tells(await reads(session, refused.call_id))
    assert tells(await reads(session, first.call_id))


@pytest.mark.parametrize("is_restored_before", [True, False])
async def test_a_yes_after_a_restore_is_kept(engine: ToolEngine, is_restored_before: bool) -> None:
    """What `resume` let be read is read on, in that process and after the next restore."""
    session = ToolSession(engine, "s", RULES, Person(None))
    first = await session.execute("salary")
    if is_restored_before:
        session = ToolSession.from_dict(session.to_dict(), engine)
    assert tells(await session.resume(str(first.approval_token), True))
    assert session.results.labels_of(str(first.call_id))
    session = ToolSession.from_dict(session.to_dict(), engine)
    assert tells(await reads(session, first.call_id))


async def test_a_no_later_on(engine: ToolEngine) -> None:
    """A request that was deferred is refused: it stays unread."""
    session = ToolSession(engine, "s", RULES, Person(None))
    first = await session.execute("salary")
    assert first.approval_token is not None
    await session.resume(first.approval_token, False)
    assert not tells(await reads(session, first.call_id))


async def test_a_definition_that_asks_about_results(engine: ToolEngine) -> None:
    """Without a session nobody can be asked, so that nothing of it is read."""
    declared = {"name": "own", "description": "Tells.", "permission": {"result": "always"}}

    async def own() -> str:
        return SECRET

    engine.register_tool(declared, own)
    me = ToolExecutionContext(conversation_id="c")
    first = await engine.execute("own", {}, me)
    read = await engine.execute("read_result", {"call_id": first.call_id}, me)
    assert SECRET in str(first.output)
    assert SECRET not in f"{read.output} {read.error}"
    free = await engine.execute("salary", {}, me)
    read = await engine.execute("read_result", {"call_id": free.call_id}, me)
    assert SECRET in str(read.output)


@pytest.mark.parametrize("is_restored", [False, True])
@pytest.mark.parametrize("way", ["read_result", "peek", "twice"])
async def test_what_is_read_keeps_its_labels(
    engine: ToolEngine, way: str, is_restored: bool
) -> None:
    """A text is too short to be known by its letters: where it came from goes with the reading."""
    session = ToolSession(engine, "s")
    first = await session.execute("page")
    refused = {"text": "x $VAR_REF{{page_1_result}}"}
    assert (await session.execute("send_mail", refused)).error_type == "execution_rejected"
    if is_restored:
        session = ToolSession.from_dict(session.to_dict(), engine)
    read = await session.execute(
        "peek" if way == "peek" else "read_result", {"call_id": first.call_id}
    )
    if way == "twice":
        read = await reads(session, read.call_id)
    assert "hunter2" in str(read.output)
    sent = await session.execute("send_mail", {"text": f"x $VAR_REF{{{{{read.result_variable}}}}}"})
    assert sent.error_type == "execution_rejected"


async def test_labels_of_arguments_are_kept(engine: ToolEngine) -> None:
    """What was put into the call that is read came from somewhere, too."""
    session = ToolSession(engine, "s")
    page = await session.execute("page")
    echo = {"who": f"$VAR_REF{{{{{page.result_variable}}}}}"}
    told = await session.execute("salary", echo)
    read = await reads(session, told.call_id)
    sent = await session.execute("send_mail", {"text": f"x $VAR_REF{{{{{read.result_variable}}}}}"})
    assert sent.error_type == "execution_rejected"


async def test_a_search_tells_of_what_is_on(engine: ToolEngine) -> None:
    """Neither tools that are off, nor those that are not in a view or a helper, nor other names."""

    async def found(session: ToolSession) -> set[str]:
        result = await session.execute("search_tools", {"query": "salary page mail"})
        return {each["name"] for each in result.output["tools"]}

    session = ToolSession(engine, "s", {"tool_toggles": {"salary": False}})
    assert await found(session) == {"page", "send_mail"}
    helper = session.derive(tools=["page", "search_tools"])
    assert await found(helper) == {"page"}
    session.toolbox.set_tool_enabled("page", False)
    assert await found(helper) == set()
    view = keep(engine, lambda tool: tool.name in ("search_tools", "salary"))
    assert await found(ToolSession(view, "v")) == {"salary"}
    shown = ToolSession(rename(engine, {"salary": "pay_check"}), "r")
    assert "pay_check" in await found(shown)
    assert "salary" not in await found(shown)


async def test_a_search_looks_on_where_much_is_off(engine: ToolEngine) -> None:
    """However many tools that fit better are off, those that are on are found."""
    for number in range(40):
        engine.tool(f"rain_{number}", description="Rain, rain, rain.", effect="read")(_rain)
    engine.tool("weather", description="Tells of sun, wind, clouds and rain.", effect="read")(_rain)
    off = {f"rain_{number}": False for number in range(40)}
    session = ToolSession(engine, "s", {"tool_toggles": off})
    result = await session.execute("search_tools", {"query": "rain"})
    assert [each["name"] for each in result.output["tools"]] == ["weather"]


async def _rain() -> str:
    return "rain"
