"""What does a client of the protocol get from an engine?"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult

from tests.mcp_server.conftest import Connect, text_of
from tests.observability.telemetry import Telemetry
from tool_engine import (
    ConfigurationError,
    ToolEngine,
    ToolEngineError,
    ToolEngineEventType,
    ToolExecutionContext,
)
from tool_engine.mcp_server import MCPServer, ToolSelection, find_request
from tool_engine.observability.opentelemetry import instrument
from tool_engine.protocols.definition_formats import MCPDefinitions

DEADLINE = 200.0


async def test_a_call_is_a_call_of_the_engine(engine: ToolEngine, connect: Connect) -> None:
    """A call is validated and recorded, with who is behind it, and gives text and its data."""
    async with connect(MCPServer(engine, principal="ann")) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})

    assert (text_of(result), result.is_error) == ("3", False)
    (record,) = await engine.query_call_records()
    assert (record.caller_type, record.caller_id, record.tool_name) == ("mcp", "ann", "add")
    assert result.meta["tool-engine/call_id"] == record.call_id


async def test_outputs_are_told_as_each_era_takes_them(
    engine: ToolEngine, connect: Connect, era: str
) -> None:
    """An output that is no object is one for older clients, and itself for newer ones."""
    definition = {
        "name": "size",
        "description": "Tells a size.",
        "parameters": [],
        "output": {"type": "number", "description": "The size"},
        "entry": {"type": "custom"},
    }

    async def size() -> float:
        return 2.5

    engine.register_tool(definition, size)
    async with connect(MCPServer(engine)) as client:
        tool = next(each for each in (await client.list_tools()).tools if each.name == "size")
        result = await client.call_tool("size", {})

    expected = {"result": 2.5} if era == "legacy" else 2.5
    kind = "object" if era == "legacy" else "number"
    assert (result.structured_content, tool.output_schema["type"]) == (expected, kind)


async def test_failures_are_results_with_their_type(engine: ToolEngine, connect: Connect) -> None:
    """A model can read what went wrong, and the cure; the type stands beside it."""
    async with connect(MCPServer(engine)) as client:
        failed = await client.call_tool("fail", {})
        wrong = await client.call_tool("add", {"a": 1, "bb": 2})

    assert failed.is_error
    assert "the disk is full" in text_of(failed)
    assert failed.meta["tool-engine/error_type"] == "execution_error"
    assert wrong.is_error
    assert "did you mean 'b'" in text_of(wrong)
    assert wrong.meta["tool-engine/error_type"] == "validation_error"
    assert failed.structured_content is None
    assert wrong.structured_content is None


async def test_a_refused_call_says_when_to_come_back(engine: ToolEngine, connect: Connect) -> None:
    """A call that a breaker refuses is a result with the seconds to wait."""

    @engine.tool(concurrency={"breaker": {"failures": 1, "reset_after": 60}})
    async def broken() -> str:
        """Fail."""
        raise RuntimeError("down")

    async with connect(MCPServer(engine)) as client:
        await client.call_tool("broken", {})
        refused = await client.call_tool("broken", {})

    assert refused.meta["tool-engine/error_type"] == "circuit_open"
    assert 0 < refused.meta["tool-engine/retry_after"] <= 60


async def test_an_unknown_tool_is_an_error_of_the_protocol(
    engine: ToolEngine, connect: Connect
) -> None:
    """It names what was meant; a hidden tool is as unknown as one that is not there."""
    server = MCPServer(engine, expose=ToolSelection(names=("add", "c*")))
    async with connect(server) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        with pytest.raises(MCPError, match="Unknown tool: 'adt'; did you mean 'add'") as unknown:
            await client.call_tool("adt", {})
        with pytest.raises(MCPError, match="Unknown tool: 'fail'") as hidden:
            await client.call_tool("fail", {})

    assert names == ["add", "count"]
    assert (unknown.value.code, hidden.value.code) == (-32602, -32602)
    assert "fail" not in str(unknown.value)
    assert await engine.query_call_records() == []


async def test_pages_hold_every_tool_once(engine: ToolEngine, connect: Connect) -> None:
    """Pages go on after the same name, also when tools come and go in between."""
    for number in range(7):
        engine.tool(name=f"tool_{number}", description="One of many.")(lambda: "ok")
    async with connect(MCPServer(engine, page_size=4)) as client:
        first = await client.list_tools()
        engine.unregister_tool("add")
        engine.tool(name="tool_8", description="A new one.")(lambda: "ok")
        names, cursor = [each.name for each in first.tools], first.next_cursor
        while cursor is not None:
            page = await client.list_tools(cursor=cursor)
            names += [each.name for each in page.tools]
            cursor = page.next_cursor
        with pytest.raises(MCPError, match="no page ended with the cursor"):
            await client.list_tools(cursor="####")

    assert names == sorted(set(names))
    assert set(names) == {"add", "count", "fail", "tool_8"} | {f"tool_{n}" for n in range(7)}


async def test_progress_comes_in_order_and_the_last_one_before_the_result(
    engine: ToolEngine, connect: Connect
) -> None:
    heard: list[tuple[float, float | None, str | None]] = []

    async def hear(done: float, total: float | None, message: str | None) -> None:
        heard.append((done, total, message))

    async with connect(MCPServer(engine)) as client:
        result = await client.call_tool("count", {"most": 3}, progress_callback=hear)

    assert text_of(result) == "counted"
    assert heard == [(n, 3, f"number {n}") for n in range(3)]


async def test_what_a_client_gives_up_is_cancelled(engine: ToolEngine, connect: Connect) -> None:
    """The tool is told, its slot is free, and there is one record."""
    started, ended = asyncio.Event(), asyncio.Event()

    @engine.tool
    async def wait() -> str:
        """Wait."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    async with connect(MCPServer(engine)) as client, asyncio.timeout(DEADLINE):
        calling = asyncio.create_task(client.call_tool("wait", {}))
        await started.wait()
        calling.cancel()
        await ended.wait()
        with pytest.raises(asyncio.CancelledError):
            await calling

    (record,) = await engine.query_call_records()
    assert record.outcome.value == "cancelled"
    assert engine.controller.snapshot().held == []


