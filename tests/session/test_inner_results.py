"""Is a result that somebody must see first kept from the model also inside of another result?

Looked at: every way by which an inner result reaches a model: the outer result and its error, its
variables, workflows, tasks that a tool starts, `read_result`, runs that calls share, replies that
an engine runs without a session.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.approval.people import Person
from tool_engine import ToolEngine, ToolExecutionContext, process_tool_calls
from tool_engine.model.permission import Permission
from tool_engine.session.session import ToolSession

SECRET = "SALARY-31337"
ALWAYS: Any = {"rules": {"sal": Permission(result="always")}}  # type: ignore[arg-type]
ON_ERROR: Any = {"rules": {"fails": Permission(result="on_error")}}  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def around(engine: ToolEngine) -> None:
    """Tools that give the results of others on, in several ways."""

    @engine.tool(effect="read")
    async def sal() -> str:
        """Tells a salary."""
        return SECRET

    @engine.tool(effect="read")
    async def fails() -> str:
        """Fails."""
        raise ValueError(SECRET)

    @engine.tool(effect="read")
    async def tells(of: str, context: ToolExecutionContext) -> Any:
        """Tells what another tool gave."""
        inner = await context.call(of, {})
        return inner.output or inner.error

    @engine.tool(effect="read")
    async def deep(of: str, context: ToolExecutionContext) -> Any:
        """Tells it one level further up."""
        return (await context.call("tells", {"of": of})).output

    @engine.tool(effect="read")
    async def beside(of: str, context: ToolExecutionContext) -> Any:
        """Tells it from a task of its own."""
        async with asyncio.TaskGroup() as group:
            made = group.create_task(context.call(of, {}))
        return made.result().output

    @engine.tool(effect="read")
    async def raises(of: str, context: ToolExecutionContext) -> Any:
        """Fails with it."""
        inner = await context.call(of, {})
        raise ValueError(str(inner.output or inner.error))

    engine.register_tool(
        {
            "name": "flow",
            "description": "One step.",
            "entry": {"type": "workflow", "steps": [{"id": "a", "tool": "sal", "params": {}}]},
            "effect": "read",
        }
    )


@pytest.mark.parametrize("answer", [False, None])
@pytest.mark.parametrize("way", ["tells", "deep", "beside", "raises", "flow"])
async def test_an_inner_result_is_judged(engine: ToolEngine, way: str, answer: Any) -> None:
    """The tool has it, and the model does not read the tool's result unless somebody lets it."""
    person = Person(answer)
    session = ToolSession(engine, "s", ALWAYS, person)
    params = {} if way == "flow" else {"of": "sal"}
    result = await session.execute(way, params)
    assert SECRET not in f"{result.final_text} {result.error}"
    (request,) = person.asked
    assert (request.kind, request.tool_name) == ("result", way)
    assert SECRET in (request.result or "")
    assert not [each for each in session.variables.find() if SECRET in str(each.value)]
    told = ToolSession(engine, "t", ALWAYS, Person(True))
    assert SECRET in str((await told.execute(way, params)).final_text)


async def test_of_a_failure_somebody_is_asked_when_the_call_fails(engine: ToolEngine) -> None:
    """`on_error` of an inner call is about an outer call that fails."""
    person = Person(False)
    session = ToolSession(engine, "s", ON_ERROR, person)
    result = await session.execute("raises", {"of": "fails"})
    assert SECRET not in f"{result.final_text} {result.error}"
    assert len(person.asked) == 1


async def test_calls_that_need_nothing_ask_nobody(engine: ToolEngine) -> None:
    """An inner call that no policy is about changes nothing."""
    person = Person(False)
    session = ToolSession(engine, "s", ON_ERROR, person)
    assert SECRET in str((await session.execute("tells", {"of": "sal"})).final_text)
    assert person.asked == []


SHARED = {
    "name": "shared",
    "description": "One step, one run for all.",
    "entry": {"type": "workflow", "steps": [{"id": "a", "tool": "slow", "params": {}}]},
    "effect": "read",
    "concurrency": {"collision": "single_flight"},
}


class Gate:
    """Holds a tool up between two moments that a test chooses."""

    def __init__(self) -> None:
        self.is_reached, self.is_open = asyncio.Event(), asyncio.Event()

    async def passed(self) -> str:
        self.is_reached.set()
        await self.is_open.wait()
        return SECRET


