"""Every call of a reply gets exactly one result, in order, whatever happens to it. A2, A28-A40."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.calls.audit import EMPTY_FOLDER, check_idle
from tests.protocols.line_protocol import LineProtocol, TextLineProtocol
from tool_engine.config import ConcurrencyConfig, ToolEngineConfig
from tool_engine.engine import ToolEngine
from tool_engine.errors import ConfigurationError, EngineClosedError
from tool_engine.model.call import ToolCall, ToolExecutionContext, ToolExecutionResult
from tool_engine.model.reply import ParsedReply
from tool_engine.model.tool import Tool
from tool_engine.protocols.cycle import (
    ToolCallCycleResult,
    as_cycle_result,
    as_execution_result,
    as_tool_request,
    process_tool_calls,
)
from tool_engine.protocols.cycle_options import CycleOptions
from tool_engine.sources.combined_tools import CombinedTools
from tool_engine.subagent import ToolSubAgent

BOUND = 20.0
PARAMETERS: list[dict[str, Any]] = [
    {"name": "n", "type": "integer", "description": "A number"},
    {"name": "word", "type": "string", "description": "A word"},
    {"name": "note", "type": "string", "secret": True, "description": "A secret"},
]
LINES = LineProtocol()


class World:
    """An engine with the tools `echo`, `fail`, `hang`, `quit`, `a.b` and `old`."""

    def __init__(self) -> None:
        self.engine = ToolEngine(
            ToolEngineConfig(tools_directory=EMPTY_FOLDER, auto_reload=False),
            concurrency=ConcurrencyConfig(max_concurrent=4),
        )
        self.ran: list[tuple[str, dict[str, Any]]] = []
        self.contexts: list[ToolExecutionContext] = []
        self.running = self.most_running = 0
        self.hanging = asyncio.Event()
        for name, handler in (
            ("echo", self.echo), ("fail", self.fail), ("hang", self.hang),
            ("quit", self.quit), ("a.b", self.echo), ("old", self.echo),
        ):  # fmt: skip
            definition = {
                "name": name,
                "version": "1.0.0",
                "description": "A sample",
                "category": "custom",
                "status": "deprecated" if name == "old" else "published",
                "parameters": PARAMETERS,
                "entry": {"type": "custom", "handler": name},
            }
            self.engine.register_tool(definition, handler)

    async def echo(self, context: ToolExecutionContext, **params: Any) -> dict[str, Any]:
        self.ran.append(("echo", params))
        self.contexts.append(context)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        for _ in range(5):
            await asyncio.sleep(0)
        self.running -= 1
        return {"said": params}

    async def fail(self, **params: Any) -> None:
        self.ran.append(("fail", params))
        raise ValueError("no such luck")

    async def hang(self, **params: Any) -> None:
        self.ran.append(("hang", params))
        self.hanging.set()
        await asyncio.Event().wait()

    async def quit(self, **params: Any) -> None:
        raise asyncio.CancelledError

    async def cycle(self, reply: Any, protocol: Any = LINES, **options: Any) -> ToolCallCycleResult:
        """Runs the calls of a reply, and checks what holds for every reply."""
        async with asyncio.timeout(BOUND):
            done = await process_tool_calls(self.engine, reply, protocol, CycleOptions(**options))
        ids = [call.call_id for call in done.parsed_requests]
        assert [result.metadata["request_id"] for result in done.execution_results] == ids
        check_idle(self.engine)
        return done

    async def records(self, **filters: Any) -> list[Any]:
        return await self.engine.store.query_call_records(oldest_first=True, **filters)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with asyncio.timeout(BOUND):
        made = World()
        async with made.engine:
            yield made


def kinds(done: ToolCallCycleResult) -> list[str | None]:
    return [result.error_type for result in done.execution_results]


def error_of(done: ToolCallCycleResult, place: int = 0) -> str:
    error = done.execution_results[place].error
    assert error is not None
    return error


async def test_a_reply_with_calls(world: World) -> None:
    """A38, A48: the calls, their results in order, the text, and how the conversation goes on."""
    reply = 'Let me see.\nCALL x1 echo {"n": 1}\nCALL x2 fail {}\nCALL x3 echo {"n": 3}'
    done = await world.cycle(reply)
    assert done.has_tool_requests
    assert done.text == "Let me see."
    assert [call.call_id for call in done.parsed_requests] == ["x1", "x2", "x3"]
    assert kinds(done) == [None, "execution_error", None]
    assert done.execution_results[2].output == {"said": {"n": 3}}
    assert done.results_text.startswith("RESULT x1 echo ")
    assert "no such luck" in done.results_text
    assert done.messages == [
        {"role": "assistant", "content": reply},
        {"role": "user", "content": done.formatted},
    ]
    assert done.findings == []


@pytest.mark.parametrize(("policy", "read"), [("always", "none"), ("on_error", "echo")])
async def test_results_that_somebody_has_to_see_first(world: World, policy: str, read: str) -> None:
    """S31: without a session nobody can be asked about a result: no model reads what a definition
    wants somebody to see first; the program has it, and the record says how the call ended."""
    for name, handler in (("xecho", world.echo), ("xfail", world.fail)):
        definition: dict[str, Any] = {"name": name, "description": "A sample"}
        definition |= {"parameters": PARAMETERS, "entry": {"type": "custom", "handler": name}}
        world.engine.register_tool({**definition, "permission": {"result": policy}}, handler)
    done = await world.cycle('CALL x1 xecho {"word": "hidden"}\nCALL x2 xfail {}')
    first, second = done.execution_results
    assert second.error_type == "result_rejected"
    assert "no such luck" not in done.results_text
    assert ("hidden" in done.results_text) is (read == "echo")
    assert first.is_success is (read == "echo")
    assert first.output == {"said": {"word": "hidden"}}
    assert error_of(done, 1).startswith("the result of 'xfail' needs a person's consent")
    assert [each.error_type for each in await world.records()] == [None, "execution_error"]
    # What was refused before it ran says so.
    world.engine.unregister_tool("xfail")
    assert kinds(await world.cycle("CALL x1 xfail {}")) == ["tool_not_found"]


async def test_a_reply_without_calls(world: World) -> None:
    """A38: nothing is run, and there is nothing to answer."""
    done = await world.cycle("Hello.")
    assert not done.has_tool_requests
    assert (done.execution_results, done.formatted, done.results_text) == ([], None, "")
    assert done.messages == [{"role": "assistant", "content": "Hello."}]


async def test_calls_that_cannot_be_run(world: World) -> None:
    """U47: what was cut off or cannot be read is not run, not even with `{}`; its siblings are."""
    done = await world.cycle(
        'CALL 1 echo {"n": 1\nCALL 2 echo {"n": 1}{"n": 2}\nCALL 3 echo {"n": 3}'
    )
    assert kinds(done) == ["validation_error", "validation_error", None]
    assert "cut off" in error_of(done, 0)
    assert "two objects" in error_of(done, 1)
    assert [params for _, params in world.ran] == [{"n": 3}]
    assert len(done.findings) == 2
    refused = await world.records(is_success=False)
    assert [(each.reached_executor, each.params) for each in refused] == [(False, {})] * 2


async def test_a_cut_call_without_a_reason(world: World) -> None:
    """`complete=False` is enough: it is told to write it again."""
    call = ToolCall(call_id="1", tool_name="echo", arguments={"n": 1}, complete=False)
    done = await world.cycle(ParsedReply(calls=[call]))
    assert "ended inside this call" in error_of(done)
    assert done.messages == [{"role": "user", "content": done.formatted}]
    assert not world.ran


async def test_unknown_tools_and_wrong_arguments(world: World) -> None:
    """A31: the engine says what is wrong, records it, and names near tools."""
    done = await world.cycle('CALL 1 ecko {}\nCALL 2 echo {"n": "x"}\nCALL 3 echo {}')
    assert kinds(done) == ["tool_not_found", "validation_error", None]
    assert "'echo'" in error_of(done)
    assert len(await world.records()) == 3


async def test_serial_by_default(world: World) -> None:
    """U29: one after the other, in order."""
    await world.cycle("\n".join(f'CALL {n} echo {{"n": {n}}}' for n in range(6)))
    assert world.most_running == 1
    assert [params["n"] for _, params in world.ran] == list(range(6))


@pytest.mark.parametrize(("max_parallel", "expected"), [(2, 2), (None, 4), (100, 4)])
async def test_parallel_where_asked(world: World, max_parallel: int | None, expected: int) -> None:
    """A11: at most `max_parallel` at once, and as many as the engine admits; results in order."""
    reply = "\n".join(f'CALL {n} echo {{"n": {n}}}' for n in range(8))
    done = await world.cycle(reply, max_parallel=max_parallel)
    assert world.most_running == expected
    assert [each.output["said"]["n"] for each in done.execution_results] == list(range(8))


@pytest.mark.parametrize("max_parallel", [1, None])
async def test_a_call_that_hangs(world: World, max_parallel: int | None) -> None:
    """A36: it ends as a timeout, its slot is given back, and its siblings have their results."""
    reply = "CALL 1 echo {}\nCALL 2 hang {}\nCALL 3 echo {}"
    done = await world.cycle(reply, timeout=2.0, max_parallel=max_parallel)
    assert kinds(done) == [None, "timeout", None]
    assert [each.error_type for each in await world.records(tool_name="hang")] == ["timeout"]


async def test_the_timeout_counts_waiting(world: World) -> None:
    """A call that waits for a slot until its time is over ends as a timeout, too."""
    reply = "\n".join(f"CALL {n} hang {{}}" for n in range(5))
    done = await world.cycle(reply, timeout=0.3, max_parallel=None)
    assert kinds(done) == ["timeout"] * 5
    assert any("within 0.3 seconds" in error_of(done, place) for place in range(5))


async def test_the_smaller_timeout_counts(world: World) -> None:
    """The context's own timeout holds inside that of the options."""
    context = ToolExecutionContext(timeout=0.05)
    done = await world.cycle("CALL 1 hang {}", timeout=5 * BOUND, context=context)
    assert kinds(done) == ["timeout"]
    done = await world.cycle("CALL 1 hang {}", context=context)
    assert kinds(done) == ["timeout"]


