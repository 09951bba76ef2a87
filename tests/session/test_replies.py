"""The six methods of the founding document, on a conversation. A4, A23-A29, A35, A38-A41."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.calls.audit import Audit
from tests.session.catalogs import definition, engine_over, group, write
from tool_engine.engine import ToolEngine
from tool_engine.errors import ConfigurationError, ToolConflictError
from tool_engine.model.call import Refusal, ToolCall
from tool_engine.model.tool import Tool
from tool_engine.protocols.cycle import ToolCallCycleResult
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.discovery import (
    ToolDiscoveryService,
    create_tool_discovery_service,
)
from tool_engine.session.reading.result import ResultStatus, SessionResult
from tool_engine.session.session import ToolSession
from tool_engine.sources.composition import prefix

BOUND = 20.0


def vcp(*names: str, **arguments: str) -> str:
    """A reply that calls each of the tools."""
    given = "".join(f"{key}:「始」{value}「末」\n" for key, value in arguments.items())
    return "\n".join(
        f"<<<[TOOL_REQUEST]>>>\ntool_name:「始」{name}「末」\n{given}<<<[END_TOOL_REQUEST]>>>"
        for name in names
    )


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[ToolEngine]:
    write(
        tmp_path,
        definition("web_page_read"),
        definition("web_page_save", effect="write"),
        definition("note", status="draft"),
        definition("slow"),
        group("pages", tools=["web_page_read", "web_page_save"], enabled=True),
    )
    async with asyncio.timeout(BOUND), engine_over(tmp_path) as engine:
        yield engine


@pytest.fixture
def session(engine: ToolEngine) -> ToolSession:
    return ToolSession(engine, "s")


def kinds(cycle: ToolCallCycleResult) -> list[str | None]:
    return [each.error_type for each in cycle.execution_results]


async def test_the_six_methods(session: ToolSession) -> None:
    """A40: one cycle by the methods of the founding document, with nothing but their arguments."""
    config = {"enabled": True, "maxIterations": 5, "parallelExecution": True, "protocol": "vcp"}
    assert session.has_tool_calling_enabled(config)
    assert "web_page_read" in session.generate_tools_prompt(config, "ada")
    assert {"toolId", "toolName", "methods"} == set(session.get_discovered_methods()[0])
    cycle = await session.process_cycle(vcp("web_page_read", text="hi"), config, lambda *_: True)
    assert (cycle.has_tool_requests, len(cycle.parsed_requests)) == (True, 1)
    assert "<<<[TOOL_RESULT]>>>" in session.format_cycle_results(cycle.execution_results, "vcp")
    session.invalidate_discovery_cache()


async def test_one_reply(session: ToolSession, engine: ToolEngine) -> None:
    """Parse, execute, format, in the protocol of the settings; recorded for it. A38, A39."""
    audit = Audit(engine)
    cycle = await session.process_cycle(vcp("web_page_read", "web_page_save", text="hi"))
    assert kinds(cycle) == [None, None]
    assert session.format_cycle_results(cycle) == cycle.formatted
    assert '"text": "hi"' in session.format_cycle_results(cycle.execution_results)
    assert {each.conversation_id for each in await audit.records()} == {"s"}
    assert not (await session.process_cycle("Nothing to call.")).has_tool_requests
    await audit.check()


async def test_results_in_another_form(session: ToolSession) -> None:
    """The form is that of the protocol asked for; a native one gives the plain texts."""
    cycle = await session.process_cycle(vcp("slow", text="hi"))
    assert "Function result: " in session.format_cycle_results(cycle, "function_call")
    assert session.format_cycle_results(cycle, "openai") == '{"text": "hi"}'
    assert session.format_cycle_results([]) == ""


@pytest.mark.parametrize("results", ["text", 5, [None], [{"is_success": True}]], ids=str)
async def test_what_is_no_result_is_told(session: ToolSession, results: Any) -> None:
    """A39, A40: it is a mistake of the program, which is told what to pass."""
    with pytest.raises(ConfigurationError, match="results must be"):
        session.format_cycle_results(results)


async def test_every_call_has_its_result(session: ToolSession, engine: ToolEngine) -> None:
    """Unknown tools, tools that are off, and calls that were cut: each one result and record."""
    audit = Audit(engine)
    reply = vcp("nobody", "note", "web_page_read", text="hi") + "\n<<<[TOOL_REQUEST]>>>\ntool_name:"
    cycle = await session.process_cycle(reply)
    assert kinds(cycle)[2] is None
    assert len(cycle.execution_results) == len(cycle.parsed_requests) >= 3
    assert all(kind is not None for kind in [*kinds(cycle)[:2], *kinds(cycle)[3:]])
    records = await audit.records()
    assert len(records) == len(cycle.execution_results)
    await audit.check()


async def test_each_result_says_how_it_ended(session: ToolSession) -> None:
    """S13, S14: also that of a call which never came to the conversation is a session's result."""
    told: list[Any] = []
    cut = vcp("slow", text="hi") + "\n<<<[TOOL_REQUEST]>>>\ntool_name:「始」slow"

    async def ask(call: ToolCall) -> str:
        return "not at night"

    cycles = [
        await session.process(cut, on_result=lambda call, result: told.append(result)),
        await session.process_cycle(vcp("slow", text="hi"), {"enabled": False}),
        await session.process(vcp("slow", text="hi"), None, ask),
    ]
    statuses = [
        [each.status.value for each in cycle.execution_results]  # type: ignore[attr-defined]
        for cycle in cycles
    ]
    assert statuses == [["SUCCESS", "ERROR"], ["EXECUTION_REJECTED"], ["EXECUTION_REJECTED"]]
    assert [type(each) for each in told] == [SessionResult] * 2
    (refused,) = cycles[2].execution_results
    assert isinstance(refused, SessionResult)
    assert refused.reject_reason == "not at night"
    assert refused.final_text == refused.formatted_text == refused.error
    refusal = Refusal("rejected", "no")
    assert session.refuse("slow", {}, None, refusal).status is ResultStatus.EXECUTION_REJECTED