@pytest.fixture
def shares(engine: ToolEngine) -> Gate:
    """A tool whose runs are shared, and what holds up the one that it calls."""
    gate = Gate()

    @engine.tool(effect="read", permission={"result": "always"})
    async def slow() -> str:
        """Tells a salary when it may."""
        return await gate.passed()

    engine.register_tool(SHARED)
    return gate


async def _joined(gate: Gate, leader: Any, other: Any) -> list[Any]:
    """The results of a call that leads, and of one that shares its run."""
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        first = group.create_task(leader)
        await gate.is_reached.wait()
        second = group.create_task(other)
        for _ in range(50):
            await asyncio.sleep(0)
        gate.is_open.set()
    return [first.result(), second.result()]


@pytest.mark.parametrize("leader", ["session", "stranger"])
@pytest.mark.parametrize("way", ["shared", "tells"])
async def test_who_shares_a_run_is_asked_about_what_is_in_it(
    engine: ToolEngine, shares: Gate, leader: str, way: str
) -> None:
    """The inner call was made for the leader; its result reaches each that shares the run.

    Looked at: a leader of another conversation and of none; the call itself and one further out.
    """
    first = ToolSession(engine, "a", approver=Person(True)) if leader == "session" else engine
    person = Person(False)
    session = ToolSession(engine, "b", approver=person)
    params = {} if way == "shared" else {"of": "shared"}
    _, result = await _joined(shares, first.execute("shared"), session.execute(way, params))
    assert SECRET not in f"{result.final_text} {result.error}"
    assert [each.kind for each in person.asked] == ["result"]
    assert not [each for each in session.variables.find() if SECRET in str(each.value)]


async def test_who_shares_a_run_is_asked_by_the_rules_of_its_own_conversation(
    engine: ToolEngine, shares: Gate
) -> None:
    """A rule of the one that shares holds, though the inner call was made for another one."""
    engine.unregister_tool("slow")

    @engine.tool(name="slow", effect="read")
    async def free() -> str:
        """Tells a salary when it may."""
        return await shares.passed()

    rules: Any = {"rules": {"slow": Permission(result="always")}}  # type: ignore[arg-type]
    one = ToolSession(engine, "a", approver=Person(False))
    other = ToolSession(engine, "b", rules, Person(False))
    read, refused = await _joined(shares, one.execute("shared"), other.execute("shared"))
    assert SECRET in str(read.final_text)
    assert (refused.error_type, refused.final_text) == ("result_rejected", None)


@pytest.mark.parametrize("way", ["flow", "tells", "deep", "beside"])
async def test_without_a_session_it_is_withheld_from_the_model(
    engine: ToolEngine, way: str
) -> None:
    """A reply that an engine runs: nobody can be asked, about an inner result neither."""
    engine.unregister_tool("sal")

    @engine.tool(name="sal", effect="read", permission={"result": "always"})
    async def told() -> str:
        """Tells a salary."""
        return SECRET

    params = {} if way == "flow" else {"of": "sal"}
    function = {"name": way, "arguments": json.dumps(params)}
    call = {"id": "c1", "type": "function", "function": function}
    reply = {"choices": [{"message": {"role": "assistant", "tool_calls": [call]}}]}
    cycle = await process_tool_calls(engine, reply, "openai")
    assert SECRET not in f"{cycle.messages} {cycle.formatted}"
    assert [each.error_type for each in cycle.execution_results] == ["result_rejected"]
    assert SECRET in str((await engine.execute(way, params)).output)


@pytest.mark.parametrize("way", ["flow", "tells", "deep", "beside"])
async def test_without_a_session_it_is_not_read_later(engine: ToolEngine, way: str) -> None:
    """`read_result` of the outer call is refused, as that of the inner one is."""
    engine.unregister_tool("sal")

    @engine.tool(name="sal", effect="read", permission={"result": "always"})
    async def told() -> str:
        """Tells a salary."""
        return SECRET

    parameter = {"name": "call_id", "type": "string", "description": "x", "required": True}
    entry = {"type": "builtin", "handler": "read_result"}
    engine.register_tool(
        {"name": "look", "description": "L.", "parameters": [parameter], "entry": entry}
    )
    me = ToolExecutionContext(caller_id="me")
    outer = await engine.execute(way, {} if way == "flow" else {"of": "sal"}, me)
    read = await engine.execute("look", {"call_id": outer.call_id}, me)
    assert SECRET not in str(read)
    assert "a person must be asked" in str(read.error)
