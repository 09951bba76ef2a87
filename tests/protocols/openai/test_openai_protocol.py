"""Chat Completions: definitions, whole replies, the message that goes back, and results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from openai.types.chat import ChatCompletion

from tests.protocols.wire_openai import entry, message, render_reply
from tool_engine.model.call import ToolCall, ToolExecutionResult
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.reply import ParsedReply
from tool_engine.model.tool import Tool, ToolCategory
from tool_engine.protocols.openai import OpenAIProtocol
from tool_engine.protocols.registry import get_protocol

GET_TIME = json.loads((Path(__file__).parents[1] / "get_time" / "openai.json").read_text())
CALL = ToolCall(call_id="a", tool_name="add", arguments={"x": 1}, raw='{"x": 1}')


def tool(name: str, *parameters: ToolParameter, description: str = "Does it.") -> Tool:
    return Tool(name, name, "1.0.0", description, ToolCategory.CUSTOM, [], list(parameters), {})


def parsed(reply: Any, **options: Any) -> ParsedReply:
    return OpenAIProtocol(**options).parse(reply)


def kinds(reply: ParsedReply) -> list[tuple[str, str]]:
    return [(each.error_type, each.level) for each in reply.findings]


def test_the_exchange_of_the_seed() -> None:
    """D22: getTime(offset_ms=-86400000) in the seed's shapes: definition, reply, result."""
    offset = ToolParameter(
        "offset_ms", "number", required=True, description="相对于当前时间的毫秒数偏移量"
    )
    get_time = tool("getTime", offset, description="获取特定时间偏移量的时间戳（毫秒）")
    protocol = get_protocol("openai")
    assert protocol.definitions([get_time]) == GET_TIME["definitions"]
    reply = protocol.parse(GET_TIME["reply"])
    (call,) = reply.calls
    assert (call.call_id, call.tool_name) == ("call_abc123", "getTime")
    assert call.arguments == {"offset_ms": -86400000}
    assert call.is_runnable
    assert reply.findings == []
    assert reply.message == GET_TIME["reply"]
    result = ToolExecutionResult(True, "getTime", output={"result": 1684713600000})
    assert protocol.format_results([result], [call]) == GET_TIME["results"]


@pytest.mark.parametrize("form", ["object", "mapping", "text", "bytes", "message", "list", "sse"])
def test_every_form_of_a_whole_reply(form: str) -> None:
    """X9: a completion as the SDK's object, its mapping, its JSON, or the message alone."""
    whole = render_reply([CALL], "Adding.")
    text = json.dumps(whole, indent=1)
    alone = whole["choices"][0]["message"]
    forms: dict[str, Any] = {
        "object": ChatCompletion.model_validate(whole),
        "mapping": whole,
        "text": text,
        "bytes": text.encode(),
        "message": ChatCompletion.model_validate(whole).choices[0].message,
        "list": json.dumps([alone]),
        "sse": f"data: {json.dumps(whole)}\n\ndata: [DONE]\n\n",
    }
    reply = parsed(forms[form])
    assert reply.calls == [CALL]
    assert reply.text == "Adding."
    assert reply.findings == []
    if form not in ("message", "list"):
        assert reply.stop_reason == "tool_calls"
        assert reply.usage["total_tokens"] == 21


def test_the_names_that_are_sent() -> None:
    """A tool with a name that OpenAI refuses is told of by another one, which comes back as it."""
    protocol = OpenAIProtocol()
    odd = tool("weather.get current")
    (definition,) = protocol.definitions([odd])
    sent = definition["function"]["name"]
    assert protocol.name_rule.accepts(sent)
    assert [each.error_type for each in protocol.definition_findings([odd])] == ["renamed"]
    reply = protocol.parse(message(entry("{}", sent)))
    assert reply.calls[0].tool_name == odd.name
    assert reply.message[0]["tool_calls"][0]["function"]["name"] == sent