async def test_a_program_that_fails_loses_no_result(engine: ToolEngine) -> None:
    """Where even the refusal fails, as with `prepare` that raises, each call has its result."""

    def fail(tool: Tool, turn: int) -> Tool:
        raise ValueError("no")

    cycle = await ToolSession(engine, "s", prepare=fail).process(_native("openai"))
    (result,) = cycle.execution_results
    assert isinstance(result, SessionResult)
    assert result.status is ResultStatus.ERROR
    assert "prepare failed" in (result.final_text or "")


async def test_what_a_reply_cost(engine: ToolEngine) -> None:
    """Tokens of replies that a program takes through count, and bound what comes after. U47."""
    session = ToolSession(engine, "s", ToolCallConfig(max_tokens=15))
    reply = {**_native("openai"), "usage": {"prompt_tokens": 10, "completion_tokens": 5}}
    cycles = [await session.process(reply), await session.process(reply)]
    assert [kinds(each) for each in cycles] == [[None], ["limit_reached"]]
    usage = session.usage()
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (20, 10, 30)


def _native(name: str) -> Any:
    """A reply with one call, as a provider sends it."""
    said = {"name": "slow", "arguments": '{"text": "hi"}'}
    return {
        "openai": {"choices": [{"message": {"tool_calls": [{"id": "c", "function": said}]}}]},
        "openai_responses": {"output": [{"type": "function_call", "call_id": "c", **said}]},
        "anthropic": {
            "content": [{"type": "tool_use", "id": "c", "name": "slow", "input": {"text": "hi"}}]
        },
        "gemini": {
            "candidates": [
                {"content": {"parts": [{"functionCall": {"name": "slow", "args": {"text": "hi"}}}]}}
            ]
        },
    }[name]


