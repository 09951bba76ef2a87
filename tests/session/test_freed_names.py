"""An own tool of a session beside a catalog's of the same name that a view has renamed.

That is the cure which the message about the two offers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tool_engine import (
    AgentLoop,
    DeferredApprover,
    RecordedModel,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
    ToolSession,
)
from tool_engine.errors import ToolConflictError
from tool_engine.session import combine, keep, prefix, rename
from tool_engine.session.variables.store import Variable
from tool_engine.sources.foreign import ForeignSource

NAMES = (
    "note",
    "read_var",
    "list_vars",
    "write_var",
    "remove_vars",
    "call_sub_agent",
    "call_skill",
)


class Passing:
    """A source of others that passes each call to an engine."""

    def __init__(self, engine: ToolEngine) -> None:
        self.get, self.list_all, self._engine = engine.get, engine.list_all, engine

    async def execute(self, tool_name: str, params: Any, context: Any) -> Any:
        return await self._engine.execute(tool_name, params, context)


CURES: dict[str, Callable[[ToolEngine, ToolEngine], Any]] = {
    "prefix": lambda engine, _: prefix(engine, "its_"),
    "rename": lambda engine, _: rename(engine, {each: f"its_{each}" for each in NAMES}),
    "keep": lambda engine, _: keep(engine, []),
    "prefix of a view": lambda engine, _: prefix(rename(engine, {"note": "remark"}), "its_"),
    "prefix of a session": lambda engine, _: prefix(ToolSession(engine, "below"), "its_"),
    "combine": lambda engine, other: combine(other, prefix(engine, "its_")),
    "combine first": lambda engine, other: combine(prefix(engine, "its_"), other),
    "combine in prefix": lambda engine, _: prefix(combine(engine), "its_"),
    "an object of others": lambda engine, _: prefix(Passing(engine), "its_"),
}


@pytest.fixture
async def engines(tmp_path: Path) -> AsyncIterator[tuple[ToolEngine, ToolEngine]]:
    """An engine with `note` alone, and one without tools."""
    made = [
        ToolEngine(ToolEngineConfig(str(tmp_path), auto_reload=False, name=name))
        for name in ("first", "other")
    ]
    add(made[0], "note")
    yield made[0], made[1]
    for each in made:
        await each.close()


def add(engine: ToolEngine, name: str) -> None:
    """Add a tool that says that it is the engine's, and takes anything."""
    definition = {"name": name, "description": "The engine's."}
    engine.register_tool(definition, lambda: "the engine's")


def own(source: Any, permission: str = "auto", **settings: Any) -> ToolSession:
    """Make a session with a `note` of its own."""
    session = ToolSession(source, "chat", **settings)
    session.register_tool(
        {
            "name": "note",
            "description": "The session's.",
            "permission": permission,
            "parameters": [
                {"name": "text", "type": "string", "required": True, "description": "What."}
            ],
        },
        lambda text: f"noted {text}",
    )
    return session


@pytest.fixture(params=CURES)
def cured(request: pytest.FixtureRequest, engines: tuple[ToolEngine, ToolEngine]) -> Any:
    """The catalog, after the cure."""
    return CURES[request.param](*engines)


async def test_without_the_cure(engines: tuple[ToolEngine, ToolEngine]) -> None:
    """The message offers these views."""
    with pytest.raises(ToolConflictError, match=r"put prefix\(\) or rename\(\) around"):
        own(engines[0])


async def test_execute(cured: Any) -> None:
    """The model's name is that of the session's tool, however often it is called."""
    session = own(cured)
    assert "note" in [each.name for each in session.tools()]
    for text in ("a", "b"):
        result = await session.execute("note", {"text": text})
        assert (result.error, result.output) == (None, {"result": f"noted {text}"})
    wrong = await session.execute("note", {})
    assert (wrong.error_type, wrong.tool_name) == ("validation_error", "note")


async def test_the_engines_tool(cured: Any) -> None:
    """It is there under its own name, beside the session's."""
    session = own(cured)
    theirs = [each.name for each in session.tools() if each.description == "The engine's."]
    for name in theirs:
        assert (await session.execute(name)).output == {"result": "the engine's"}
    assert (await session.execute("note", {"text": "a"})).is_success


async def test_a_reply(cured: Any) -> None:
    """The cycle reaches it, too."""
    session = own(cured)
    reply = '<function_call>{"name": "note", "arguments": {"text": "a"}}</function_call>'
    cycle = await session.process(reply, "function_call")
    assert [each.output for each in cycle.execution_results] == [{"result": "noted a"}]


async def test_a_loop(cured: Any) -> None:
    """So do the loop and its tool for sub-agents."""
    calls = [{"name": "note", "arguments": {"text": "a"}}]
    asks = [{"name": "call_sub_agent", "arguments": {"task": "Say it."}}]
    model = RecordedModel(
        {"replies": [{"calls": calls}, {"calls": asks}, {"text": "said"}, {"text": "done"}]}
    )
    answer = await AgentLoop(own(cured), model, sub_agents=1).run("Go.")
    assert (answer.text, answer.usage.by_tool) == ("done", {"note": 1, "call_sub_agent": 1})


