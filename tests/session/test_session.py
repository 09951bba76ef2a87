"""What is one conversation allowed, what does it remember, and what has it spent?"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import msgspec
import pytest

from tool_engine import ToolEngine, ToolExecutionContext
from tool_engine.approval.callback import DeferredApprover
from tool_engine.errors import (
    ConfigurationError,
    SessionError,
    ToolConflictError,
    ToolExecutionError,
    ToolNotFoundError,
)
from tool_engine.model.permission import Permission
from tool_engine.model.tool import Tool
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.reading.presentation import Presentation, ReturnType
from tool_engine.session.reading.result import ResultStatus, as_tool_call_result
from tool_engine.session.session import ToolSession
from tool_engine.session.variables.store import Variable

CALL_OF_FAIL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "fail", "arguments": "{}"},
}
WRONG: Any = {"enabled": True}


def names(session: ToolSession) -> list[str]:
    return [tool.name for tool in session.tools()]


async def test_a_call_is_the_sessions_own_in_records_and_events(engine: ToolEngine) -> None:
    """X1: a call bears the session, its agent and its conversation."""
    events: list[Any] = []
    engine.subscribe(events.append)
    session = ToolSession(engine, "s1", agent_id="ada", conversation_id="talk")
    result = await session.execute("half", {"number": 5})
    assert (result.is_success, result.output, result.final_text) == (True, {"result": 2.5}, "2.5")
    (record,) = await engine.query_call_records()
    assert (record.session_id, record.caller_id, record.conversation_id) == ("s1", "ada", "talk")
    assert record.caller_type == "conversation_agent"
    assert {event.data["session_id"] for event in events if event.call_id} == {"s1"}


async def test_two_sessions_share_nothing(engine: ToolEngine) -> None:
    """S35: variables, toggles, usage and approvals are each session's own."""
    one, two = ToolSession(engine, "1"), ToolSession(engine, "2")
    await one.execute("half", {"number": 5})
    one.toolbox.set_tool_enabled("put", False)
    one.register_tool({"name": "mine", "description": "Only here."}, lambda: "x")
    assert len(one.variables) == 2
    assert len(two.variables) == 0
    assert "put" in names(two)
    assert "mine" not in names(two)
    assert two.usage().calls == 0
    result = await two.execute("half", {"number": "$VAR_REF{{half_1_result}}"})
    assert result.error_type == "validation_error"
    assert "there is no variable 'half_1_result'" in str(result.error)


async def test_every_call_leaves_its_result_and_arguments(engine: ToolEngine) -> None:
    """S29: also when nothing was cut; what reads variables leaves none."""
    session = ToolSession(engine, "s")
    result = await session.execute("half", {"number": 5})
    assert (result.result_variable, result.args_variable) == ("half_1_result", "half_1_args")
    assert session.variables.get("half_1_result").value == 2.5
    assert session.variables.get("half_1_args").value == {"number": 5}
    read = await session.execute("read_var", {"name": "half_1_result"})
    assert (read.is_success, read.result_variable) == (True, None)
    assert len(session.variables) == 2


async def test_a_reference_keeps_its_type_and_is_expanded_once(engine: ToolEngine) -> None:
    """S25, U37: before validation; what comes out of a variable is data."""
    session = ToolSession(engine, "s")
    await session.execute("half", {"number": 5})
    again = await session.execute("half", {"number": "$VAR_REF{{half_1_result}}"})
    assert again.output == {"result": 1.25}
    await session.execute("put", {"text": "$$VAR_REF{{half_1_result}}"})
    assert engine.puts == ["$VAR_REF{{half_1_result}}"]  # type: ignore[attr-defined]
    await session.execute("put", {"text": "$VAR_REF{{put_3_args:0}}"})
    assert engine.puts[1] == '{"text": "$VAR_REF{{half_1_result}}"}'  # type: ignore[attr-defined]


async def test_a_long_result_is_cut_and_can_be_read_on(engine: ToolEngine) -> None:
    """S15, S28, S30: the model reads what fits, and how to get the rest."""
    session = ToolSession(engine, "s", ToolCallConfig(tool_limits={"numbers": 500}))
    result = await session.execute("numbers", {"count": 1000})
    assert result.is_truncated
    assert len(result.final_text or "") <= 500
    assert "$VAR_REF{{numbers_1_result}}" in (result.final_text or "")
    assert json.loads(result.formatted_text) == list(range(1000))
    part = await session.execute("read_var", {"name": "numbers_1_result", "length": 10})
    assert part.output["text"] == "[0, 1, 2, "
    whole = await session.execute("numbers", {"count": 1000, "limit": 0})
    assert (whole.is_truncated, whole.final_text) == (False, whole.formatted_text)