@pytest.mark.parametrize("name", ["openai", "openai_responses", "anthropic", "gemini"])
async def test_a_reply_in_the_form_of_a_provider(session: ToolSession, name: str) -> None:
    """`process(reply)` loses no call that a provider sent, though the settings say `vcp`."""
    named = await session.process(_native(name), name)
    cycle = await session.process(_native(name))
    assert kinds(cycle) == kinds(await session.process_cycle(_native(name), {})) == [None]
    assert [message.keys() for message in cycle.messages if isinstance(message, dict)] == [
        message.keys() for message in named.messages
    ]
    read = [session.protocol(name).parse(_native(name)), iter([_native(name)])]
    for reply in read if name in ("openai", "gemini") else read[:1]:
        again = await session.process(reply)
        assert kinds(again) == [None]
        assert isinstance(again.formatted, list), "results in the form of the provider"
    for reply in (_native(name), [_native(name)], iter([_native(name)])):
        unread = await session.process(reply, "vcp")
        assert not unread.has_tool_requests, "it was named"
        finding = unread.findings[-1]
        assert (finding.error_type, finding.level) == ("malformed_reply", "error")
        assert f"calls in the form of '{name}', which 'vcp' does not read" in finding.message
        assert f"Pass '{name}' as the protocol" in finding.message
    assert not [each for each in again.findings if "does not read" in each.message]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"toolToggles": {"slow": False}}, "rejected"),
        ({"enabled": False}, "rejected"),
        ({"defaultToolEnabled": False}, "rejected"),
        ({"tool_toggles": {"slow": True}}, None),
        (ToolCallConfig(require_confirmation=True), "rejected"),
        ({"mode": "manual"}, "rejected"),
    ],
)
async def test_other_settings_for_one_reply(
    session: ToolSession, config: Any, expected: str | None
) -> None:
    """They may allow less; what must be asked and cannot be is refused, never run. A5-A7, A10."""
    cycle = await session.process_cycle(vcp("slow", text="hi"), config)
    assert kinds(cycle) == [expected]
    assert session.config == ToolCallConfig()


async def test_other_settings_allow_no_more(session: ToolSession) -> None:
    """A tool that is off in the conversation stays off, whatever one reply's settings say."""
    session.toolbox.set_tool_enabled("slow", False)
    cycle = await session.process_cycle(vcp("slow", text="hi"), {"tool_toggles": {"slow": True}})
    assert cycle.execution_results[0].error_type in ("rejected", "tool_not_found")


async def test_the_gate_is_asked(session: ToolSession) -> None:
    """`on_before_execute` sees each call; what it refuses does not run. A29."""
    asked: list[tuple[str, str]] = []

    def ask(call: ToolCall, tool: Tool) -> bool:
        asked.append((call.tool_name, tool.name))
        return tool.effect == "read"

    reply = vcp("web_page_read", "web_page_save", text="hi")
    cycle = await session.process_cycle(reply, {"require_confirmation": True}, ask)
    assert kinds(cycle) == [None, "rejected"]
    assert asked == [("web_page_read",) * 2, ("web_page_save",) * 2]
    chinese = await session.process_cycle(reply, {"language": "zh"}, lambda *_: False)
    assert {each.error for each in chinese.execution_results} == {"用户未授权"}
    with pytest.raises(ConfigurationError, match="on_before_execute"):
        await session.process_cycle(reply, None, "yes")  # type: ignore[arg-type]


async def test_the_time_of_a_call(session: ToolSession, engine: ToolEngine) -> None:
    """With the founding document's names `timeout` is in milliseconds, for each call. A9."""
    started = asyncio.Event()

    async def hang(text: str, count: int = 0) -> None:
        started.set()
        await asyncio.Event().wait()

    engine.register_tool(
        definition("hang") | {"entry": {"type": "custom", "handler": "hang"}}, hang
    )
    config = {"timeout": 60, "parallelExecution": False}
    cycle = await session.process_cycle(vcp("hang", text="x"), config)
    assert started.is_set()
    assert kinds(cycle) == ["timeout"]