@pytest.mark.parametrize("is_elsewhere", [False, True])
async def test_consent(cured: Any, is_elsewhere: bool) -> None:
    """What is asked, answered and run is the session's tool."""
    session = own(cured, "ask_always", approver=DeferredApprover())
    asked = await session.execute("note", {"text": "a"})
    assert asked.error_type == "approval_required", asked.error
    [request] = session.pending_approvals
    assert (request.tool_name, request.engine) == ("note", "")
    token = str(asked.metadata["error_details"]["approval_token"])
    if is_elsewhere:
        saved = session.to_dict()
        session = ToolSession.from_dict(saved, cured, approver=DeferredApprover())
        own_tool = own(cured, "ask_always").own_tools["note"]
        session.own_tools = {"note": own_tool}
    assert (await session.resume(token, True)).output == {"result": "noted a"}


async def test_a_refused_call(cured: Any, engines: tuple[ToolEngine, ToolEngine]) -> None:
    """Its record is about the session's tool."""
    session = own(cured, "ask_always")
    refused = await session.execute("note", {"text": "a"})
    assert refused.error_type == "execution_rejected"
    session.toolbox.set_tool_enabled("note", False)
    off = await session.execute("note", {"text": "a"})
    assert off.error_type == "rejected"
    records = [each for engine in engines for each in await engine.query_call_records()]
    has_refuse = not isinstance(getattr(cured, "_source", None), ForeignSource)
    assert len(records) == 1 + has_refuse
    theirs = engines[0].get_or_raise("note").definition_hash
    assert {each.tool_name for each in records} == {"note"}
    assert theirs not in {each.definition_hash for each in records}


@pytest.mark.parametrize("name", NAMES[1:5])
async def test_tools_for_variables(engines: tuple[ToolEngine, ToolEngine], name: str) -> None:
    """They are the session's, whichever names the engine has."""
    add(engines[0], name)
    for cure in CURES.values():
        if cure is CURES["prefix of a session"]:
            # That one has variables of its own, and a conflict with the engine below it.
            continue
        session = own(cure(*engines))
        session.variables.add(Variable(name="kept", value="it is"))
        arguments: dict[str, Any] = {
            "read_var": {"name": "kept"},
            "list_vars": {},
            "write_var": {"name": "mine", "value": 1},
            "remove_vars": {"names": ["kept"]},
        }
        result = await session.execute(name, arguments[name])
        assert result.error is None, (cure, result.error)
        assert "the engine's" not in str(result.output)


async def test_variables_above_a_session(engines: tuple[ToolEngine, ToolEngine]) -> None:
    """Each of two sessions has those that its own model wrote."""
    below = ToolSession(engines[0], "below")
    session = ToolSession(prefix(below, "its_"), "chat")
    assert (await session.execute("write_var", {"name": "mine", "value": 1})).is_success
    assert (await session.execute("its_write_var", {"name": "theirs", "value": 1})).is_success
    assert ("mine" in session.variables, "theirs" in session.variables) == (True, False)
    assert ("mine" in below.variables, "theirs" in below.variables) == (False, True)


async def test_what_tools_call(engines: tuple[ToolEngine, ToolEngine]) -> None:
    """A tool that calls `note` gets the engine's, as it does without a session."""
    engine = engines[0]

    async def ask(context: ToolExecutionContext) -> Any:
        again = await engine.execute("note", {}, context)
        return [(await context.call("note")).output, again.output]

    engine.register_tool({"name": "ask", "description": "Asks."}, ask)
    session = ToolSession(prefix(engine, "its_"), "chat")
    session.register_tool({"name": "note", "description": "The session's."}, ask)
    for name in ("its_ask", "note"):
        inner = (await session.execute(name)).output["result"]
        assert inner == [{"result": "the engine's"}] * 2, name


async def test_a_session_inside_of_a_tool(engines: tuple[ToolEngine, ToolEngine]) -> None:
    """It reaches its own tool, and what that calls is the engine's again."""
    engine = engines[0]

    async def start() -> Any:
        return (await own(prefix(engine, "its_")).execute("note", {"text": "a"})).output

    engine.register_tool({"name": "start", "description": "Starts."}, start)
    assert (await engine.execute("start")).output == {"result": "noted a"}
    session = ToolSession(prefix(engine, "its_"), "chat")
    assert (await session.execute("its_start")).output == {"result": "noted a"}


async def test_a_tool_that_is_hidden_stays_hidden(engines: tuple[ToolEngine, ToolEngine]) -> None:
    """Without an own tool of its name, a view does not let a call through."""
    session = ToolSession(keep(engines[0], []), "chat")
    assert (await session.execute("note")).error_type == "tool_not_found"
    assert (await keep(engines[0], []).execute("note")).error_type == "rejected"