def test_schemas_go_out_as_they_are() -> None:
    """OpenAI refuses alternatives for all arguments only: those of a parameter stay."""
    either = ToolParameter("q", "object", schema={"anyOf": [{"required": ["a"]}]})
    schema = OpenAIProtocol().definitions([tool("find", either)])[0]["function"]["parameters"]
    assert schema["properties"]["q"]["anyOf"] == [{"required": ["a"]}]
    assert OpenAIProtocol().definition_findings([tool("find", either)]) == []


def test_definitions_are_fresh() -> None:
    """Whoever changes a definition changes no other one."""
    protocol, one = OpenAIProtocol(), tool("add", ToolParameter("x", "integer"))
    protocol.definitions([one])[0]["function"]["parameters"]["properties"].clear()
    assert "x" in protocol.definitions([one])[0]["function"]["parameters"]["properties"]


def test_parallel_calls_of_a_whole_reply() -> None:
    """Each entry of a whole message is a call, whatever index and id it carries."""
    calls = [entry('{"x":1}'), entry('{"x":2}'), {"index": 0, **entry("", call_id=None)}]
    reply = parsed({"choices": [{"message": message(*calls), "finish_reason": "tool_calls"}]})
    assert [each.call_id for each in reply.calls] == ["a", "a_2", "call_3"]
    assert [each.arguments for each in reply.calls] == [{"x": 1}, {"x": 2}, {}]
    assert all(each.is_runnable for each in reply.calls)
    assert kinds(reply) == [("repeated_id", "warning")]
    sent = reply.message[0]["tool_calls"]
    assert [each["id"] for each in sent] == ["a", "a_2", "call_3"]
    assert sent[2]["function"]["arguments"] == "{}"


def test_a_cut_reply() -> None:
    """The last call of a reply that a limit cut is not run, also where its arguments are closed."""
    whole = render_reply([CALL, CALL], finish_reason="length")
    reply = parsed(whole)
    assert [each.complete for each in reply.calls] == [True, False]
    assert reply.calls[1].arguments == {}
    assert ("truncated", "error") in kinds(reply)
    assert reply.stop_reason == "length"
    assert kinds(parsed(render_reply([], "Half of", "length"))) == [("truncated", "warning")]


@pytest.mark.parametrize(
    ("arguments", "parameters", "is_run"),
    [('{"x": 1}', 1, True), ('{"x": 1', 1, False), ("", 1, False), ("", 0, True), (None, 0, True)],
)
def test_a_message_alone(arguments: Any, parameters: int, is_run: bool) -> None:
    """A bare message does not say why it ended: arguments that are not there may have been cut,
    unless the tool has none."""
    known = tool("add", *[ToolParameter("x", "integer")][:parameters])
    reply = parsed(message(entry(arguments)), tools=[known])
    assert reply.calls[0].is_runnable is is_run
    assert bool(reply.findings) is not is_run


@pytest.mark.parametrize("reason", ["stop", None, "TOOL_CALLS", "eos"])
def test_reasons_that_say_nothing_of_calls(reason: str | None) -> None:
    """Servers say `stop`, or nothing, although there are calls."""
    choice = {"message": message(entry('{"x":1}')), "finish_reason": reason}
    reply = parsed({"choices": [choice]})
    assert reply.calls[0].is_runnable
    assert reply.findings == []


@pytest.mark.parametrize(
    ("reason", "kind"),
    [("content_filter", "refusal"), ("SAFETY", "refusal"), ("error", "malformed_reply")],
)
def test_replies_that_were_stopped(reason: str, kind: str) -> None:
    """No call of a reply that a filter or a failure stopped is run, and the reason is told."""
    calls = [CALL, ToolCall(call_id="b", tool_name="add", arguments={"x": 2})]
    reply = parsed(render_reply(calls, finish_reason=reason))
    assert not any(each.is_runnable for each in reply.calls)
    assert kinds(reply)[0] == (kind, "error")
    assert reason in reply.findings[0].message


def test_an_unknown_reason() -> None:
    """A reason that nobody knows is told; calls are run if their arguments are closed."""
    reply = parsed(render_reply([CALL], finish_reason="because"))
    assert reply.calls[0].is_runnable
    assert kinds(reply) == [("malformed_reply", "warning")]