async def test_the_time_of_all_calls(world: World) -> None:
    """What has not ended when the time for all is over ends as a timeout; what has, is kept."""
    reply = "CALL 1 echo {}\nCALL 2 hang {}\nCALL 3 echo {}"
    done = await world.cycle(reply, total_timeout=1.0)
    assert kinds(done) == [None, "timeout", "timeout"]
    assert "1.0 seconds in all" in error_of(done, 2)
    assert len(world.ran) == 2
    # The engine saw the second call end as its caller gave up; the third it never saw.
    ends = [(each.tool_name, each.error_type) for each in await world.records()]
    assert ends == [("echo", None), ("hang", "cancelled"), ("echo", "timeout")]


async def test_the_caller_is_told_in_each_context(world: World) -> None:
    """Every call gets a context of its own with the caller's fields."""
    context = ToolExecutionContext.for_conversation("agent", "talk", variables={"a": 1})
    await world.cycle("CALL 1 echo {}\nCALL 2 echo {}", context=context)
    first, second = world.contexts
    assert first is not second
    assert (first.caller_id, first.conversation_id, first.variables) == ("agent", "talk", {"a": 1})


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (True, None),
        (None, None),
        (False, "the user did not allow this call"),
        ("not on Sundays", "the user did not allow this call: not on Sundays"),
        ("", "the user did not allow this call"),
        (0, "the user did not allow this call"),
        (ValueError("broken"), "the user did not allow this call: ValueError: broken"),
    ],
)
async def test_the_gate(world: World, is_async: bool, answer: Any, error: str | None) -> None:
    """A29: only True, or None, lets a call through; its siblings go on either way."""
    asked: list[tuple[ToolCall, Tool]] = []

    def ask(call: ToolCall, tool: Tool) -> Any:
        asked.append((call, tool))
        chosen = answer if call.call_id == "1" else True
        if isinstance(chosen, Exception):
            raise chosen
        return chosen

    async def ask_later(call: ToolCall, tool: Tool) -> Any:
        await asyncio.sleep(0)
        return ask(call, tool)

    reply = 'CALL 1 echo {"note": "hush-hush-1"}\nCALL 2 echo {}'
    done = await world.cycle(reply, on_before_execute=ask_later if is_async else ask)
    assert kinds(done) == ["rejected" if error else None, None]
    assert done.execution_results[0].error == error
    assert [(call.tool_name, tool.name) for call, tool in asked] == [("echo", "echo")] * 2
    assert len(world.ran) == (1 if error else 2)
    if error:
        (refused,) = await world.records(error_type="rejected")
        assert "hush" not in str(refused.to_dict())
        assert refused.params["note"]