async def test_changed_tools_are_told_of(
    engine: ToolEngine, connect: Connect, era: str, tmp_path: Path
) -> None:
    """A client hears that the list has changed, however many tools came, and reads the new one."""
    told = asyncio.Event()

    async def hear(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            told.set()

    async with connect(MCPServer(engine), message_handler=hear) as client:
        await client.list_tools()
        async with asyncio.timeout(DEADLINE):
            if era == "legacy":
                engine.tool(name="late", description="Comes late.")(lambda: "ok")
                await told.wait()
            else:
                async with client.listen(tools_list_changed=True) as changes:
                    engine.tool(name="late", description="Comes late.")(lambda: "ok")
                    await anext(aiter(changes))
        names = [tool.name for tool in (await client.list_tools()).tools]

    assert "late" in names


async def test_consent_is_asked_of_the_operator(engine: ToolEngine, connect: Connect) -> None:
    """What needs consent waits in `engine.approvals`, without a slot, for whoever serves."""

    @engine.tool(permission={"execution": "ask_always"})
    async def pay(amount: int) -> str:
        """Pay.

        Args:
            amount: How much.
        """
        return f"paid {amount}"

    asked = asyncio.Event()
    engine.subscribe(lambda event: asked.set(), ToolEngineEventType.APPROVAL_REQUESTED)

    async def answer(decision: bool) -> None:
        await asked.wait()
        asked.clear()
        pending = await engine.approvals.pending("ann")
        assert engine.controller.snapshot().held == []
        assert pending[0].params == {"amount": 3}
        await engine.approvals.answer(pending[0].token, decision, by="bob")

    async with connect(MCPServer(engine, principal="ann")) as client, asyncio.timeout(DEADLINE):
        allowed, _ = await asyncio.gather(client.call_tool("pay", {"amount": 3}), answer(True))
        refused, _ = await asyncio.gather(client.call_tool("pay", {"amount": 3}), answer(False))

    assert text_of(allowed) == "paid 3"
    assert refused.meta["tool-engine/error_type"] == "execution_rejected"


async def test_what_a_person_must_see_first_is_withheld(
    engine: ToolEngine, connect: Connect
) -> None:
    @engine.tool(permission={"result": "always"})
    async def letters() -> str:
        """Read letters."""
        return "private"

    async with connect(MCPServer(engine)) as client:
        result = await client.call_tool("letters", {})

    assert result.is_error
    assert "private" not in str(result)


async def test_groups_are_prompts(engine: ToolEngine, connect: Connect) -> None:
    """The rules of a group and its skills are prompts that a client can read."""
    skill = {"name": "sums", "desc": "How to add up.", "prompt": "Add one by one."}
    engine.register_group(
        {"name": "maths", "tools": ["add"], "rules": "Be exact.", "skills": [skill]}
    )
    async with connect(MCPServer(engine)) as client:
        names = [prompt.name for prompt in (await client.list_prompts()).prompts]
        rules = await client.get_prompt("maths.rules")
        skill_read = await client.get_prompt("maths.sums")
        with pytest.raises(MCPError, match=r"Unknown prompt: 'maths\.rule'"):
            await client.get_prompt("maths.rule")

    assert names == ["maths.rules", "maths.sums"]
    assert rules.messages[0].content.text == "Be exact."
    assert skill_read.messages[0].content.text == "Add one by one."


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": ""}, "name must be a text"),
        ({"page_size": 0}, "page_size must be"),
        ({"approvals": "Operator"}, "did you mean 'operator'"),
        ({"state_keys": [b"short"]}, "state_keys must be secrets of at least 32 bytes"),
        ({"state_keys": ["s" * 32]}, "state_keys must be a list of secrets of at least 32 bytes"),
        ({"expose": "add"}, "expose must be a ToolSelection"),
        ({"expose": ToolSelection(groups=("nope",))}, "there is no group 'nope'"),
    ],
)
async def test_wrong_settings_are_refused(
    engine: ToolEngine, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        MCPServer(engine, **options)


async def test_a_path_begins_with_a_slash(engine: ToolEngine) -> None:
    with pytest.raises(ConfigurationError, match="path must begin with /"):
        MCPServer(engine).app("mcp")


async def test_without_an_operator_consent_is_refused(engine: ToolEngine, connect: Connect) -> None:
    """Where nothing could answer, a client does not wait for an answer."""

    @engine.tool(permission={"execution": "ask_always"})
    async def pay() -> str:
        """Pay."""
        return "paid"

    async with connect(MCPServer(engine, approvals="refuse")) as client:
        result = await client.call_tool("pay", {})

    assert result.meta["tool-engine/error_type"] == "execution_rejected"
    assert await engine.approvals.pending() == []


async def test_served_twice_a_line_comes_once(engine: ToolEngine) -> None:
    """A server that several clients use in several ways hears each event once."""

    @engine.tool
    async def say(context: ToolExecutionContext) -> str:
        """Write a line."""
        await context.log("a line")
        return "said"

    lines: list[Any] = []

    async def hear(params: Any) -> None:
        lines.append(params.data)

    server = MCPServer(engine)
    async with (
        Client(server._server, mode="legacy", logging_callback=hear) as one,
        Client(server._server, mode="legacy") as two,
    ):
        await one.call_tool("say", {})
        assert lines == ["a line"]
        await two.list_tools()
    assert server._served == 0


async def test_an_answer_that_a_tool_does_without(
    engine: ToolEngine, connect: Connect, era: str
) -> None:
    """A tool that catches the question and ends well has its result sent."""

    @engine.tool
    async def greet() -> str:
        """Greet."""
        request = find_request()
        assert request is not None
        try:
            await request.elicit("name", "Who?", {"type": "object", "properties": {}})
        except ToolEngineError:
            return "Hello!"
        return "Hello, you!"

    async def decline(*_: Any) -> ElicitResult:
        return ElicitResult(action="decline")

    async with connect(MCPServer(engine), elicitation_callback=decline) as client:
        result = await client.call_tool("greet", {})

    # A client of 2026-07-28 would be asked by repeating the call, which has ended well.
    assert text_of(result) == ("Hello, you!" if era == "legacy" else "Hello!")


async def test_near_names_of_settings(engine: ToolEngine, connect: Connect) -> None:
    """A group, a prompt and a capability that are misspelled are named as they are."""
    engine.register_group({"name": "maths", "tools": ["add"], "rules": "Be exact."})
    with pytest.raises(ConfigurationError, match="did you mean 'maths'"):
        MCPServer(engine, expose=ToolSelection(groups=("Math",)))

    @engine.tool
    async def ask() -> str:
        """Ask what the client can do."""
        request = find_request()
        assert request is not None
        return str(request.can("Elicitation"))

    async with connect(MCPServer(engine)) as client:
        with pytest.raises(MCPError, match=r"did you mean 'maths\.rules'"):
            await client.get_prompt("Maths.Rules")
        asked = await client.call_tool("ask", {})
    assert "did you mean 'elicitation'" in text_of(asked)


def test_a_selection_takes_lists() -> None:
    with pytest.raises(ConfigurationError, match="names of a ToolSelection must be a list"):
        ToolSelection(names="add")  # type: ignore[arg-type]


async def test_the_trace_of_a_client_goes_on(engine: ToolEngine, connect: Connect) -> None:
    """A call's span is in the trace that the client names, and a wrong name is no trace."""
    telemetry = Telemetry()
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    instrumentation = instrument(engine, telemetry.tracers, telemetry.meters)
    async with connect(MCPServer(engine)) as client:
        for meta in ({"traceparent": trace}, {"traceparent": "00-zz"}):
            await client.call_tool("add", {"a": 1, "b": 2}, meta=meta)
    instrumentation.close()

    first, second = telemetry.spans()
    assert f"{first.context.trace_id:032x}" == trace.split("-")[1]
    assert second.context.trace_id != first.context.trace_id


async def test_a_page_is_made_once_until_tools_change(
    engine: ToolEngine, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list that is asked for again costs no description, and is never an old one."""
    described: list[int] = []
    definitions = MCPDefinitions.definitions

    def count(self: MCPDefinitions, tools: Any) -> Any:
        described.append(len(tools))
        return definitions(self, tools)

    monkeypatch.setattr(MCPDefinitions, "definitions", count)
    async with connect(MCPServer(engine, page_size=2), cache=None) as client:
        for _ in range(3):
            first = await client.list_tools()
            await client.list_tools(cursor=first.next_cursor)
        engine.tool(name="a_new_one", description="Comes late.")(lambda: "ok")
        after = await client.list_tools()

    assert described == [2, 1, 2]
    assert [each.name for each in after.tools] == ["a_new_one", "add"]