def test_a_refusal() -> None:
    """A refusal is no text: it is told as one, and goes back as one."""
    reply = parsed({"role": "assistant", "content": None, "refusal": "I will not."})
    assert (reply.refusal, reply.text) == ("I will not.", "")
    assert kinds(reply) == [("refusal", "error")]
    part = {"type": "refusal", "refusal": "I will not."}
    assert reply.message == [{"role": "assistant", "content": [part]}]
    both = parsed({"role": "assistant", "content": [{"type": "text", "text": "Hm."}, part]})
    assert both.message[0]["content"] == [{"type": "text", "text": "Hm."}, part]


@pytest.mark.parametrize(
    ("fields", "text", "reasoning"),
    [
        ({"content": "Hi", "reasoning_content": "Why?"}, "Hi", "Why?"),
        ({"content": "Hi", "reasoning": "Why?"}, "Hi", "Why?"),
        ({"content": "Hi", "reasoning": "Why?", "reasoning_content": "Why?"}, "Hi", "Why?"),
        ({"content": [{"type": "text", "text": "H"}, None, "i"]}, "Hi", ""),
        ({"content": {"type": "text", "text": "Hi"}}, "Hi", ""),
        (
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "Why?"}]},
                    {"type": "text", "text": "Hi"},
                ]
            },
            "Hi",
            "Why?",
        ),
        ({"content": [{"type": "thinking", "thinking": "Why?"}]}, "", "Why?"),
    ],
)
def test_text_and_reasoning(fields: dict[str, Any], text: str, reasoning: str) -> None:
    """Reasoning never is text, under whatever key and in whatever part it comes."""
    reply = parsed({"role": "assistant", **fields})
    assert (reply.text, reply.reasoning, reply.findings) == (text, reasoning, [])


def test_arguments_under_another_key() -> None:
    """Arguments that a server calls parameters are not taken for none."""
    call = {"id": "a", "function": {"name": "add", "parameters": {"x": 1}}}
    assert parsed(message(call)).calls[0].arguments == {"x": 1}


def test_legacy_function_call() -> None:
    """A `function_call` is a call like any other, and goes back as one of `tool_calls`."""
    legacy = {"role": "assistant", "content": None}
    legacy["function_call"] = {"name": "add", "arguments": '{"x":1}'}  # type: ignore[assignment]
    reply = parsed({"choices": [{"message": legacy, "finish_reason": "function_call"}]})
    (call,) = reply.calls
    assert (call.call_id, call.arguments, reply.findings) == ("call_1", {"x": 1}, [])
    assert reply.message[0]["tool_calls"][0]["id"] == "call_1"


def test_a_call_in_both_forms() -> None:
    """Servers that write a call as `function_call` and in `tool_calls` mean one call."""
    both = message(entry('{"x":1}'), function_call={"name": "add", "arguments": '{"x":1}'})
    reply = parsed({"choices": [{"message": both, "finish_reason": "tool_calls"}]})
    assert [each.call_id for each in reply.calls] == ["a"]
    assert kinds(reply) == [("skipped", "warning")]


def test_a_choice_alone() -> None:
    """`response.choices[0]` is a reply, too."""
    choice = ChatCompletion.model_validate(render_reply([CALL], "Hi")).choices[0]
    reply = parsed(choice)
    assert (reply.calls, reply.text, reply.stop_reason) == ([CALL], "Hi", "tool_calls")


def test_the_other_api_of_ollama() -> None:
    """What Ollama says under its own address is read, whole and line by line."""
    function = {"name": "add", "arguments": {"x": 1}}
    said = {"role": "assistant", "content": "", "tool_calls": [{"function": function}] * 2}
    whole = {"model": "m", "message": said, "done": True, "done_reason": "stop"}
    lines = [
        {"model": "m", "message": {"role": "assistant", "content": "H"}, "done": False},
        {"model": "m", "message": {"role": "assistant", "content": "i"}, "done": False},
        {**whole, "done": False},
        {"model": "m", "message": {"role": "assistant", "content": ""}, "done": True},
    ]
    for reply in (parsed(whole), parsed("\n".join(map(json.dumps, lines)))):
        assert [each.call_id for each in reply.calls] == ["call_1", "call_2"]
        assert all(each.arguments == {"x": 1} and each.is_runnable for each in reply.calls)
        assert reply.findings == []
    assert reply.text == "Hi"