async def test_what_the_hint_says_is_read_whole(engine: ToolEngine) -> None:
    """U39: also where the session's limit is less than the hint offers; else nothing would read on.

    Who wants less says so for `read_var` itself.
    """
    session = ToolSession(engine, "s", ToolCallConfig(limit=400))
    result = await session.execute("numbers", {"count": 1000})
    call = re.search(r"read_var\((.*)\)", result.final_text or "")
    assert call is not None
    arguments = json.loads(call[1])
    part = await session.execute("read_var", arguments)
    start, end = arguments["start"], arguments["start"] + arguments["length"]
    assert json.loads(part.final_text or "")["text"] == result.formatted_text[start:end]
    assert not part.is_truncated
    session = ToolSession(engine, "s", ToolCallConfig(tool_limits={"read_var": 50}))
    session.variables.add(Variable(name="v", value="x" * 99))
    assert len((await session.execute("read_var", {"name": "v"})).final_text or "") <= 50


async def test_the_hint_speaks_of_no_tool_that_is_off(engine: ToolEngine) -> None:
    """U39: without `read_var` there is the reference still."""
    session = ToolSession(engine, "s", ToolCallConfig(limit=400, tool_toggles={"read_var": False}))
    for number, count in enumerate((1_000, 50_000), start=1):
        result = await session.execute("numbers", {"count": count})
        assert f"$VAR_REF{{{{numbers_{number}_result}}}}" in (result.final_text or "")
        assert "read_var" not in (result.final_text or "")


async def test_a_presentation_formats_limits_and_tells_what_is_returned(
    engine: ToolEngine,
) -> None:
    """S3, S7, S9: given in code, per tool."""
    shown = Presentation(
        format=lambda data, args: f"{args['number']} / 2 = {data}",
        return_type=ReturnType("number", "the half"),
    )
    session = ToolSession(engine, "s", presentations={"half": shown})
    assert "Returns number: the half." in session.get_or_raise("half").description
    result = await session.execute("half", {"number": 5})
    assert result.final_text == "5 / 2 = 2.5"


async def test_a_presentation_reads_what_the_tool_ran_with(engine: ToolEngine) -> None:
    """S3, S4: with the defaults of its parameters, and with what only the presentation knows."""
    seen: list[Any] = []

    def measured(data: Any, args: Any) -> str:
        seen.append(dict(args))
        return f"{data} {args['unit']}"

    @engine.tool(effect="read")
    async def measure(place: str, unit: str = "C") -> int:
        """Measures the temperature."""
        return len(place)

    session = ToolSession(engine, "s", presentations={"measure": Presentation(format=measured)})
    result = await session.execute("measure", {"place": "hall", "limit": 100, "begin": 2})
    assert result.final_text == "4 C"
    assert seen == [{"place": "hall", "unit": "C", "limit": 100, "begin": 2}]


@pytest.mark.parametrize("name", ["nope", "halv", "", "x" * 5000, None, 7])
async def test_what_the_session_does_not_have_cannot_be_called(
    engine: ToolEngine, name: Any
) -> None:
    """S13: NOT_FOUND, recorded as every call."""
    session = ToolSession(engine, "s")
    result = await session.execute(name, {})
    assert (result.error_type, result.status) == ("tool_not_found", ResultStatus.NOT_FOUND)
    assert len(await engine.query_call_records()) == 1
    with pytest.raises(ToolNotFoundError):
        session.get_or_raise(str(name))


async def test_a_tool_that_is_off_is_not_told_of_and_not_run(engine: ToolEngine) -> None:
    """A7: toggles go before the default, and hold for calls."""
    session = ToolSession(engine, "s", ToolCallConfig(tool_toggles={"put": False}))
    assert "put" not in names(session)
    result = await session.execute("put", {"text": "x"})
    assert (result.error_type, engine.puts) == ("rejected", [])  # type: ignore[attr-defined]
    assert "not enabled in this conversation" in str(result.error)
    default = ToolSession(
        engine, "d", ToolCallConfig(default_tool_enabled=False, tool_toggles={"half": True})
    )
    assert names(default)[0] == "half"
    assert "put" not in names(default)