async def test_the_gate_in_chinese(world: World) -> None:
    """A29: the words of the founding document."""
    done = await world.cycle("CALL 1 echo {}", on_before_execute=lambda *_: False, language="zh")
    assert error_of(done) == "用户未授权"


@pytest.mark.parametrize("limits", [{"timeout": 1.0}, {"approval_timeout": 1.0}])
async def test_nobody_answers(world: World, limits: dict[str, float]) -> None:
    """A gate that hangs refuses after its time; the sibling runs."""

    async def ask(call: ToolCall, tool: Tool) -> bool:
        if call.call_id == "1":
            await asyncio.Event().wait()
        return True

    done = await world.cycle("CALL 1 echo {}\nCALL 2 echo {}", on_before_execute=ask, **limits)
    assert kinds(done) == ["rejected", None]
    assert "the approver did not answer within 1.0 seconds" in error_of(done)


async def test_a_gate_changes_nothing(world: World) -> None:
    """A29: it is asked whether a call may run, and shown a copy of its arguments."""

    def ask(call: ToolCall, tool: Tool) -> None:
        call.arguments["n"] = 99
        call.arguments.clear()

    done = await world.cycle('CALL 1 echo {"n": 1}', on_before_execute=ask)
    assert world.ran == [("echo", {"n": 1})]
    assert done.parsed_requests[0].arguments == {"n": 1}