def test_calls_that_are_missing() -> None:
    """A reply that ended for its calls and has none lost them on the way."""
    reply = parsed(render_reply([], "Let me see.", "tool_calls"))
    assert kinds(reply) == [("malformed_reply", "error")]


def test_an_empty_error_is_none() -> None:
    """Servers that list all their fields send an error of null, or an empty one."""
    empty: list[Any] = [None, {}, "", False]
    for nothing in empty:
        reply = parsed({**render_reply([CALL]), "error": nothing})
        assert (reply.calls, reply.findings) == ([CALL], [])


def test_only_the_first_choice_is_read() -> None:
    """Alternatives are not put together: the first is read, the others are told of."""
    whole = render_reply([CALL], "One.")
    other = render_reply([CALL], "Two.")["choices"][0]
    for index in (1, None):
        choices = [whole["choices"][0], {**other, "index": index}]
        reply = parsed({**whole, "choices": choices})
        assert reply.calls == [CALL]
        assert (reply.text, kinds(reply)) == ("One.", [("skipped", "error")])
    assert parsed({**whole, "choices": [{**other, "index": 7}]}).text == "Two."


def test_only_the_last_message_is_read() -> None:
    """The calls of older messages were run already; a message of another role is no reply."""
    history = [{"role": "user", "content": "Hi"}, message(entry("{}")), message(entry("{}", "b"))]
    reply = parsed(history)
    assert [each.tool_name for each in reply.calls] == ["b"]
    assert kinds(reply) == [("skipped", "warning")]
    results = {"role": "tool", "tool_call_id": "a", "content": "1"}
    assert parsed([*history, results]).calls == []
    assert parsed(json.dumps([results])).calls == []


@pytest.mark.parametrize(
    "error",
    [
        {"error": {"message": "overloaded", "code": 503}},
        {"error": "overloaded"},
        {"object": "error", "message": "overloaded", "code": 503},
        {"type": "error", "error": {"message": "overloaded"}},
        {"choices": [{"error": {"message": "overloaded"}, "finish_reason": "error"}]},
        {"choices": [], "error": {"message": "overloaded"}},
        {"message": "overloaded", "code": 503},
        {"detail": "overloaded"},
        [{"error": {"code": 400, "message": "overloaded", "status": "INVALID_ARGUMENT"}}],
    ],
)
def test_error_replies(error: Any) -> None:
    """What a server says instead of a reply is told, in its words."""
    for form in (error, json.dumps(error)):
        reply = parsed(form)
        assert kinds(reply)[0] == ("malformed_reply", "error")
        assert "overloaded" in reply.findings[0].message


@pytest.mark.parametrize(
    "garbage",
    [
        *(None, 5, 1.5, True, "", "Hello", b"\xff\xfe", "{", "[", "null", "[[[]]]", "{}", [], {}),
        *([None], [5], [[]], [{"a": 1}], object(), {"choices": None}, {"choices": 5}),
        *({"choices": [None]}, {"choices": ["x"]}, {"choices": [[]]}, {"choices": []}),
        *({"choices": [{"message": 5}]}, {"choices": [{"delta": "x"}]}, {"choices": [{}]}),
        *({"choices": [{"message": {"content": 5}}]}, {"role": 5}, {"role": "user"}),
        *({"choices": [{"message": {"tool_calls": 5}}]}, {"choices": {"0": {}}}),
        *(message(5), message("x"), message([1]), {"tool_calls": {"function": 5}}),
        *({"role": "assistant", "content": [{"type": "image"}]}, "[" * 5000, {"usage": {"a": 1}}),
    ],
)
def test_garbage_is_a_finding(garbage: Any) -> None:
    """Nothing that is sent instead of a reply raises, and nothing of it is run."""
    reply = parsed(garbage)
    assert [each for each in reply.calls if each.is_runnable] == []
    assert reply.findings != []