async def test_switched_off_there_is_nothing(engine: ToolEngine) -> None:
    """A5: no tools, no prompt, no calls."""
    session = ToolSession(engine, "s", ToolCallConfig(enabled=False))
    assert (session.tools(), session.system_prompt("vcp")) == ([], "")
    assert not (await session.execute("half", {"number": 1})).is_success
    assert not session.has_tool_calling_enabled()


async def test_no_arguments_at_all(engine: ToolEngine) -> None:
    """What is no mapping is a finding of the validation, not an exception."""
    session = ToolSession(engine, "s")
    assert (await session.execute("half")).error_type == "validation_error"
    wrong: Any = ["number", 5]
    result = await session.execute("half", wrong)
    assert result.error_type == "validation_error"
    assert len(await engine.query_call_records()) == 2


async def test_a_failure_is_what_the_model_reads(engine: ToolEngine) -> None:
    """S27: ERROR, with the error as the text; the arguments are kept, no result is."""
    session = ToolSession(engine, "s")
    result = await session.execute("fail")
    assert result.status is ResultStatus.ERROR
    assert result.final_text == result.error
    assert "no luck" in str(result.error)
    cycle = await session.process(
        {"role": "assistant", "content": None, "tool_calls": [CALL_OF_FAIL]}, "openai"
    )
    assert cycle.messages[-1]["content"].startswith("Error (execution_error): ")
    assert (result.result_variable, result.args_variable) == (None, "fail_1_args")
    seed = as_tool_call_result(result)
    assert seed["status"] == "ERROR"
    assert seed["finalText"] == result.final_text
    assert list(seed)[:4] == ["status", "data", "error", "rejectReason"]


async def test_a_result_names_no_variable_that_is_gone(engine: ToolEngine) -> None:
    """S14, S29: with room for one variable, that is the result, and nothing names the arguments."""
    session = ToolSession(engine, "s", ToolCallConfig(capacity=1))
    result = await session.execute("half", {"number": 5})
    assert (result.result_variable, result.args_variable) == ("half_1_result", None)
    assert [each.name for each in session.variables] == ["half_1_result"]


async def test_a_result_that_is_not_to_be_kept(engine: ToolEngine) -> None:
    """S6: no variable has it or its arguments, and no hint sends the model to one."""
    presentations = {"numbers": Presentation(is_kept=False)}
    session = ToolSession(engine, "s", ToolCallConfig(limit=200), presentations=presentations)
    result = await session.execute("numbers", {"count": 500})
    assert (result.result_variable, result.args_variable) == (None, None)
    assert len(session.variables) == 0
    assert result.is_truncated
    assert "read_var" not in (result.final_text or "")


async def test_a_tool_is_told_of_by_the_name_that_it_is_called_by(engine: ToolEngine) -> None:
    """S1, S16: the name in what a model is told is the key under which its call is found."""
    session = ToolSession(engine, "s")
    for told in session.protocol("openai").definitions(session.tools()):
        assert told["type"] == "function"
        found = session.get(told["function"]["name"])
        assert found is not None
        assert told["function"]["description"] == found.description


async def test_uses_are_bounded(engine: ToolEngine) -> None:
    """U41, U47: a tool's own bound, the session's word before it, and that of a turn."""
    tool = msgspec.structs.replace(engine.get_or_raise("half"), name="twice", max_uses=2)
    engine.register_tool(tool)
    session = ToolSession(engine, "s", ToolCallConfig(max_calls=4))
    results = [await session.execute("twice", {"number": 1}) for _ in range(3)]
    assert [each.error_type for each in results] == [None, None, "limit_reached"]
    await session.execute("half", {"number": 1})
    await session.execute("half", {"number": 1})
    last = await session.execute("half", {"number": 1})
    assert last.error_type == "limit_reached"
    assert session.usage().by_tool == {"twice": 2, "half": 2}
    assert len(await engine.query_call_records(limit=100)) == 6