async def test_settings_that_are_none(session: ToolSession) -> None:
    """A setting that nobody knows is an error, not the default."""
    for config, word in (({"tools": []}, "unknown"), (7, "mapping")):
        with pytest.raises(ConfigurationError, match=word):
            await session.process_cycle("hi", config)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match=word):
            session.generate_tools_prompt(config)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="protocol must be one of openai, "):
        await session.process_cycle("hi", {"protocol": "x"})


async def test_reads_together_and_writes_alone(engine: ToolEngine) -> None:
    """The calls of one reply go by effect, or one by one where the settings say so. A11."""
    for is_parallel, most in ((True, 3), (False, 1)):
        running, peak = 0, 0

        async def see(text: str, count: int = 0) -> None:
            nonlocal running, peak
            running += 1
            peak = max(peak, running)
            for _ in range(4):
                await asyncio.sleep(0)
            running -= 1

        name = f"see_{is_parallel}"
        tool = definition(name) | {"entry": {"type": "custom", "handler": name}}
        engine.register_tool(tool, see)
        session = ToolSession(engine, "s", ToolCallConfig(parallel_execution=is_parallel))
        assert kinds(await session.process(vcp(name, name, name, text="hi"))) == [None] * 3
        assert peak == most


async def test_a_name_says_nothing_of_the_effect(engine: ToolEngine) -> None:
    """U46: what is called `get_...` and does not say that it only reads runs alone."""
    running = 0

    async def see(text: str, count: int = 0) -> int:
        nonlocal running
        running += 1
        await asyncio.sleep(0)
        running -= 1
        return running

    tool = definition("get_and_delete") | {"entry": {"type": "custom", "handler": "get_and_delete"}}
    del tool["effect"]
    assert engine.register_tool(tool, see).effect == "unknown"
    cycle = await ToolSession(engine, "s").process(vcp(*["get_and_delete"] * 3, text="hi"))
    assert [each.output for each in cycle.execution_results] == [{"result": 0}] * 3


async def test_a_reply_that_is_read_already(session: ToolSession) -> None:
    """`process` takes what a decoder gave, in any protocol, and tells of each result."""
    told: list[str] = []
    protocol = session.protocol("vcp")
    reply = protocol.parse(vcp("slow", text="hi"))
    cycle = await session.process(reply, protocol, on_result=lambda call, _: told.append(call.name))
    assert told == ["slow"]
    assert cycle.execution_results[0].tool_name == "slow"
    assert session.toolbox.turn == 1


async def test_the_calls_of_a_reply_belong_to_its_turn(engine: ToolEngine) -> None:
    """What a model was told in a turn it may call in that turn, and not in the next."""
    session = ToolSession(
        engine, "s", prepare=lambda tool, turn: tool if turn == 0 or tool.name != "slow" else None
    )
    reply = vcp("slow", "slow", text="hi")
    assert kinds(await session.process(reply)) == [None, None]
    assert "slow" not in session.generate_tools_prompt()
    assert set(kinds(await session.process(reply))) <= {"rejected", "tool_not_found"}


async def test_tools_and_their_methods(session: ToolSession) -> None:
    """A name is split at its last `_`; only tools that are on are found. A4, A24, A35."""
    found = {each["toolId"]: each for each in session.get_discovered_methods()}
    page = found["web_page"]
    assert page["toolName"] == "web_page"
    assert [each["name"] for each in page["methods"]] == ["read", "save"]
    read = page["methods"][0]
    assert read["toolName"] == "web_page_read"
    assert read["agentCallable"] is True
    assert read["parameters"] == [
        {"name": "text", "required": True, "type": "string", "description": "A text"},
        {"name": "count", "required": False, "type": "integer", "description": "A number"},
    ]
    assert [each["name"] for each in found["slow"]["methods"]] == ["slow"]
    assert "note" not in found


