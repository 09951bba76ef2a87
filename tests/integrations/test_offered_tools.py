"""What every framework's agents get of the tools: one suite, run by each of the real libraries."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from tests.integrations.frameworks import FRAMEWORKS, Framework, make_step
from tool_engine import (
    CallbackApprover,
    ImageContent,
    Tool,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
    ToolSession,
    ToolSubAgent,
)
from tool_engine.errors import ConfigurationError, ToolEngineError
from tool_engine.session import keep

BOUND = 60.0
ADD = {
    "name": "add",
    "description": "Add two numbers.",
    "effect": "read",
    "parameters": [
        {"name": "first", "type": "integer", "description": "One.", "min": 0, "required": True},
        {"name": "second", "type": "integer", "description": "The other.", "default": 2},
    ],
}


def import_whole(kind: type[Framework]) -> type[Framework]:
    for module in kind.modules:
        pytest.importorskip(module, exc_type=ImportError)
    return kind


@pytest.fixture(params=FRAMEWORKS, ids=lambda each: each.name)
def framework(request: pytest.FixtureRequest) -> type[Framework]:
    return import_whole(request.param)


@pytest.fixture(params=[each for each in FRAMEWORKS if each.blocks], ids=lambda each: each.name)
def blocking(request: pytest.FixtureRequest) -> type[Framework]:
    """One whose tools have a call for code that cannot await."""
    return import_whole(request.param)


def add(first: int, second: int) -> int:
    return first + second


async def last_record(engine: ToolEngine) -> Any:
    return (await engine.query_call_records(limit=1))[0]


async def test_schema_is_told_exactly(engine: ToolEngine, framework: type[Framework]) -> None:
    """The definition's own schema and description reach the model."""
    tool = engine.register_tool(ADD, add)
    told = await framework(ToolSession(engine, "chat")).tell()
    assert told["add"].schema.items() >= tool.parameters_schema.items()
    assert told["add"].description == "Add two numbers."


async def test_call_of_a_session(engine: ToolEngine, framework: type[Framework]) -> None:
    """It is the session's call: its record says so, and the default was put in."""
    engine.register_tool(ADD, add)
    session = ToolSession(engine, "chat", agent_id="planner")
    heard = await framework(session).call("add", first=40)
    assert heard.text == "42"
    assert not heard.is_error
    record = await last_record(engine)
    assert (record.session_id, record.caller_id) == ("chat", "planner")
    assert session.usage().calls == 1


async def test_call_of_an_engine(engine: ToolEngine, framework: type[Framework]) -> None:
    engine.register_tool(ADD, add)
    assert (await framework(engine).call("add", first=1)).text == "3"
    assert (await last_record(engine)).caller_id == framework.name
    context = ToolExecutionContext(caller_id="me", conversation_id="c1")
    assert (await framework(engine, context=context).call("add", first=1)).text == "3"
    record = await last_record(engine)
    assert (record.caller_id, record.conversation_id) == ("me", "c1")


async def test_call_of_a_sub_agent(engine: ToolEngine, framework: type[Framework]) -> None:
    engine.register_tool(ADD, add)
    engine.register_tool({**ADD, "name": "plus"}, add)
    agent = ToolSubAgent("helper", engine, tools=["add"])
    held = framework(agent)
    assert list(await held.tell()) == ["add"]
    assert (await held.call("add", first=1)).text == "3"
    assert [each.tool_name for each in agent.history] == ["add"]


async def test_wrong_arguments_come_back_with_the_cure(
    engine: ToolEngine, framework: type[Framework]
) -> None:
    engine.register_tool(ADD, add)
    heard = await framework(ToolSession(engine, "chat")).call("add", frist=1)
    assert heard.is_error in (True, None)
    assert "validation_error" in heard.text
    assert "did you mean 'first'?" in heard.text
    assert (await last_record(engine)).error_type == "validation_error"


async def test_failure_of_a_tool(engine: ToolEngine, framework: type[Framework]) -> None:
    def fail() -> None:
        raise ValueError("no such luck")

    engine.register_tool({"name": "fail", "description": "Fail."}, fail)
    heard = await framework(ToolSession(engine, "chat")).call("fail")
    assert heard.is_error in (True, None)
    assert "no such luck" in heard.text


@pytest.mark.parametrize("answer", [True, False])
async def test_consent(engine: ToolEngine, framework: type[Framework], answer: bool) -> None:
    """The engine's approver decides, whatever the framework thinks of approval."""
    ran: list[int] = []
    pay = {**ADD, "name": "pay", "effect": "write", "permission": "ask_always"}
    engine.register_tool(pay, lambda first, second: ran.append(first))
    asked: list[str] = []

    def decide(request: Any) -> bool | str:
        asked.append(request.tool_name)
        return answer or "not today"

    session = ToolSession(engine, "chat", approver=CallbackApprover(decide))
    heard = await framework(session).call("pay", first=7)
    assert asked == ["pay"]
    assert ran == ([7] if answer else [])
    assert ("not today" in heard.text) is not answer
    refused = await framework(ToolSession(engine, "other")).call("pay", first=7)
    assert "consent" in refused.text or "approv" in refused.text
    assert ran == ([7] if answer else [])