async def test_a_gate_that_cancels_itself(world: World) -> None:
    """The end of something that the gate waited for is not the end of the cycle."""

    async def ask(call: ToolCall, tool: Tool) -> bool:
        raise asyncio.CancelledError

    done = await world.cycle("CALL 1 echo {}\nCALL 2 echo {}", on_before_execute=ask)
    assert kinds(done) == ["cancelled", "cancelled"]
    assert not world.ran


async def test_a_gate_and_a_tool_that_is_not_there(world: World) -> None:
    """A tool that appears between the question and the call would run without having been asked."""
    asked: list[ToolCall] = []
    reply = "CALL 1 nothing {}\nCALL 2 ecko {}"
    done = await world.cycle(reply, on_before_execute=lambda call, _: asked.append(call))
    assert kinds(done) == ["tool_not_found"] * 2
    assert error_of(done, 0) == "there is no tool 'nothing'"
    assert error_of(done, 1) == "there is no tool 'ecko'; did you mean 'echo'?"
    assert asked == []
    assert len(await world.records(error_type="tool_not_found")) == 2
    options = CycleOptions(on_before_execute=lambda *_: True)
    result = ToolExecutionResult(True, "x")
    blind = await process_tool_calls(Broken(result), "CALL 1 x {}", LINES, options)
    assert kinds(blind) == ["tool_not_found"]


async def test_only_the_tools_that_were_named(world: World) -> None:
    """A33: the others are there, but not for this model; nor is what is not enabled."""
    done = await world.cycle("CALL 1 echo {}\nCALL 2 fail {}\nCALL 3 no {}", tools=["echo"])
    assert kinds(done) == [None, "rejected", "tool_not_found"]
    done = await world.cycle("CALL 1 old {}")
    assert kinds(done) == ["rejected"]
    done = await world.cycle("CALL 1 old {}", tools=("old",))
    assert kinds(done) == [None]


async def test_the_most_calls(world: World) -> None:
    """U47: more calls than the bound are refused one by one, each with a result that says so."""
    reply = "\n".join(f"CALL {n} echo {{}}" for n in range(60))
    done = await world.cycle(reply)
    assert kinds(done) == [None] * 50 + ["rejected"] * 10
    assert "only the first 50 calls" in error_of(done, 50)
    done = await world.cycle(reply, max_calls=1, max_parallel=None)
    assert kinds(done)[:2] == [None, "rejected"]
    assert "only the first call of a reply is run" in error_of(done, 1)


