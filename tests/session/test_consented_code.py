"""Does a consent hold for the code and the definition that somebody saw, and for no other?

Looked at: every key that stands for a tool: fingerprints, requests, remembered answers (a yes and
a no), shared runs, groups of hidden tools, compiled code. A name and an empty hash are none.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.approval.people import TOOL, Person
from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.model.permission import Permission
from tool_engine.session.session import ToolSession

BOUND = 20.0
ONCE = Permission(execution="ask_once")  # type: ignore[arg-type] # it takes texts
BY_HAND = replace(TOOL, name="x", definition_hash="", permission=ONCE)


async def first() -> str:
    return "first"


async def ninth() -> str:
    return "wipes all"


async def answers(
    tmp_path: Path, says: bool, *others: tuple[Any, Any]
) -> tuple[int, list[str | None]]:
    """How often somebody was asked about calls of the tools, and what came of the calls."""
    person, outputs = Person(says), list[str | None]()
    for tool, handler in ((BY_HAND, first), *others):
        config = ToolEngineConfig(
            tools_directory=str(tmp_path), records=f"sqlite:///{tmp_path}/records.db"
        )
        async with asyncio.timeout(BOUND), ToolEngine(config) as engine:
            engine.register_tool(tool, handler)
            result = await ToolSession(engine, "s", approver=person).execute("x")
            outputs.append(result.output.get("result"))
    return len(person.asked), outputs


@pytest.mark.parametrize(
    ("tool", "handler"),
    [
        (replace(BY_HAND, version="9.0.0"), first),
        (BY_HAND, ninth),
        (replace(BY_HAND, implementation_config={"config": {"to": "all"}}), first),
        (replace(BY_HAND, effect="read"), first),
    ],
)
async def test_another_tool_is_another_question(tmp_path: Path, tool: Any, handler: Any) -> None:
    """A yes to one runs no other, and a no refuses no other unasked, also after a restart."""
    asked, outputs = await answers(tmp_path, True, (BY_HAND, first), (tool, handler))
    assert asked == 2
    assert outputs[:2] == ["first", "first"]
    (tmp_path / "no").mkdir()
    asked, outputs = await answers(tmp_path / "no", False, (BY_HAND, first), (tool, handler))
    assert (asked, outputs) == (2, [None] * 3)


async def test_code_under_an_unchanged_definition(tmp_path: Path) -> None:
    """What a mapping defines has a hash, and the code that runs it is still another one."""
    declared = {"name": "x", "description": "X.", "permission": "ask_once"}
    person = Person(True)
    async with asyncio.timeout(BOUND), ToolEngine() as engine:
        session = ToolSession(engine, "s", approver=person)
        for handler in (first, first, ninth):
            engine.register_tool(declared, handler)
            await session.execute("x")
            engine.unregister_tool("x")
    assert len(person.asked) == 2


async def test_a_deferred_call_runs_no_other_code() -> None:
    """A token is good for what was asked about: with other code somebody is asked again."""
    declared = {"name": "x", "description": "X.", "permission": "ask_always"}
    async with asyncio.timeout(BOUND), ToolEngine() as engine:
        session = ToolSession(engine, "s", approver=Person(None))
        engine.register_tool(declared, first)
        token = (await session.execute("x")).approval_token
        engine.unregister_tool("x")
        engine.register_tool(declared, ninth)
        assert token is not None
        result = await session.resume(token, True)
        assert result.error_type == "approval_required"