async def test_deadline(engine: ToolEngine, framework: type[Framework]) -> None:
    ended = asyncio.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    engine.register_tool({"name": "wait", "description": "Wait.", "timeout": 0.05}, wait)
    async with asyncio.timeout(BOUND):
        heard = await framework(ToolSession(engine, "chat")).call("wait")
        await ended.wait()
    assert "timeout" in heard.text


async def test_cancelling_the_agent_cancels_the_call(
    engine: ToolEngine, framework: type[Framework]
) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    engine.register_tool({"name": "wait", "description": "Wait."}, wait)
    async with asyncio.timeout(BOUND):
        run = asyncio.create_task(framework(ToolSession(engine, "chat")).call("wait"))
        await began.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        await ended.wait()
    assert (await last_record(engine)).error_type == "cancelled"


async def test_limit_holds(engine: ToolEngine, framework: type[Framework]) -> None:
    """What an agent calls at once waits for a slot of its bucket."""
    step, at_work = make_step()

    number = {"name": "number", "type": "integer", "description": "Which.", "required": True}
    engine.register_tool(
        {
            "name": "step",
            "description": "Step.",
            "effect": "read",
            "parameters": [number],
            "concurrency": {"bucket": "narrow"},
        },
        step,
    )
    session = ToolSession(engine, "chat")
    heard = await framework(session).run([("step", {"number": at}) for at in range(4)])
    assert [each.text for each in heard] == ["0", "1", "2", "3"]
    assert at_work == [1, 1, 1, 1]


async def test_what_writes_runs_alone(engine: ToolEngine) -> None:
    """As in a session, where a framework can: pydantic-ai runs it after what came before."""
    pydantic_ai = import_whole(FRAMEWORKS[0])
    engine.register_tool(ADD, add)
    engine.register_tool({**ADD, "name": "pay", "effect": "write"}, add)
    assert (await pydantic_ai(engine).tell())["pay"].runs_alone
    assert not (await pydantic_ai(engine).tell())["add"].runs_alone


async def test_reload(engine: ToolEngine, framework: type[Framework], tmp_path: Path) -> None:
    """A call runs what is there now, and is told what is not; a new list shows all."""
    definition = "name: {name}\ndescription: {words}\nentry: {{type: builtin, handler: echo}}\n"
    echo = definition + "parameters: [{{name: message, type: string, description: What.}}]\n"
    (tmp_path / "a.yaml").write_text(echo.format(name="say", words="Say it."))
    (tmp_path / "b.yaml").write_text(echo.format(name="gone", words="Say it."))
    await engine.reload()
    held = framework(engine)
    assert set(await held.tell()) == {"say", "gone"}
    (tmp_path / "a.yaml").write_text(echo.format(name="say", words="Say it loud."))
    (tmp_path / "b.yaml").unlink()
    (tmp_path / "c.yaml").write_text(echo.format(name="late", words="Say it."))
    await engine.reload()
    if framework.describes_anew:
        assert (await held.tell())["say"].description == "Say it loud."
    if framework.lists_anew:
        assert set(await held.tell()) == {"say", "late"}
    assert set(await framework(engine).tell()) == {"say", "late"}
    assert (await framework(engine).call("late", message="hi")).text == '{"message": "hi"}'


async def test_call_of_a_tool_that_went(engine: ToolEngine, framework: type[Framework]) -> None:
    """A tool that goes while the model writes its call ends in a sentence of the engine."""
    if framework.name == "openai-agents":
        pytest.skip("the runner asks which tools are on, and itself refuses a call of another")
    engine.register_tool(ADD, add)

    def take_away(first: int, second: int) -> int:
        engine.unregister_tool("add")
        return first

    engine.register_tool({**ADD, "name": "take", "effect": "write"}, take_away)
    held = framework(engine)
    if framework.lists_anew:
        # What writes runs alone, so that the second call comes after it.
        _, heard = await held.run([("take", {"first": 1}), ("add", {"first": 1})])
    else:
        await held.call("take", first=1)
        heard = await held.call("add", first=1)
    assert "tool_not_found" in heard.text
    assert heard.is_error


@pytest.mark.parametrize("name", ["a.b", "x" * 100], ids=["point", "long"])
async def test_names_that_providers_refuse(
    engine: ToolEngine, framework: type[Framework], name: str
) -> None:
    """The model is told of a stand-in, and the tool is called by it."""
    engine.register_tool({**ADD, "name": name}, add)
    held = framework(ToolSession(engine, "chat"), tools=[name])
    (sent,) = await held.tell()
    assert len(sent) <= 64
    assert "." not in sent
    assert (await held.call(sent, first=1)).text == "3"
    assert (await last_record(engine)).tool_name == name