async def test_a_session_asks_within_its_own_time(engine: ToolEngine) -> None:
    """A9: the session's timeout holds for tools that have no shorter one."""
    never = asyncio.Event()

    @engine.tool(effect="read")
    async def wait() -> None:
        """Waits."""
        await never.wait()

    session = ToolSession(engine, "s", ToolCallConfig(timeout=0.05))
    assert (await session.execute("wait")).error_type == "timeout"


async def test_own_tools_go_the_way_of_all_calls(engine: ToolEngine) -> None:
    """A tool of one session is validated, recorded and published like any other."""
    session = ToolSession(engine, "s")
    definition = {
        "name": "remind",
        "description": "Reminds of something.",
        "parameters": [{"name": "of", "type": "string", "description": "What.", "required": True}],
    }

    async def remind(of: str, context: ToolExecutionContext) -> str:
        return f"{of} for {context.session_id}"

    session.register_tool(definition, remind)
    result = await session.execute("remind", {"of": "tea"})
    assert result.output == {"result": "tea for s"}
    assert session.variables.get(str(result.result_variable)).value == "tea for s"
    assert (await session.execute("remind", {})).error_type == "validation_error"
    assert len(await engine.query_call_records(tool_name="remind")) == 2
    assert engine.get("remind") is None
    for name in ("remind", "half", "read_var"):
        with pytest.raises(ToolConflictError, match=name):
            session.register_tool({**definition, "name": name}, remind)
    assert "remind" in names(session)


async def test_a_sub_agent_calls_for_the_session(engine: ToolEngine) -> None:
    """K16, S35: its calls are the session's, with a history of its own."""
    session = ToolSession(engine, "s", ToolCallConfig(tool_toggles={"put": False}))
    agent = session.sub_agent("helper")
    assert (await agent.execute("half", {"number": 3})).output == {"result": 1.5}
    assert not (await agent.execute("put", {"text": "x"})).is_success
    assert agent.get_execution_summary()["total_calls"] == 2
    records = await engine.query_call_records()
    assert {record.caller_id for record in records} == {"helper"}
    assert {record.session_id for record in records} == {"s"}
    assert session.usage().calls == 1


async def test_a_cancelled_call_of_a_sub_agent_is_in_its_history(engine: ToolEngine) -> None:
    """K21: the history says how the call ended, although nobody got a result."""
    running, never = asyncio.Event(), asyncio.Event()

    @engine.tool(effect="read")
    async def wait() -> None:
        """Waits."""
        running.set()
        await never.wait()

    agent = ToolSession(engine, "s").sub_agent("helper")
    task = asyncio.create_task(agent.execute("wait"))
    async with asyncio.timeout(10):
        await running.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert [each.error_type for each in agent.history] == ["cancelled"]
    assert agent.history[0].call_id is not None


async def test_what_a_session_forbids_a_tool_cannot_do_for_it(engine: ToolEngine) -> None:
    """U32: a rule holds for the calls that a tool makes, too."""

    @engine.tool(effect="write")
    async def detour(text: str, context: ToolExecutionContext) -> str:
        """Puts a text by another tool."""
        result = await context.call("put", {"text": text})
        return str(result.error_type)

    rules = {"put": Permission(execution="deny")}  # type: ignore[arg-type]
    session = ToolSession(engine, "s", ToolCallConfig(rules=rules))
    result = await session.execute("detour", {"text": "x"})
    assert result.output == {"result": "execution_rejected"}
    assert engine.puts == []  # type: ignore[attr-defined]


async def test_content_does_not_get_around_by_a_detour(engine: ToolEngine) -> None:
    """A variable's label goes with it into the calls that a tool makes."""
    guarded = msgspec.structs.replace(
        engine.get_or_raise("put"), name="mail", accepts=["user"], definition_hash="m"
    )
    engine.register_tool(guarded)

    @engine.tool(effect="write")
    async def detour(text: str, context: ToolExecutionContext) -> str:
        """Mails a text by another tool."""
        return str((await context.call("mail", {"text": text})).error_type)

    session = ToolSession(engine, "s")
    await session.execute("numbers", {"count": 50})
    for name in ("mail", "detour"):
        result = await session.execute(name, {"text": "see $VAR_REF{{numbers_1_result}}"})
        assert "execution_rejected" in f"{result.error_type} {result.output}"
    other = ToolSession(engine, "other")
    assert (await other.execute("mail", {"text": "hello"})).is_success