async def test_a_filter_takes_the_place_of_the_test(session: ToolSession) -> None:
    """With a filter, it alone says what is found, of all that is there. A24."""
    found = session.get_discovered_methods(lambda tool: tool.name == "note")
    assert [(each["toolId"], each["methods"][0]["agentCallable"]) for each in found] == [
        ("note", False)
    ]


async def _asynchronous(tool: Tool) -> bool:
    return False


@pytest.mark.parametrize("wrong", [7, lambda: True, _asynchronous])
async def test_a_filter_that_is_none(session: ToolSession, wrong: Any) -> None:
    """An async one would say yes to everything."""
    with pytest.raises(ConfigurationError, match="filter"):
        session.get_discovered_methods(wrong)


async def test_a_tool_is_toggled_with_all_its_methods(
    session: ToolSession, engine: ToolEngine
) -> None:
    """`toolToggles` takes a `toolId`, as it was discovered; a name of a tool goes before. A7."""
    off = {"toolToggles": {"web_page": False, "web_page_read": True}}
    prompt = session.generate_tools_prompt(off)
    assert ("web_page_read" in prompt, "web_page_save" in prompt) == (True, False)
    cycle = await session.process_cycle(vcp("web_page_save", text="hi"), off)
    assert kinds(cycle) == ["rejected"]
    on = ToolCallConfig.from_dict({"toolToggles": {"web_page": True}, "defaultToolEnabled": False})
    kept = ToolCallConfig.from_dict(on.to_dict())
    shown = [each.name for each in ToolSession(engine, "t", kept).tools()]
    assert shown[:2] == ["web_page_read", "web_page_save"]
    assert "slow" not in shown
    # What Python says of a tool is said of no other one.
    named = ToolCallConfig(tool_toggles={"web_page": False})
    assert ToolSession(engine, "u", named).get("web_page_save") is not None


@pytest.mark.parametrize("name", ["_read", "read_", "_", "__"])
async def test_names_without_two_parts(engine: ToolEngine, name: str) -> None:
    """Such a name is a tool whose only method has the same name; no part is ever empty."""
    engine.register_tool(definition(name))
    found = ToolSession(engine, "s").get_discovered_methods(lambda tool: tool.name == name)
    assert [(each["toolId"], each["methods"][0]["name"]) for each in found] == [(name, name)]


async def test_the_prompt_of_the_tools(session: ToolSession, engine: ToolEngine) -> None:
    """Kept while nothing changes, made anew when a tool does; empty when switched off. A25, A26."""
    first = session.generate_tools_prompt()
    assert "tool_name:「始」slow「末」" in first
    assert session.generate_tools_prompt() is first
    assert session.generate_tools_prompt(ToolCallConfig()) is first
    assert session.generate_tools_prompt(agent_id="other") == first
    assert session.generate_tools_prompt({"enabled": False}) == ""
    assert "slow" not in session.generate_tools_prompt({"tool_toggles": {"slow": False}})
    assert session.generate_tools_prompt({"protocol": "openai"}) == ""
    engine.register_tool(definition("later"))
    assert "later" in session.generate_tools_prompt()
    session.invalidate_discovery_cache()
    assert "later" in session.generate_tools_prompt()


async def test_prompts_do_not_pile_up(session: ToolSession) -> None:
    """However many agents ask, few prompts are kept."""
    service = ToolDiscoveryService(session.toolbox, session.protocol)
    for number in range(100):
        service.generate_prompt(None, f"agent-{number}")
    assert "32 prompts kept" in repr(service)
    service.invalidate_cache()
    assert "0 prompts kept" in repr(service)


async def test_whether_a_model_may_call_at_all(session: ToolSession) -> None:
    """The master switch of the settings, or of others. A5."""
    assert session.has_tool_calling_enabled()
    assert not session.has_tool_calling_enabled({"enabled": False})
    assert session.has_tool_calling_enabled(ToolCallConfig())