async def test_name_that_a_program_gives(engine: ToolEngine, framework: type[Framework]) -> None:
    """A tool that was renamed in the framework is called by that name, and is the same one."""
    engine.register_tool(ADD, add)
    held = framework(ToolSession(engine, "chat"), tools=["add"])
    held.rename("plus")
    assert list(await held.tell()) == ["plus"]
    assert (await held.call("plus", first=1)).text == "3"
    assert (await last_record(engine)).tool_name == "add"


@pytest.mark.parametrize(
    "parameter", ["self", "config", "run_manager", "callbacks", "ctx", "input", "name", "values"]
)
async def test_parameters_may_have_any_name(
    engine: ToolEngine, framework: type[Framework], parameter: str
) -> None:
    """A name that the framework itself uses is a parameter like another."""
    schema = {"type": "object", "properties": {parameter: {"type": "string"}}}
    definition = {"name": "say", "description": "Say.", "parameters": schema}

    def say(**given: str) -> str:
        return given[parameter]

    engine.register_tool(definition, say)
    heard = await framework(ToolSession(engine, "chat")).call("say", **{parameter: "hi"})
    assert heard.text == "hi"


async def test_what_is_offered(engine: ToolEngine, framework: type[Framework]) -> None:
    """No tool for code only, none that is off, and only those that are named."""
    for name in ("one", "two", "three", "four"):
        code = {"audience": ["code"]} if name == "two" else {}
        engine.register_tool({**ADD, "name": name, **code}, add)
    session = ToolSession(engine, "chat")
    session.toolbox.set_tool_enabled("three", False)
    told = set(await framework(session).tell())
    assert told >= {"one", "four"}
    assert told.isdisjoint({"two", "three"})
    assert set(await framework(session, tools=["four"]).tell()) == {"four"}
    view = keep(engine, lambda tool: tool.name != "one")
    assert set(await framework(view).tell()) == {"three", "four"}


async def test_image(engine: ToolEngine, framework: type[Framework]) -> None:
    """An image reaches the model as one, in the framework's own form."""
    engine.register_tool(
        {"name": "draw", "description": "Draw."},
        lambda: ImageContent(PIXEL, "image/png"),
    )
    heard = await framework(ToolSession(engine, "chat")).call("draw")
    shown = repr(heard.content)
    data = base64.b64encode(PIXEL).decode()
    assert data in shown or repr(PIXEL) in shown or repr(data.encode()) in shown, shown[:300]


PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)


@pytest.mark.parametrize("source", [object(), {"add": Tool}, None])
def test_sources_that_are_none(framework: type[Framework], source: Any) -> None:
    with pytest.raises(ConfigurationError):
        framework(source)


async def test_context_of_a_sub_agent(engine: ToolEngine, framework: type[Framework]) -> None:
    """It makes its own contexts: one that is given is refused at once, with the cure."""
    with pytest.raises(ConfigurationError, match="leave out context"):
        framework(ToolSubAgent("helper", engine), context=ToolExecutionContext())


def block(name: str, tool: Any) -> Any:
    if name == "langchain":
        return tool.invoke({"first": 1})
    return tool.call(first=1).content


def test_blocking_calls(blocking: Any, tmp_path: Path) -> None:
    """What has no event loop calls the tools, too."""
    engine = ToolEngine(ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False))
    with engine.sync() as tools:
        engine.register_tool(ADD, add)
        session = tools.run(lambda: ToolSession(engine, "chat"))
        for source in (session, engine, keep(engine, lambda tool: True)):
            (tool,) = blocking(source, tools=["add"]).held
            assert str(block(blocking.name, tool)) == "3"


async def test_blocking_calls_on_the_engines_loop(blocking: Any, engine: ToolEngine) -> None:
    """There it would wait for itself: it says what to do instead, and so does no engine at all."""
    engine.register_tool(ADD, add)
    (tool,) = blocking(engine, tools=["add"]).held
    with pytest.raises(ToolEngineError, match="await"):
        block(blocking.name, tool)
    (tool,) = blocking(ToolSubAgent("helper", engine), tools=["add"]).held
    with pytest.raises(ConfigurationError, match=r"await `tool\.a"):
        block(blocking.name, tool)


@pytest.mark.parametrize("tools", [["ad"], "add", ["add", "nothing like it"], [3]])
async def test_names_of_no_tools(
    framework: type[Framework], engine: ToolEngine, tools: Any
) -> None:
    """A misspelt name would take a tool from the model, and nothing would say so."""
    engine.register_tool(ADD, add)
    with pytest.raises(ConfigurationError, match="tools") as raised:
        framework(engine, tools=tools)
    if tools == ["ad"]:
        assert "did you mean 'add'?" in str(raised.value)