async def test_half_a_character_goes_back_as_its_escape(world: World) -> None:
    """No client can write half of a surrogate pair: it would spoil the conversation."""
    done = await world.cycle("Oops \ud83d")
    assert done.messages == [{"role": "assistant", "content": "Oops \\ud83d"}]


@pytest.mark.parametrize("max_parallel", [1, None])
async def test_cancelling_the_cycle(world: World, max_parallel: int | None) -> None:
    """What runs is cancelled, every slot is given back, and the cancellation gets out."""
    reply = "\n".join(f"CALL {n} hang {{}}" for n in range(6))
    options = CycleOptions(max_parallel=max_parallel)
    task = asyncio.create_task(process_tool_calls(world.engine, reply, LINES, options))
    await world.hanging.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    check_idle(world.engine)
    assert {each.error_type for each in await world.records()} == {"cancelled"}


async def test_cancelling_while_somebody_is_asked(world: World) -> None:
    """A question that is open keeps nothing."""
    asked = asyncio.Event()

    async def ask(call: ToolCall, tool: Tool) -> bool:
        asked.set()
        await asyncio.Event().wait()
        return True

    options = CycleOptions(on_before_execute=ask, max_parallel=None)
    cycle = process_tool_calls(world.engine, "CALL 1 echo {}\nCALL 2 echo {}", LINES, options)
    task = asyncio.create_task(cycle)
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not world.ran
    check_idle(world.engine)


async def test_a_protocol_that_fails(world: World) -> None:
    """A27: no calls, a finding, a line in the log without secrets; the conversation goes on."""
    with capture_logs() as logs:
        done = await world.cycle("CALL 1 echo {}", LineProtocol(fails=True))
    assert not done.has_tool_requests
    (finding,) = done.findings
    assert (finding.error_type, finding.level) == ("malformed_reply", "error")
    assert "RuntimeError: no reply of mine" in finding.message
    (line,) = [line for line in logs if line["event"] == "reply_not_parsed"]
    assert line["protocol"] == "lines"
    assert "sk-live" not in str(line) + finding.message


async def test_a_protocol_that_gives_something_else(world: World) -> None:
    """A27: what is no `ParsedReply` is a finding, too."""

    class Odd(LineProtocol):
        def parse(self, reply: Any) -> Any:
            return [reply]

    done = await world.cycle("CALL 1 echo {}", Odd())
    assert "gave no ParsedReply, but list" in done.findings[0].message


async def test_a_protocol_that_fails_on_results(world: World) -> None:
    """What the calls did is not lost: the results are there, and a finding says what is missing."""

    class Odd(LineProtocol):
        def format_results(self, *words: Any) -> Any:
            raise RuntimeError("no paper")

    done = await world.cycle("CALL 1 echo {}", Odd())
    assert kinds(done) == [None]
    assert (done.formatted, len(done.messages)) == (None, 1)
    assert "no paper" in done.findings[0].message


async def test_texts_become_values(world: World) -> None:
    """A51: a protocol whose arguments are texts has them read by the schema, and that is told."""
    reply = 'CALL 1 echo {"n": "5", "word": "6"}'
    done = await world.cycle(reply, TextLineProtocol())
    assert done.execution_results[0].output == {"said": {"n": 5, "word": "6"}}
    assert "'n'" in done.execution_results[0].metadata["repairs"][0]
    assert kinds(await world.cycle(reply)) == ["validation_error"]


async def test_another_form_of_the_name(world: World) -> None:
    """X2: the result is of the tool that ran; the model reads the name that it wrote."""
    done = await world.cycle('CALL 1 a {"command": "b", "n": 1,}', TextLineProtocol())
    (result,) = done.execution_results
    assert (result.tool_name, result.output) == ("a.b", {"said": {"n": 1}})
    assert "comma" in result.metadata["repairs"][0]
    assert "'a.b'" in result.metadata["repairs"][1]
    assert done.results_text.startswith("RESULT 1 a ")


