"""Is the yes of `on_before_execute` good for the call that was asked about, and for no other?

Looked at: every ContextVar that says something of a call (`written`, `also`, the executor of a
preview, the level of a workflow): each is reset where it was set.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.approval.people import Person
from tests.session.catalogs import write
from tests.session.till import Till, engine_with, payment
from tool_engine.engine import ToolEngine
from tool_engine.model.call import ToolCall, ToolExecutionContext
from tool_engine.model.reply import ParsedReply
from tool_engine.model.tool import Tool
from tool_engine.protocols.cycle import process_tool_calls
from tool_engine.protocols.cycle_options import CycleOptions
from tool_engine.session.session import ToolSession
from tool_engine.sources.composition import rename

REJECTED = "execution_rejected"


def pay(version: str = "1.0.0", permission: str | None = "ask_always", **keys: Any) -> Any:
    to = {"name": "to", "type": "array", "description": "Who gets it", "required": True}
    asks = {} if permission is None else {"permission": permission}
    return payment([to], version=version, effect="write", **asks, **keys)


@pytest.fixture
def till() -> Till:
    return Till()


@pytest.fixture
async def engine(tmp_path: Path, till: Till) -> AsyncIterator[ToolEngine]:
    async with engine_with(till, tmp_path, pay()) as made:
        yield made


def call(to: str, tool_name: str = "pay") -> ParsedReply:
    return ParsedReply(calls=[ToolCall(call_id="1", tool_name=tool_name, arguments={"to": [to]})])


def yes(asked: ToolCall, tool: Tool) -> bool:
    del asked, tool
    return True


async def test_a_call_that_fails_early_leaves_no_yes(engine: ToolEngine, till: Till) -> None:
    """The yes to a call that never ran is no yes to the next one, in this session or another."""
    session = ToolSession(engine, "S")
    cycle = await session.process(call("$VAR_REF{{nothing}}"), "vcp", yes)
    assert cycle.execution_results[0].error_type == "validation_error"
    assert (await session.execute("pay", {"to": ["mallory"]})).error_type == REJECTED
    bounded = ToolSession(engine, "S2", {"max_calls": 1})
    await bounded.process(call("ada"), "vcp", yes)
    cycle = await bounded.process(call("bob"), "vcp", yes)
    assert cycle.execution_results[0].error_type == "limit_reached"
    other = ToolSession(engine, "S3")
    assert (await other.execute("pay", {"to": ["mallory"]})).error_type == REJECTED
    no = Person(False)
    refused = ToolSession(engine, "S4", approver=no)
    assert (await refused.execute("pay", {"to": ["mallory"]})).error_type == REJECTED
    assert (len(no.asked), till.ran) == (1, [("1.0.0", ["ada"])])


async def test_calls_that_a_callback_makes_have_no_yes(engine: ToolEngine, till: Till) -> None:
    """Neither while somebody is asked, nor for an equal call of the same or another session."""
    session, other = ToolSession(engine, "S"), ToolSession(engine, "other")
    ended: list[str | None] = []

    async def ask(asked: ToolCall, tool: Tool) -> bool:
        made = [await each.execute("pay", asked.arguments) for each in (session, other)]
        ended.extend(each.error_type for each in made)
        return True

    await session.process(call("ada"), "vcp", ask)
    await session.execute("pay", {"to": ["ada"]})
    assert (ended, till.ran) == ([REJECTED] * 2, [("1.0.0", ["ada"])])


async def test_who_is_asked_cannot_change_the_call(engine: ToolEngine, till: Till) -> None:
    """Neither what they are given, nor the reply that they hold, is what runs."""
    reply = call("ada")

    def ask(asked: ToolCall, tool: Tool) -> bool:
        for arguments in (asked.arguments, reply.calls[0].arguments):
            arguments["to"][0] = "mallory"
            arguments["to"] = ["mallory"]
        return True

    await ToolSession(engine, "S").process(reply, "vcp", ask)
    assert till.ran == [("1.0.0", ["ada"])]


@pytest.mark.parametrize("permission", ["ask_always", None])
@pytest.mark.parametrize("is_renamed", [False, True])
async def test_a_yes_to_one_version_runs_no_other(
    engine: ToolEngine, till: Till, tmp_path: Path, is_renamed: bool, permission: str | None
) -> None:
    """A definition that changes while somebody is asked is asked about again."""
    write(tmp_path, pay(permission=permission))
    await engine.reload()
    source = rename(engine, {"pay": "give"}) if is_renamed else engine
    asked: list[str] = []

    async def ask(request: ToolCall, tool: Tool) -> bool:
        asked.append(tool.version)
        if tool.version == "1.0.0":
            await asyncio.to_thread(write, tmp_path, pay("2.0.0", permission))
            await engine.reload()
        return tool.version == "1.0.0"

    name = "give" if is_renamed else "pay"
    reply = call("ada", name)
    cycle = await ToolSession(source, "S").process(reply, "vcp", ask)
    assert (asked, till.ran) == (["1.0.0", "2.0.0"], [])
    assert cycle.execution_results[0].error_type == "rejected"


async def test_engines_and_bare_cycles_ask_again(
    engine: ToolEngine, till: Till, tmp_path: Path
) -> None:
    """The same where a reply goes to an engine; one that changes each time is not run."""
    write(tmp_path, pay(permission=None))
    await engine.reload()
    asked: list[str] = []

    async def ask(request: ToolCall, tool: Tool) -> bool:
        asked.append(tool.version)
        await asyncio.to_thread(write, tmp_path, pay(f"{len(asked) + 1}.0.0", permission=None))
        await engine.reload()
        return True

    options = CycleOptions(on_before_execute=ask)
    cycle = await process_tool_calls(engine, call("ada"), "vcp", options)
    assert cycle.execution_results[0].error_type == "rejected"
    assert (asked, till.ran) == ([f"{number}.0.0" for number in range(1, 11)], [])


async def test_a_change_while_the_approver_is_asked(
    engine: ToolEngine, till: Till, tmp_path: Path
) -> None:
    """A session's approver is asked after the callback: what changed then had one yes of two."""

    async def approve(request: Any) -> Any:
        if request.tool_version == "1.0.0":
            await asyncio.to_thread(write, tmp_path, pay("2.0.0"))
            await engine.reload()
        return True

    class Approver:
        async def approve(self, request: Any) -> Any:
            return await approve(request)

    cycle = await ToolSession(engine, "S", approver=Approver()).process(call("ada"), "vcp", yes)
    (result,) = cycle.execution_results
    assert (result.error_type, till.ran) == (REJECTED, [])
    assert "call it again" in (result.error or "")


async def test_a_callback_of_a_bare_cycle_is_no_consent(engine: ToolEngine, till: Till) -> None:
    """Only whoever takes a reply through a conversation says that its callback consents."""
    options = CycleOptions(on_before_execute=yes)
    cycle = await process_tool_calls(ToolSession(engine, "S"), call("ada"), "vcp", options)
    assert (cycle.execution_results[0].error_type, till.ran) == (REJECTED, [])


async def test_a_yes_holds_for_no_inner_call(engine: ToolEngine, till: Till) -> None:
    """About what the tool of an allowed call does, nobody was asked."""

    async def twice(to: list[str], context: ToolExecutionContext) -> Mapping[str, Any]:
        inner = await context.call("pay", {"to": to})
        return {"inner": inner.error_type}

    entry = {"type": "custom", "handler": "twice"}
    engine.register_tool({**pay(permission=None), "name": "twice", "entry": entry}, twice)
    reply = call("ada", "twice")
    cycle = await ToolSession(engine, "S").process(reply, "vcp", yes)
    assert cycle.execution_results[0].output["inner"] == REJECTED
    assert till.ran == []
