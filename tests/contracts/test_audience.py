"""Does a tool for code only exist for no model, whichever way it looks or calls? A4, A50.

Each way in which a model is told of tools or calls one is a line. The tool `ledger` is for code
only, `ledgex` is nowhere: to a model both are the same.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.protocols import wire_openai, wire_vcp
from tool_engine import ToolCall, ToolEngine, ToolEngineConfig, ToolExecutionContext, ToolSubAgent
from tool_engine.cli.app import run
from tool_engine.errors import ToolNotFoundError
from tool_engine.model.call import ToolExecutionResult
from tool_engine.protocols import (
    FORMATS,
    CombinedTools,
    CycleOptions,
    definitions,
    get_protocol,
    process_tool_calls,
    prompt,
)
from tool_engine.session import combine, keep, prefix, prepare, rename
from tool_engine.session.discovery import create_tool_discovery_service
from tool_engine.session.session import ToolSession

BOUND = 10.0
BOTH, CODE = ("model", "code"), ("code",)
HIDDEN, UNKNOWN = "ledger", "ledgex"
GROUP = {"name": "books", "tools": ["ledger", "report"], "enabled": True, "rules": "Be exact."}
SENT: dict[str, Any] = {"page": 1}
WRITTEN: dict[str, Any] = {"page": "1"}
"""The same in a text protocol."""


@pytest.fixture(params=[BOTH, CODE], ids=["both", "code"])
def audience(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return tuple(request.param)


@pytest.fixture
async def engine(audience: tuple[str, ...]) -> AsyncIterator[ToolEngine]:
    async with ToolEngine(ToolEngineConfig("none", auto_reload=False)) as engine:

        @engine.tool(effect="read", audience=list(audience), aliases=["daybook"])
        async def ledger(page: int) -> str:
            """Reads a page."""
            return f"page {page}"

        @engine.tool(effect="read")
        async def report(context: ToolExecutionContext) -> str:
            """Reports what the books say."""
            inner = await context.call("ledger", SENT)
            return f"said {inner.output['result']}"

        @engine.tool(effect="read")
        async def search_tools(query: str) -> list[str]:
            """Finds tools."""
            return [each.name for each in engine.search_tools(query)]

        engine.register_group(GROUP)
        yield engine


# How a model is told of tools.


def tell_by_names(engine: ToolEngine) -> Any:
    return [engine.tool_definitions(each, ["ledger", "report"]) for each in FORMATS]


def tell_protocols(engine: ToolEngine) -> Any:
    names = ("openai", "openai_responses", "anthropic", "gemini", "vcp", "function_call")
    told = [get_protocol(each, tools=engine).definitions(engine.list_all()) for each in names]
    return [told, [prompt(engine, each) for each in names]]


def tell_session(engine: ToolEngine) -> Any:
    session = ToolSession(engine, "chat")
    groups = [(each.tools, each.enabled_tools) for each in session.toolbox.groups()]
    found = [session.tools(), session.list_all(), session.toolbox.all(), groups]
    return [found, [session.system_prompt(each) for each in ("vcp", "function_call")]]


def tell_views(engine: ToolEngine) -> Any:
    views = (prefix(engine, "a_"), rename(engine, {}), keep(engine, ["ledger", "report"]))
    more = (prepare(engine, lambda tool, _: tool), combine(engine), CombinedTools({"a": engine}))
    return [[ToolSession(each, "chat").tools(), prompt(each, "vcp")] for each in (*views, *more)]


def tell_sub_agent(engine: ToolEngine) -> Any:
    agents = (ToolSubAgent("a", engine), ToolSubAgent("a", engine, tools=["ledger", "report"]))
    return [[each.enabled_tools, each.tool_definitions("openai")] for each in agents]


async def tell_search(engine: ToolEngine) -> Any:
    result = await engine.execute("search_tools", {"query": "ledger report"})
    return [result.output, engine.search_tools("ledger report")]


def tell_discovery(engine: ToolEngine) -> Any:
    service = create_tool_discovery_service(engine)
    return [service.get_discovered_methods(), service.generate_prompt({"protocol": "vcp"})]


TELLING: dict[str, Callable[[ToolEngine], Any]] = {
    "formats": lambda engine: [engine.tool_definitions(each) for each in FORMATS],
    "formats, by names": tell_by_names,
    "formats, of a list": lambda engine: [definitions(each, engine.list_all()) for each in FORMATS],
    "prompt, by names": lambda engine: prompt(engine, "vcp", ["ledger", "report"]),
    "protocols": tell_protocols,
    "session": tell_session,
    "views": tell_views,
    "sub-agent": tell_sub_agent,
    "search": tell_search,
    "discovery": tell_discovery,
}


@pytest.mark.parametrize("way", TELLING)
async def test_what_a_model_is_told(
    engine: ToolEngine, audience: tuple[str, ...], way: str
) -> None:
    """17.8: a tool for code only is told in no way; its group, and all others, as before."""
    told = TELLING[way](engine)
    text = repr(await told if isinstance(told, Awaitable) else told)
    assert "report" in text
    assert ("ledger" in text) is (audience == BOTH)
    assert audience == BOTH or "daybook" not in text


# How a model calls one.


async def call_reply(
    engine: Any, name: str, protocol: str = "openai", **options: Any
) -> ToolExecutionResult:
    wire: Any = {"openai": wire_openai, "vcp": wire_vcp}[protocol]
    sent = SENT if protocol == "openai" else WRITTEN
    reply = wire.render_reply([ToolCall(call_id="c1", tool_name=name, arguments=sent)])
    cycle = await process_tool_calls(engine, reply, protocol, CycleOptions(**options))
    (result,) = cycle.execution_results
    return result


async def call_with_command(engine: ToolEngine, name: str) -> ToolExecutionResult:
    sent = {"command": name.removeprefix("led"), **WRITTEN}
    reply = wire_vcp.render_reply([ToolCall(call_id="c1", tool_name=name, arguments=sent)])
    return (await process_tool_calls(engine, reply, "vcp")).execution_results[0]


async def call_cut(engine: ToolEngine, name: str) -> ToolExecutionResult:
    reply = wire_vcp.render_reply([ToolCall(call_id="c1", tool_name=name, arguments=WRITTEN)])
    cut = reply.replace("<<<[END_TOOL_REQUEST]>>>", "")
    return (await process_tool_calls(engine, cut, "vcp")).execution_results[0]


def allow(call: Any, tool: Any) -> bool:
    return True


Call = Callable[[ToolEngine, str], Awaitable[ToolExecutionResult]]
CALLING: dict[str, Call] = {
    "reply": call_reply,
    "reply in text": lambda engine, name: call_reply(engine, name, "vcp"),
    "a command": call_with_command,
    "a cut call": call_cut,
    "asked": lambda engine, name: call_reply(engine, name, on_before_execute=allow),
    "asked, in a view": lambda engine, name: call_reply(
        keep(engine, ["report"]), name, on_before_execute=allow
    ),
    "named": lambda engine, name: call_reply(engine, name, tools=["report", name]),
    "not named": lambda engine, name: call_reply(engine, name, tools=["report"]),
    "an alias of the options": lambda engine, name: call_reply(engine, "x1", aliases={"x1": name}),
    "session": lambda engine, name: ToolSession(engine, "chat").execute(name, SENT),
    "reply in a session": lambda engine, name: call_reply(ToolSession(engine, "chat"), name),
    "helper session": lambda engine, name: ToolSession(engine, "chat").derive().execute(name, SENT),
    "sub-agent": lambda engine, name: ToolSubAgent("a", engine).execute(name, SENT),
    "reply to a sub-agent": lambda engine, name: call_reply(ToolSubAgent("a", engine), name),
    "sub-agent of a session": lambda engine, name: (
        ToolSession(engine, "chat").sub_agent("a").execute(name, SENT)
    ),
    **{
        f"{name} view": lambda engine, called, view=view: call_reply(view(engine), called)  # type: ignore[misc]
        for name, view in {
            "rename": lambda engine: rename(engine, {}),
            "keep": lambda engine: keep(engine, ["report"]),
            "keep it": lambda engine: keep(engine, ["ledger", "report"]),
            "prepare": lambda engine: prepare(engine, lambda tool, _: tool),
            "combine": combine,
            "combined": lambda engine: CombinedTools({"a": engine}),
            "session of a view": lambda engine: ToolSession(keep(engine, ["report"]), "chat"),
        }.items()
    },
}
NEVER = (
    "not named",
    "a command",
    "a cut call",
    "asked, in a view",
    "keep view",
    "session of a view view",
)
"""Ways in which `ledger` does not run for models, whatever its audience."""


def described(result: ToolExecutionResult, name: str) -> dict[str, Any]:
    """What a model may learn of a result."""
    read = getattr(result, "final_text", None)
    findings = result.validation_errors
    said = [result.is_success, result.tool_name, result.error_type, result.error, result.output]
    return dict(
        json.loads(
            json.dumps({"said": said, "read": read, "findings": findings}).replace(name, "NAME")
        )
    )


@pytest.mark.parametrize("way", CALLING)
async def test_how_a_call_of_a_model_ends(
    engine: ToolEngine, audience: tuple[str, ...], way: str
) -> None:
    """17.8: as that of a tool which is nowhere, in the same words; its alias likewise."""
    unknown = await CALLING[way](engine, UNKNOWN)
    assert not unknown.is_success
    for name in (HIDDEN, "daybook"):
        result = await CALLING[way](engine, name)
        if audience == BOTH and way not in NEVER:
            assert result.is_success, (way, name, result.error)
        elif audience == CODE:
            assert described(result, name) == described(unknown, UNKNOWN), (way, name)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", ["ledge", "leger", "daybok"])
@pytest.mark.parametrize("way", [each for each in CALLING if each != "an alias of the options"])
async def test_no_hint(engine: ToolEngine, audience: tuple[str, ...], way: str, name: str) -> None:
    """17.8: a slip of the pen is not answered with the name of a tool for code only."""
    result = await CALLING[way](engine, name)
    text = json.dumps(described(result, name))
    assert audience == BOTH or ("ledger" not in text and "daybook" not in text)


@pytest.mark.parametrize("way", ["it fails", "too late", "does not fit", "without end"])
async def test_the_error_of_a_workflow(
    engine: ToolEngine, audience: tuple[str, ...], way: str
) -> None:
    """17.8: it names the step, and no tool for code only; programs have the name."""

    @engine.tool(effect="read", audience=list(audience), timeout=0.05)
    async def slow_ledger() -> None:
        """Reads them all."""
        await asyncio.sleep(BOUND)

    tool, params = {
        "it fails": ("ledger", {"page": "${params.page}"}),
        "too late": ("slow_ledger", {}),
        "does not fit": ("ledger", {"pages": 1}),
        "without end": ("ledger_round", {}),
    }[way]
    step = {"id": "read", "tool": tool, "params": params, "if": "params.page != ''"}
    flow = {
        "name": "flow",
        "description": "Reads.",
        "parameters": [{"name": "page", "type": "any", "description": "Which.", "default": "x"}],
        "entry": {"type": "workflow", "steps": [step]},
    }
    engine.register_tool(flow)
    if way == "without end":
        back = {"type": "workflow", "steps": [{"id": "back", "tool": "flow", "params": {}}]}
        more = {"name": "ledger_round", "audience": list(audience), "description": "Turns."}
        engine.register_tool({**more, "entry": back})
    result = await call_reply(engine, "flow")
    assert not result.is_success
    assert audience == BOTH or "ledger" not in str(described(result, "NAME"))
    known = [result.metadata, engine.get_or_raise("flow").findings]
    assert "ledger" in str(known)


# How code calls it.


async def test_code_calls_it(engine: ToolEngine) -> None:
    """17.8: the engine, other tools and their conversations run it, by its alias too."""
    for name in (HIDDEN, "daybook"):
        result = await engine.execute(name, SENT)
        assert (result.output, result.tool_name) == ({"result": "page 1"}, "ledger")
    assert (await engine.execute("report", {})).output == {"result": "said page 1"}
    session = ToolSession(engine, "chat")
    assert (await session.execute("report", {})).output == {"result": "said page 1"}
    assert HIDDEN in engine.list_names()
    assert engine.get_or_raise("daybook") is engine.get_or_raise(HIDDEN)
    with pytest.raises(ToolNotFoundError, match="did you mean 'ledger'"):
        engine.get_or_raise("ledgerr")


async def test_rules_of_a_conversation_hold_for_it(engine: ToolEngine) -> None:
    """17.8: a rule about a tool for code only holds where another tool calls it, and is known."""
    session = ToolSession(engine, "chat", {"rules": {"ledger": "deny"}})
    assert not (await session.execute("report", {})).is_success
    assert session.findings == []


def test_at_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """17.8: `call`, `show` and `list` have it, by its alias too; `prompt` has not."""
    (tmp_path / "ledger.yaml").write_text(
        "name: ledger\ndescription: Adds a number.\naudience: [code]\naliases: [daybook]\n"
        "title: The books\nentry: {type: custom, handler: echo}\n"
        "parameters: [{name: message, type: string, description: A text.}]\n"
    )
    folder = ["--tools", str(tmp_path)]
    assert run(["call", "daybook", "message=x", *folder]) == 0
    assert run(["show", "daybook", *folder]) == 0
    assert run(["list", *folder]) == 0
    out = capsys.readouterr().out
    assert "The books" in out
    assert run(["prompt", "--protocol", "vcp", *folder]) == 0
    assert "ledger" not in capsys.readouterr().out