async def test_a_native_exchange(world: World) -> None:
    """The reply and the results go back as the provider wants them, under the names it knows."""
    reply = {
        "choices": [
            {
                "finish_reason": "tool_calls",
                "message": {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {
                            "id": "call_1",
                            "type": "function",
                            "function": {"name": _sent("a.b"), "arguments": '{"n": 1}'},
                        }
                    ],
                },
            }
        ]
    }
    done = await world.cycle(reply, "openai")
    assert done.execution_results[0].output == {"said": {"n": 1}}
    said, result = done.messages
    assert said["tool_calls"][0]["function"]["name"] == _sent("a.b")
    assert (result["role"], result["tool_call_id"]) == ("tool", "call_1")


def _sent(name: str) -> str:
    from tool_engine.protocols.openai import OpenAIProtocol

    return OpenAIProtocol().known.sent_name(name)


async def test_an_engine_of_few_words(world: World) -> None:
    """A name of a protocol does for something that cannot list its tools, or be looked into."""

    class Few:
        """It has `get` and `execute`, and the signature of the second is not to be seen."""

        get = world.engine.get
        execute = staticmethod(world.engine.execute)

    function = {"name": "echo", "arguments": '{"n": 1}'}
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
    }
    reply = {"choices": [{"finish_reason": "tool_calls", "message": message}]}
    done = await process_tool_calls(Few(), reply, "openai")
    assert done.execution_results[0].output == {"said": {"n": 1}}

    class Hidden:
        """A signature that Python cannot tell."""

        get = world.engine.get

        class execute:  # noqa: N801 - it stands for a method
            __signature__ = "none"

            def __new__(cls, *words: Any) -> Any:
                return world.engine.execute(*words)

    assert (await process_tool_calls(Hidden(), reply, "openai")).execution_results[0].is_success


async def test_tools_of_several_engines(world: World) -> None:
    """U45: a name that two engines have is none; each tool is called under its source's name."""
    tools = CombinedTools({"one": world.engine, "two": world.engine})
    reply = 'CALL 1 one_echo {"n": 1}\nCALL 2 two_echo {"n": 2}\nCALL 3 echo {"n": 3}'
    done = await process_tool_calls(tools, reply, LINES)
    assert kinds(done) == [None, None, "tool_not_found"]
    assert [params["n"] for _, params in world.ran] == [1, 2]


async def test_a_message_that_is_no_list(world: World) -> None:
    """What a protocol of others gives as the message goes into the conversation as it is."""
    reply = ParsedReply(text="x", message={"role": "assistant", "content": "x"})
    assert (await world.cycle(reply)).messages == [{"role": "assistant", "content": "x"}]


async def test_a_sub_agent_runs_the_calls(world: World) -> None:
    """Its history has them; it makes the contexts, so none may be passed."""
    agent = ToolSubAgent("agent_1", world.engine, conversation_id="talk")
    reply = "CALL 1 echo {}\nCALL 2 hang {}"
    done = await process_tool_calls(agent, reply, LINES, CycleOptions(timeout=1.0))
    assert kinds(done) == [None, "timeout"]
    assert [result.tool_name for result in agent.history] == ["echo", "hang"]
    assert world.contexts[0].conversation_id == "talk"
    done = await process_tool_calls(agent, "CALL 1 echo {}", LINES)
    assert kinds(done) == [None]
    with pytest.raises(ConfigurationError, match="ToolSubAgent makes the contexts"):
        await process_tool_calls(agent, reply, LINES, CycleOptions(context=ToolExecutionContext()))