@pytest.mark.parametrize(
    "make",
    [
        lambda engine: ToolSession(engine, ""),
        lambda engine: ToolSession(engine, "x" * 600),
        lambda engine: ToolSession(engine, "a\0b"),
        lambda engine: ToolSession(engine, "s", WRONG["enabled"]),
        lambda _: ToolSession(WRONG, "s"),
        lambda engine: ToolSession(engine, "s", agent_id=WRONG),
        lambda engine: ToolSession(engine, "s", conversation_id=WRONG),
        lambda engine: ToolSession(engine, "s", presentations=WRONG),
        lambda engine: ToolSession(engine, "s", presentations=WRONG["enabled"]),
        lambda engine: ToolSession(engine, "s", storage=WRONG),
        lambda engine: ToolSession(engine, "s", variables=WRONG),
        lambda engine: ToolSession(engine, "s", parent=WRONG),
        lambda engine: ToolSession(engine, "s").protocol(WRONG),
    ],
)
async def test_mistakes_are_told(engine: ToolEngine, make: Any) -> None:
    """A session that cannot be is an error of the program, at once."""
    with pytest.raises((ConfigurationError, SessionError)):
        make(engine)


async def test_settings_as_a_mapping(engine: ToolEngine) -> None:
    """What a front end sends makes a session, read as `from_dict` does. A7, A9."""
    sent = {"toolToggles": {"half": False}, "timeout": 5000}
    session = ToolSession(engine, "s", sent)
    assert session.config == ToolCallConfig.from_dict(sent)
    assert not session.toolbox.is_tool_enabled("half")


async def test_a_context_that_is_none(engine: ToolEngine) -> None:
    """It is an error of the program; no call is counted."""
    session = ToolSession(engine, "s")
    with pytest.raises(ConfigurationError, match="must be a ToolExecutionContext, got dict"):
        await session.execute("half", {"number": 1}, WRONG)
    assert session.usage().calls == 0


async def test_a_reload_is_seen(engine: ToolEngine) -> None:
    """A26: what the engine has now is what the session has; nobody invalidates anything."""
    session = ToolSession(engine, "s")
    before = session.system_prompt("vcp")
    engine.unregister_tool("half")
    assert "half" not in names(session)
    assert session.system_prompt("vcp") != before
    assert (await session.execute("half", {"number": 1})).error_type == "tool_not_found"


async def test_a_prompt_is_the_same_while_nothing_changes(engine: ToolEngine) -> None:
    """A25: calls do not change it, so that a provider's cache stays good."""
    session = ToolSession(engine, "s")
    before = session.system_prompt("vcp")
    await session.execute("half", {"number": 1})
    assert session.system_prompt("vcp") == before
    assert "half" in before
    assert "half" not in session.system_prompt("openai").split("read_var")[0]


async def test_calls_at_the_same_time_keep_their_own_names(engine: ToolEngine) -> None:
    """Many calls at once: each has its own variables, and all are counted."""
    session = ToolSession(engine, "s")
    results = await asyncio.gather(
        *(session.execute("half", {"number": number}) for number in range(20))
    )
    assert len({result.result_variable for result in results}) == 20
    for number, result in enumerate(results):
        assert session.variables.get(str(result.result_variable)).value == number / 2


async def test_prepare_adapts_what_is_told(engine: ToolEngine) -> None:
    """Issue point 2: a callable adapts a definition per turn; what it hides cannot be called."""

    def prepare(tool: Tool, turn: int) -> Tool | None:
        del turn
        if tool.name == "put":
            return None
        return msgspec.structs.replace(tool, description=f"({tool.description})")

    session = ToolSession(engine, "s", prepare=prepare)
    assert session.get_or_raise("half").description == "(Halves a number.)"
    assert not (await session.execute("put", {"text": "x"})).is_success
    assert engine.puts == []  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("tool", "params", "told"),
    [
        ("list_vars", {"serach": "x"}, "'serach'; did you mean 'search'?; list_vars takes type,"),
        ("list_vars", {"filter": {"tags": "x"}}, "'filter.tags'; did you mean 'tag'?; its filter"),
        ("read_var", {"name": "x", "offset": 3}, "'offset'; read_var takes name, start, length"),
    ],
)
async def test_no_argument_is_left_out_silently(
    engine: ToolEngine, tool: str, params: dict[str, Any], told: str
) -> None:
    """U40: what is no argument of the session's own tools is an error with the near name."""
    session = ToolSession(engine, "s", {"max_uses": {tool: 1}})
    result = await session.execute(tool, params)
    assert result.error_type == "validation_error"
    assert f"unknown parameter {told}" in str(result.error)
    assert (await session.execute("list_vars", {"limit": 5})).is_success, "every tool takes it"