async def test_a_service_of_its_own(session: ToolSession, engine: ToolEngine) -> None:
    """Over an engine, a view of one, or a conversation, whose toggles it sees. A23."""
    service = create_tool_discovery_service(engine)
    assert [each["toolId"] for each in service.get_discovered_methods()] == ["slow", "web_page"]
    assert "slow" in service.generate_prompt()
    narrow = create_tool_discovery_service(
        prefix(engine, "x_"), ToolCallConfig(tool_toggles={"x_slow": False})
    )
    assert [each["toolId"] for each in narrow.get_discovered_methods()] == ["x_web_page"]
    of_session = create_tool_discovery_service(session)
    session.toolbox.set_tool_enabled("slow", False)
    assert "slow" not in {each["toolId"] for each in of_session.get_discovered_methods()}
    assert of_session.generate_prompt() == session.generate_tools_prompt()
    with pytest.raises(ConfigurationError, match="leave out config"):
        create_tool_discovery_service(session, ToolCallConfig())


async def test_a_conflict_that_comes_in_a_conversation(
    engine: ToolEngine, session: ToolSession
) -> None:
    """A file with the name of a session's own tool is an error for the program; no call of that
    name runs, and all others do."""
    session.register_tool(definition("mine"), lambda text, count=0: text)
    assert (await session.process_cycle(vcp("mine", text="hi"))).results_text.count("hi") == 1
    engine.register_tool(replace(engine.get_or_raise("slow"), name="mine"))
    with pytest.raises(ToolConflictError):
        session.tools()
    cycle = await session.process_cycle(vcp("mine", "slow", text="hi"))
    assert kinds(cycle) == ["tool_not_found", None]
    assert [each for each in session.toolbox.findings if "the catalog's 'mine'" in each]


async def test_two_conversations(engine: ToolEngine) -> None:
    """Neither sees the other's tools, toggles, groups, prompts or turns. S35."""
    one, two = ToolSession(engine, "one"), ToolSession(engine, "two")
    before = two.generate_tools_prompt(), two.system_prompt(), two.tools()
    one.toolbox.toggle_group_enabled("pages", False)
    one.toolbox.register_group({"name": "mine", "rules": "Mine."})
    one.toolbox.toggle_group_enabled("mine")
    one.register_tool(definition("mine"), lambda text, count=0: text)
    await one.process(vcp("mine", text="hi"))
    assert (two.generate_tools_prompt(), two.system_prompt(), two.tools()) == before
    assert two.toolbox.turn == 0
    assert kinds(await two.process_cycle(vcp("mine", text="hi"))) == ["tool_not_found"]
    assert "Mine." in one.system_prompt()


async def test_bounds_of_one_reply(session: ToolSession) -> None:
    """U47: what the settings for a reply say of the whole conversation holds for its calls."""
    assert (await session.execute("slow", {"text": "hi"})).is_success
    reply = vcp("slow", "web_page_read", "slow", text="hi")
    once = await session.process_cycle(reply, {"max_uses": {"slow": 2}})
    assert kinds(once) == [None, None, "limit_reached"]
    assert once.execution_results[2].reject_reason == "max_uses_reached"  # type: ignore[attr-defined]
    few = await session.process_cycle(reply, {"max_calls": 5, "max_uses": {"slow": 9}})
    assert kinds(few) == [None, None, "limit_reached"]
    assert few.execution_results[2].reject_reason == "max_calls_reached"  # type: ignore[attr-defined]
    session.meter.add_tokens({"input_tokens": 7})
    spent = await session.process_cycle(reply, {"max_tokens": 7})
    assert {each.reject_reason for each in spent.execution_results} == {"max_tokens_reached"}  # type: ignore[attr-defined]
    # Only for that reply, and never more than the conversation may.
    assert kinds(await session.process_cycle(reply)) == [None] * 3
    session.meter.config = replace(session.config, max_calls=9)
    last = await session.process_cycle(reply, {"max_calls": 99})
    assert kinds(last) == [None, "limit_reached", "limit_reached"]