class Broken:
    """Something that runs tools, and breaks in ways that an engine does not."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def get(self, name: str) -> None:
        return None

    async def execute(self, name: str, params: dict[str, Any], context: Any) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "kind", "word"),
    [
        (ValueError("token=sk-live-1234567890abcdef"), "execution_error", "ValueError"),
        (EngineClosedError("the engine is closed"), "engine_closed", "closed"),
        (TimeoutError("by itself"), "execution_error", "by itself"),
        (asyncio.CancelledError(), "cancelled", "cancelled"),
        ({"no": "result"}, "execution_error", "gave no result, but dict"),
        (None, "execution_error", "gave no result, but NoneType"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"timeout": BOUND}, {"total_timeout": BOUND}])
async def test_an_engine_that_breaks(
    answer: Any, kind: str, word: str, options: dict[str, Any]
) -> None:
    """Whatever it raises or gives is the result of that one call, without secrets."""
    reply = "CALL 1 x {}\nCALL 2 y {}"
    async with asyncio.timeout(BOUND):
        done = await process_tool_calls(Broken(answer), reply, LINES, CycleOptions(**options))
    assert kinds(done) == [kind, kind]
    assert word in error_of(done)
    assert "sk-live" not in error_of(done)


async def test_a_result_that_others_have_too() -> None:
    """Calls that share one result (single flight, say) are still answered each under its own id."""
    shared = ToolExecutionResult(True, "x", {"result": 1}, metadata={"call_id": "c"})
    done = await process_tool_calls(Broken(shared), "CALL 1 x {}\nCALL 2 x {}", LINES)
    assert [each.metadata["request_id"] for each in done.execution_results] == ["1", "2"]
    assert shared.metadata == {"call_id": "c"}


async def test_results_need_not_be_written_down(world: World) -> None:
    """`format_results=False` leaves that to the caller, who has the results."""
    done = await world.cycle("CALL 1 echo {}", format_results=False)
    assert done.formatted is None
    assert done.messages == [{"role": "assistant", "content": "CALL 1 echo {}"}]
    assert done.results_text == '{"said": {}}'


@pytest.mark.parametrize(
    "fields",
    [
        {"max_parallel": 0},
        {"max_parallel": True},
        {"max_calls": 0},
        {"timeout": 0},
        {"total_timeout": -1.0},
        {"approval_timeout": float("inf")},
        {"tools": "echo"},
        {"language": "de"},
        {"context": {}},
        {"on_before_execute": "yes"},
    ],
)
def test_options_are_checked(fields: dict[str, Any]) -> None:
    """A mistake of the programmer is told where it is made."""
    with pytest.raises(ConfigurationError):
        CycleOptions(**fields)


@pytest.mark.parametrize(
    ("engine", "protocol", "word"),
    [
        (object(), LINES, "engine must be"),
        ({}, LINES, "engine must be"),
        (Broken(None), "opnai", "did you mean 'openai'"),
        (Broken(None), 5, "protocol must be"),
        (Broken(None), None, "protocol must be"),
    ],
)
async def test_what_is_passed_is_checked(engine: Any, protocol: Any, word: str) -> None:
    """So is an engine that runs nothing, and a protocol that is none."""
    with pytest.raises(ConfigurationError, match=word):
        await process_tool_calls(engine, "CALL 1 x {}", protocol)


async def test_options_are_options(world: World) -> None:
    """A mapping is none: a name in it that is written wrong would be passed over."""
    wrong: Any = {"max_paralel": 2}
    with pytest.raises(ConfigurationError, match="options must be CycleOptions"):
        await process_tool_calls(world.engine, "", LINES, wrong)


async def test_results_that_are_one_message(world: World) -> None:
    """A protocol of others may give the next message itself."""

    class One(LineProtocol):
        def format_results(self, *words: Any) -> Any:
            return {"role": "tool"}

    done = await world.cycle("CALL 1 echo {}", One())
    assert done.messages[-1] == {"role": "tool"}


async def test_the_forms_of_the_founding_document(world: World) -> None:
    """A46, A47, X1: calls and results for front ends, under its names."""
    done = await world.cycle('CALL 7 echo {"n": 1, "word": "x"}\nCALL 8 fail {}')
    assert as_tool_request(done.parsed_requests[0]) == {
        "requestId": "7",
        "toolName": "echo",
        "rawBlock": 'CALL 7 echo {"n": 1, "word": "x"}',
        "args": {"n": "1", "word": "x"},
    }
    good, bad = map(as_execution_result, done.execution_results)
    assert (good["requestId"], good["toolName"], good["status"]) == ("7", "echo", "success")
    assert good["result"] == '{"said": {"n": 1, "word": "x"}}'
    assert isinstance(good["durationMs"], int)
    assert (bad["status"], "no such luck" in bad["result"]) == ("error", True)
    assert as_cycle_result(done) == {
        "hasToolRequests": True,
        "parsedRequests": [as_tool_request(call) for call in done.parsed_requests],
        "executionResults": [good, bad],
    }
    alone = as_execution_result(ToolExecutionResult(True, "echo", {"result": "text"}))
    assert (alone["requestId"], alone["result"]) == ("", "text")