LONG = "Tides are made by the moon and the sun, whose pull lifts the sea twice a day everywhere."


@pytest.fixture
async def mailing(engine: ToolEngine) -> ToolEngine:
    """With `page`, which fails or gives `LONG`, and `mail`, which takes only the user's words."""

    @engine.tool(effect="read")
    async def page(url: str, fails: bool = False) -> str:
        """Reads a page."""
        if fails:
            raise ToolExecutionError(f"the server answered 404: {LONG}")
        return LONG

    @engine.tool(effect="read")
    async def say(text: str) -> str:
        """Says it again."""
        return text

    mail = {"name": "mail", "description": "Sends.", "effect": "write", "accepts": ["user"]}
    text = {"name": "text", "type": "string", "required": True, "description": "What is sent"}
    # What it says itself, unread, keeps nobody from the next mail.
    unread = {"result": {"show": "none"}}
    engine.register_tool({**mail, **unread, "parameters": [text]}, lambda text: f"sent {text}")
    engine.register_tool({"name": "none", "description": "Gives nothing."}, lambda: None)
    return engine


@pytest.mark.parametrize("fails", [True, False])
async def test_what_no_variable_holds_is_read_all_the_same(
    mailing: ToolEngine, fails: bool
) -> None:
    """N33: what a failed call says, or a result that is not kept, came from somewhere, too."""
    hidden = {} if fails else {"page": Presentation(is_kept=False)}
    session = ToolSession(mailing, "s", presentations=hidden)
    assert (await session.execute("mail", {"text": "Hello!"})).is_success
    await session.execute("page", {"url": "https://example.com/", "fails": fails})
    again = ToolSession.from_dict(session.to_dict(), mailing)
    for each in (session, again):
        sent = await each.execute("mail", {"text": "Hello!"})
        assert sent.error_type == "execution_rejected"
        assert "it came from tool:page effect:read host:example.com" in str(sent.error)


async def test_what_the_engine_says_itself(mailing: ToolEngine) -> None:
    """N33: findings about typed arguments, a refusal and an empty result hold nothing foreign."""
    session = ToolSession(mailing, "s")
    for tool, params in (
        ("page", {"url": LONG, "fails": LONG}),
        ("none", {}),
        ("mail", {"text": "$VAR_REF{{none}}"}),
        ("write_var", {"name": "x", "value": "y"}),
        ("list_vars", {}),
    ):
        await session.execute(tool, params)
        assert session.read_labels.labels == set(), tool
    assert (await session.execute("mail", {"text": LONG})).is_success


async def test_findings_about_what_was_put_in(mailing: ToolEngine) -> None:
    """N33: a message that quotes an unread variable makes it read."""
    session = ToolSession(mailing, "s", {"tool_show": {"say": "none"}})
    said = await session.execute("say", {"text": LONG})
    assert session.read_labels.labels == set()
    wrong = {"url": "x", "fails": f"$VAR_REF{{{{{said.result_variable}}}}}"}
    assert (await session.execute("page", wrong)).error_type == "validation_error"
    assert session.read_labels.labels == {"tool:say effect:read"}


async def test_a_result_that_was_withheld(mailing: ToolEngine) -> None:
    """S31, N33: what nobody has shown was not read; shown later, in another process, it was."""
    later = DeferredApprover()
    asked = {"tool_permissions": {"page": {"result": "always"}}}
    session = ToolSession(mailing, "s", asked, later)
    held = await session.execute("page", {"url": "https://example.com/"})
    again = ToolSession.from_dict(session.to_dict(), mailing, approver=later)
    assert (await again.execute("mail", {"text": "Hello!"})).is_success
    read = await again.resume(str(held.approval_token), True)
    assert read.final_text == LONG
    assert (await again.execute("mail", {"text": "Hello!"})).error_type == "execution_rejected"
