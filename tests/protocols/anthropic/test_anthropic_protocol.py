"""How does Anthropic's Messages API hear of tools, and what comes of its replies?"""

from __future__ import annotations

import datetime as dt
import itertools
import json
from pathlib import Path
from typing import Any, cast

import anthropic.types as sdk
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import share_of
from tests.protocols import wire_anthropic as wire
from tool_engine.errors import ConfigurationError
from tool_engine.model.call import ToolCall, ToolExecutionResult
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.reply import ParsedReply, StreamEventType
from tool_engine.model.tool import Tool, ToolCategory
from tool_engine.protocols.anthropic import AnthropicProtocol
from tool_engine.protocols.registry import get_protocol

SEED = Path(__file__).parents[1] / "get_time" / "anthropic.json"
GET_TIME = json.loads(SEED.read_text("utf-8"))
TOOL = Tool(
    id="getTime",
    name="getTime",
    version="1.0.0",
    description="获取特定时间偏移量的时间戳（毫秒）",
    category=ToolCategory.CUSTOM,
    tags=[],
    parameters=[
        ToolParameter(
            "offset_ms", "number", required=True, description="相对于当前时间的毫秒数偏移量"
        )
    ],
    implementation_config={},
)
CALL = ToolCall(call_id="toolu_1", tool_name="look_up", arguments={"a": 1})


def parse(reply: Any, **options: Any) -> ParsedReply:
    return AnthropicProtocol(**options).parse(reply)


def stream(*blocks: Any, reason: str | None = "tool_use") -> list[Any]:
    events = [event for each in blocks for event in (each if isinstance(each, list) else [each])]
    return [wire.start(), *events, *wire.end(reason)]


def one(reply: ParsedReply) -> ToolCall:
    (call,) = reply.calls
    return call


def kinds(reply: ParsedReply) -> list[tuple[str, str]]:
    return [(each.error_type, each.level) for each in reply.findings]


def result(output: Any = None, **fields: Any) -> ToolExecutionResult:
    made = {"is_success": True, "tool_name": "look_up", "output": output or {"result": "ok"}}
    return ToolExecutionResult(**{**made, **fields})


def test_get_time() -> None:
    """D5, D22, X9: the seed's exchange, with the result under `content`, where the API wants it."""
    protocol = get_protocol("anthropic")
    assert protocol.definitions([TOOL]) == GET_TIME["definitions"]
    reply = protocol.parse(GET_TIME["reply"])
    assert reply.calls == [
        ToolCall(
            call_id="toolu_01ABCDEFGHIJKLMNOPQRST",
            tool_name="getTime",
            arguments={"offset_ms": -86400000},
            raw='{"offset_ms": -86400000}',
        )
    ]
    assert reply.text == "为了告诉您昨天的日期，我需要获取昨天的时间戳。"
    assert reply.findings == []
    assert reply.message == [GET_TIME["reply"]]
    done = [result({"result": "1684713600000"}, tool_name="getTime")]
    assert protocol.format_results(done, reply.calls) == GET_TIME["results"]


def test_names_and_schema() -> None:
    """A35: a name that the API refuses is sent in another spelling, found back, and told of."""
    tool = msgspec.structs.replace(TOOL, name="时间.get")
    protocol = AnthropicProtocol()
    (described,) = protocol.definitions([tool])
    assert wire.NAME.fullmatch(described["name"])
    assert [each.error_type for each in protocol.definition_findings([tool])] == ["renamed"]
    reply = protocol.parse(
        wire.render_stream([msgspec.structs.replace(CALL, tool_name=described["name"])])
    )
    assert one(reply).tool_name == "时间.get"
    assert reply.message[0]["content"][0]["name"] == described["name"]


def test_cache_control() -> None:
    """The last definition carries the mark up to which the provider keeps the prompt."""
    other = msgspec.structs.replace(TOOL, name="other")
    mark = {"type": "ephemeral"}
    protocol = AnthropicProtocol(cache_control=mark)
    first, last = protocol.definitions([TOOL, other])
    assert "cache_control" not in first
    assert last["cache_control"] == mark
    assert last["cache_control"] is not mark
    assert protocol.definitions([]) == []
    wrong: Any
    for wrong in (True, "ephemeral", {}):
        with pytest.raises(ConfigurationError, match="cache_control must be a mapping"):
            AnthropicProtocol(cache_control=wrong)


def parameter(name: str, schema: dict[str, Any], *, required: bool = True) -> ToolParameter:
    return ToolParameter(name, "any", required=required, description="It.", schema=schema)


def test_strict() -> None:
    """A strict definition says only what the API takes there; what it cannot say is told."""
    inner = {"type": "object", "properties": {"x": {"type": "integer", "minimum": 1}}}
    listed = {"type": "array", "items": inner, "minItems": 2, "maxItems": 9}
    tool = msgspec.structs.replace(
        TOOL,
        parameters=[
            parameter("list", listed),
            parameter("text", {"type": "string", "pattern": "^a", "enum": ["a", "ab"]}),
            parameter("either", {"anyOf": [{"type": "string"}, {"type": "null"}]}, required=False),
        ],
    )
    protocol = AnthropicProtocol(strict=True)
    (described,) = protocol.definitions([tool])
    assert described["strict"] is True
    assert wire.faults_of({"tools": [described], "messages": []}) == []
    sent = described["input_schema"]["properties"]["list"]
    assert "2" in sent["description"]
    assert "minItems" not in sent
    findings = protocol.definition_findings([tool])
    assert {each.error_type for each in findings} == {"rewritten"}
    assert "strict" not in AnthropicProtocol().definitions([tool])[0]


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": ["object", "null"], "properties": {}, "additionalProperties": {"type": "string"}},
        {"type": "array", "items": {"description": "anything"}},
    ],
)
def test_what_cannot_be_strict(schema: dict[str, Any]) -> None:
    """A tool that takes anything is sent without `strict`, which the API would refuse."""
    tool = msgspec.structs.replace(TOOL, parameters=[parameter("x", schema)])
    protocol = AnthropicProtocol(strict=True)
    (described,) = protocol.definitions([tool])
    assert "strict" not in described
    (finding,) = protocol.definition_findings([tool])
    assert finding.error_type == "dropped"
    assert "strict mode cannot express it" in finding.message


def test_limits_of_strict() -> None:
    """More than 20 strict tools, or 24 optional parameters, fail the request: it is told."""
    one_of_each = {"anyOf": [{"type": "object", "properties": {"a": {"type": "string"}}}]}
    tools = [
        msgspec.structs.replace(
            TOOL, name=f"t{n}", parameters=[parameter("x", one_of_each, required=False)]
        )
        for n in range(21)
    ]
    found = AnthropicProtocol(strict=True).definition_findings(tools)
    assert [each.message.split(",")[0] for each in found if each.error_type == "limit"] == [
        "anthropic takes 20 strict tools in a request",
        "anthropic takes 24 strict tools' optional parameters in a request",
    ]
    few = AnthropicProtocol(strict=True).definition_findings(tools[:12])
    assert "limit" not in {each.error_type for each in few}
    assert "limit" not in {
        each.error_type for each in AnthropicProtocol().definition_findings(tools)
    }


def every_form(calls: list[ToolCall], text: str) -> list[Any]:
    whole = wire.render_reply(calls, text)
    events = wire.render_stream(calls, text)
    raw = wire.sse(events)
    return [
        whole,
        json.dumps(whole),
        json.dumps(whole).encode(),
        sdk.Message.model_validate(whole),
        whole["content"],
        {"role": "assistant", "content": whole["content"]},
        [{"role": "assistant", "content": whole["content"]}],
        events,
        iter(events),
        raw,
        raw.decode(),
        [raw[place : place + 3] for place in range(0, len(raw), 3)],
        [as_sdk(event) for event in events],
    ]


def as_sdk(event: dict[str, Any]) -> Any:
    from anthropic._models import construct_type_unchecked

    return construct_type_unchecked(type_=cast("Any", sdk.RawMessageStreamEvent), value=event)


def test_every_form_of_a_reply() -> None:
    """A13: the SDK's objects, mappings, JSON, bytes and streams say the same."""
    calls = [CALL, ToolCall(call_id="toolu_2", tool_name="other", arguments={"x": [None, "é"]})]
    for form in every_form(calls, "Let me see."):
        reply = parse(form)
        assert [(c.call_id, c.tool_name, c.arguments) for c in reply.calls] == [
            (c.call_id, c.tool_name, c.arguments) for c in calls
        ]
        assert all(call.is_runnable for call in reply.calls)
        assert reply.text == "Let me see."
        assert reply.findings == []
        assert reply.message == [
            {"role": "assistant", "content": wire.render_reply(calls, "Let me see.")["content"]}
        ]


def test_events_and_usage() -> None:
    """D6, D16: a call's start, its parts, its end; the usage of both ends of the stream."""
    decoder = AnthropicProtocol().decoder()
    events = [event for each in wire.render_stream([CALL], "Hi") for event in decoder.feed(each)]
    assert [event.type for event in events] == [
        StreamEventType.CONTENT_CHUNK,
        StreamEventType.CONTENT_CHUNK,
        StreamEventType.TOOL_CALL_START,
        StreamEventType.TOOL_CALL_CHUNK,
        StreamEventType.TOOL_CALL_CHUNK,
        StreamEventType.TOOL_CALL_END,
    ]
    assert {event.tool_call_id for event in events[2:]} == {"toolu_1"}
    assert events[-1].tool_call_arguments_complete == '{"a": 1}'
    reply = decoder.close()
    assert reply is decoder.close()
    assert reply.stop_reason == "tool_use"
    assert reply.usage == {"input_tokens": 10, "output_tokens": 20}


def test_thinking_goes_back_as_it_came() -> None:
    """Extended thinking with tools: signatures, redacted thinking and foreign blocks are kept."""
    cited = {"type": "web_search_result_location", "url": "u", "cited_text": "c"}
    events = stream(
        wire.block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "Let "},
            {"type": "thinking_delta", "thinking": "me think."},
            {"type": "signature_delta", "signature": "c2ln"},
        ),
        wire.block(1, {"type": "redacted_thinking", "data": "ZGF0YQ=="}),
        wire.block(
            2,
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
            wire.json_delta('{"query": '),
            wire.json_delta('"x"}'),
        ),
        wire.block(
            3, {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
        ),
        wire.block(
            4,
            {"type": "text", "text": "", "citations": None},
            wire.text_delta("Found."),
            {"type": "citations_delta", "citation": cited},
            {"type": "citations_delta", "citation": cited},
        ),
        wire.block(
            5, {"type": "compaction", "content": None}, {"type": "compaction_delta", "content": "s"}
        ),
        wire.block(6, wire.tool_use(caller={"type": "direct"}), wire.json_delta('{"a": 1}')),
    )
    content: list[Any] = [
        {"type": "thinking", "thinking": "Let me think.", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "ZGF0YQ=="},
        {
            "type": "server_tool_use",
            "id": "srvtoolu_1",
            "name": "web_search",
            "input": {"query": "x"},
        },
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
        {"type": "text", "text": "Found.", "citations": [cited, cited]},
        {"type": "compaction", "content": "s"},
        {**wire.tool_use(caller={"type": "direct"}), "input": {"a": 1}},
    ]
    for form in (events, wire.sse(events), wire.message(content, "tool_use")):
        reply = parse(form)
        assert reply.message == [{"role": "assistant", "content": content}]
        assert reply.reasoning == "Let me think."
        assert [call.tool_name for call in reply.calls] == ["look_up"]
        assert reply.findings == []


def test_what_the_provider_runs_is_no_call() -> None:
    """A server tool is run by the provider: its blocks are kept, and never run here."""
    content: list[dict[str, Any]] = [
        {"type": kind, "id": "x", "name": "look_up", "input": {"a": 1}}
        for kind in ("server_tool_use", "mcp_tool_use", "future_tool_use")
    ]
    reply = parse(wire.message(content, "end_turn"))
    assert reply.calls == []
    assert reply.message[0]["content"] == content
    bad = wire.block(0, content[0] | {"input": {}}, wire.json_delta('{"a'))
    assert parse(stream(bad)).message[0]["content"][0]["input"] == {"INVALID_JSON": '{"a'}
    odd = wire.message([content[0] | {"input": [1]}], "end_turn")
    assert parse(odd).message[0]["content"][0]["input"] == {}


def test_a_toolset_of_the_provider_is_not_ours() -> None:
    """`click` of the toolset `browser` is not the tool `click` of the catalog."""
    call = one(parse(stream(wire.block(0, wire.tool_use(toolset_name="browser")))))
    assert not call.is_runnable
    assert "toolset 'browser'" in str(call.error)


@pytest.mark.parametrize(
    ("blocks", "arguments", "repairs"),
    [
        ([wire.block(0, wire.tool_use())], {}, 0),
        ([wire.block(0, wire.tool_use(), wire.json_delta(""))], {}, 0),
        ([wire.begin(0, wire.tool_use())], {}, 0),
        ([wire.block(0, wire.tool_use(input={"a": 1}))], {"a": 1}, 0),
        ([wire.begin(0, wire.tool_use(input={"a": 1}))], {"a": 1}, 0),
        ([wire.block(0, wire.tool_use(input={"a": 1}), wire.json_delta('{"a":1}'))], {"a": 1}, 0),
        ([wire.block(0, wire.tool_use(), wire.json_delta({"a": 1}))], {"a": 1}, 0),
        ([wire.block(0, wire.tool_use(input='{"a": 1}'))], {"a": 1}, 1),
        ([wire.block(0, wire.tool_use(input=[]))], {}, 1),
        ([wire.block(0, wire.tool_use(input=None))], {}, 1),
        ([wire.block(None, wire.tool_use(), wire.json_delta('{"a": 1}'))], {"a": 1}, 0),
        ([wire.block("0", wire.tool_use(), wire.json_delta('{"a": 1}'))], {"a": 1}, 0),
        ([wire.begin(0, wire.tool_use()), wire.delta(0, wire.json_delta('{"a": 1}'))], {"a": 1}, 0),
    ],
)
def test_arguments_that_can_be_read(
    blocks: list[Any], arguments: dict[str, Any], repairs: int
) -> None:
    """Whatever a compatible server does to send one object: it is read, and a change is told."""
    reply = parse(stream(*blocks))
    call = one(reply)
    assert call.is_runnable
    assert call.arguments == arguments
    assert len(call.repairs) == repairs
    assert reply.findings == []


@pytest.mark.parametrize(
    ("blocks", "why"),
    [
        ([wire.block(0, wire.tool_use(input={"a": 2}), wire.json_delta('{"a":1}'))], "twice"),
        ([wire.block(0, wire.tool_use(input={"a": 2}), wire.json_delta("[1, 2, }"))], "twice"),
        ([wire.block(0, wire.tool_use(input=[1]))], "must be a JSON object, got a list"),
        ([wire.block(0, wire.tool_use(input=7))], "must be a JSON object, got a int"),
        ([wire.block(0, wire.tool_use(input={"a": float("nan")}))], "number"),
        ([wire.block(0, wire.tool_use(input={"a": 10**5000}))], "number"),
        ([wire.block(0, wire.tool_use(input={"a": {1: 2}}))], "key"),
        ([wire.block(0, wire.tool_use(), wire.json_delta('{"a": 1}{"a": 2}'))], "two objects"),
        ([wire.block(0, wire.tool_use(), wire.json_delta(5))], "no text"),
        (
            [wire.block(0, wire.tool_use()), wire.delta(0, wire.json_delta('{"a": 1}'))],
            "after its end",
        ),
        (
            [
                *wire.block(0, wire.tool_use(), wire.json_delta('{"a": 1}')),
                *wire.block(1, {"type": "text", "text": "x"}),
                wire.delta(0, wire.json_delta('{"a": 1}')),
            ],
            "after its end",
        ),
        ([wire.block(0, wire.tool_use(name=None), wire.json_delta("{}"))], "no tool name"),
        ([wire.block(0, wire.tool_use(name=""), wire.json_delta("{}"))], "no tool name"),
    ],
)
def test_arguments_that_cannot_be_read(blocks: list[Any], why: str) -> None:
    """U47: what is doubtful is not run, and the model is told why; the history stays acceptable."""
    reply = parse(stream(*blocks))
    call = one(reply)
    assert not call.is_runnable
    assert call.arguments == {}
    assert why in str(call.error)
    assert "error" in {level for _, level in kinds(reply)}
    assert (
        wire.faults_of(
            {"messages": [*reply.message, *AnthropicProtocol().format_results([result()], [call])]}
        )
        == []
    )


def test_arguments_of_no_json() -> None:
    """What only Python knows, in a mapping that was made by hand, is taken, and sent as text."""
    day = dt.date(2026, 11, 22)
    reply = parse(wire.render_reply([msgspec.structs.replace(CALL, arguments={"day": day})]))
    assert one(reply).arguments == {"day": day}
    assert reply.message[0]["content"][0]["input"] == {"day": "2026-11-22"}


def test_repaired_arguments() -> None:
    """What was repaired goes back as it was run, and as what it was if it was not."""
    events = stream(wire.block(0, wire.tool_use(), wire.json_delta('```json\n{"a": 1}\n```')))
    reply = parse(events)
    assert one(reply).arguments == {"a": 1}
    assert len(one(reply).repairs) == 1
    assert reply.message[0]["content"][0]["input"] == {"a": 1}
    unread = parse(events, repair=False)
    assert not one(unread).is_runnable
    assert list(unread.message[0]["content"][0]["input"]) == ["INVALID_JSON"]


def test_deep_arguments() -> None:
    """Arguments that are nested without end are refused, whole or streamed; nothing is raised."""
    deep: Any = {}
    for _ in range(600):
        deep = {"a": deep}
    text = '{"a":' * 10_000 + "1" + "}" * 10_000
    for reply in (
        parse(stream(wire.block(0, wire.tool_use(input=deep)))),
        parse(stream(wire.block(0, wire.tool_use(), wire.json_delta(text)))),
    ):
        assert "nest" in str(one(reply).error)
        assert json.dumps(reply.message)
    for _ in range(3_000):
        deep = {"a": deep}
    held = wire.message([{"type": "new", "x": deep}], "end_turn")
    assert kinds(parse(held)) == [("malformed_reply", "error")]


def test_arguments_at_the_limit_of_depth_go_back() -> None:
    """What is just not too deep is run, and can be sent again."""
    text = '{"a":' * 480 + "1" + "}" * 480
    reply = parse(stream(wire.block(0, wire.tool_use(), wire.json_delta(text))))
    assert one(reply).is_runnable
    assert reply.message[0]["content"][0]["input"] == json.loads(text)


def test_parallel_calls_under_one_index() -> None:
    """U47: parallel calls that all carry index 0 are told apart where they can be, else not run."""
    a, b = wire.tool_use("a"), wire.tool_use("b")
    one_by_one = [
        wire.begin(0, a),
        wire.delta(0, wire.json_delta('{"x": 1}')),
        wire.begin(0, b),
        wire.delta(0, wire.json_delta('{"x": 2}')),
    ]
    assert [call.arguments for call in parse(stream(one_by_one)).calls] == [{"x": 1}, {"x": 2}]
    stopped = wire.block(0, a, wire.json_delta('{"x": 1}')) + wire.block(0, b)
    assert [call.arguments for call in parse(stream(stopped)).calls] == [{"x": 1}, {}]
    mixed = [wire.begin(0, a), wire.begin(0, b), wire.delta(0, wire.json_delta('{"x": 1}'))]
    reply = parse(stream(mixed))
    assert [call.is_runnable for call in reply.calls] == [False, False]
    assert kinds(reply) == [("malformed_arguments", "error")] * 2
    text = [wire.begin(0, a), *wire.block(0, {"type": "text", "text": "x"})]
    assert [call.is_runnable for call in parse(stream(text)).calls] == [False]


def test_arguments_under_a_wrong_index() -> None:
    """U47: a call whose arguments may have gone elsewhere is not run with `{}`."""
    text = wire.block(0, {"type": "text", "text": "Hi"})
    for place in (0, 7):
        lost = wire.delta(place, wire.json_delta('{"a": 1}'))
        for end in (wire.end(), [{"type": "message_stop"}], []):
            reply = parse([*text, wire.begin(1, wire.tool_use()), lost, wire.stop(1), *end])
            assert not one(reply).is_runnable
            assert ("malformed_reply", "error") in kinds(reply)
    other = wire.block(2, wire.tool_use("b"), wire.json_delta('{"b": 1}'))
    calls = parse(stream(text, wire.block(1, wire.tool_use("a")), lost, other)).calls
    assert [call.is_runnable for call in calls] == [False, True]


def test_interleaved_and_out_of_order() -> None:
    """Blocks are put together by their index; calls stay in the order in which they began."""
    events = [
        wire.begin(2, wire.tool_use("b")),
        wire.begin(1, wire.tool_use("a")),
        wire.delta(1, wire.json_delta('{"x":')),
        wire.delta(2, wire.json_delta('{"y":')),
        wire.delta(1, wire.json_delta("1}")),
        wire.delta(2, wire.json_delta("2}")),
        wire.stop(1),
        wire.stop(2),
        *wire.block(0, {"type": "thinking", "thinking": "t", "signature": "s"}),
    ]
    reply = parse(stream(events))
    assert [(call.call_id, call.arguments) for call in reply.calls] == [
        ("b", {"y": 2}),
        ("a", {"x": 1}),
    ]
    assert [each.get("id") for each in reply.message[0]["content"]] == [None, "a", "b"]
    assert reply.findings == []


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded", "length"])
def test_a_cut_reply(reason: str) -> None:
    """U47: the last call of a reply that a limit cut is never run, however whole it looks."""
    calls = [CALL, msgspec.structs.replace(CALL, call_id="toolu_2")]
    for form in (wire.render_reply(calls, "x", reason), wire.render_stream(calls, "x", reason)):
        reply = parse(form)
        assert [call.complete for call in reply.calls] == [True, False]
        assert [call.is_runnable for call in reply.calls] == [True, False]
        assert kinds(reply) == [("truncated", "error")]
        assert reply.stop_reason == reason
        assert [each["id"] for each in reply.message[0]["content"][1:]] == ["toolu_1", "toolu_2"]
    half = stream(
        wire.begin(0, wire.tool_use()), wire.delta(0, wire.json_delta('{"a": "b')), reason=reason
    )
    reply = parse(half)
    assert not one(reply).complete
    assert reply.message[0]["content"][0]["input"] == {"INVALID_JSON": '{"a": "b'}


def test_a_cut_that_did_not_hit_the_call() -> None:
    """A call that was followed by more is whole; one that was begun and got nothing is not run."""
    thought = {"type": "thinking", "thinking": "hm", "signature": ""}
    whole = wire.block(0, wire.tool_use(), wire.json_delta('{"a": 1}'))
    for after in (thought, {"type": "text", "text": "And"}, {"type": "server_tool_use", "id": "s"}):
        reply = parse(stream(whole, wire.begin(1, after), reason="max_tokens"))
        assert one(reply).is_runnable
        assert kinds(reply) == [("truncated", "warning")]
    reply = parse(stream(whole, wire.begin(1, thought), reason="max_tokens"))
    assert [each["type"] for each in reply.message[0]["content"]] == ["tool_use"]
    open_calls = [wire.begin(0, wire.tool_use("a")), wire.begin(1, wire.tool_use("b"))]
    reply = parse(stream(open_calls, reason="max_tokens"))
    assert [call.is_runnable for call in reply.calls] == [False, False]


@pytest.mark.parametrize(
    ("reason", "found"),
    [
        ("end_turn", []),
        ("stop_sequence", []),
        ("stop", []),
        ("tool_calls", []),
        ("compaction", []),
        ("pause_turn", [("truncated", "warning")]),
        ("brand_new", [("malformed_reply", "warning")]),
        (7, [("malformed_reply", "warning")]),
    ],
)
def test_other_reasons_to_stop(reason: Any, found: list[Any]) -> None:
    """LiteLLM and others say `end_turn` after calls: it is the calls that count."""
    for form in (wire.render_stream([CALL], "", reason), wire.render_reply([CALL], "", reason)):
        reply = parse(form)
        assert one(reply).is_runnable
        assert kinds(reply) == found


def test_an_unknown_reason_does_not_close_a_call() -> None:
    """Only a closed object counts when nobody knows why the reply ended."""
    half = [wire.begin(0, wire.tool_use()), wire.delta(0, wire.json_delta('{"a": "b'))]
    assert not one(parse(stream(half, reason="brand_new"))).complete
    assert not one(parse(stream(wire.begin(0, wire.tool_use()), reason="brand_new"))).is_runnable


@pytest.mark.parametrize(
    ("details", "words"),
    [
        ({"type": "refusal", "category": "cyber", "explanation": "No."}, "No."),
        ({"type": "refusal", "category": "cyber"}, "cyber"),
        (None, "refusal"),
    ],
)
def test_a_refusal(details: Any, words: str) -> None:
    """A refused reply is said to be one, and nothing of it is run."""
    events = stream(wire.block(0, wire.tool_use(), wire.json_delta('{"a": 1}')))
    events[-2:] = wire.end("refusal", stop_details=details)
    whole = {**wire.render_reply([CALL], "", "refusal"), "stop_details": details}
    for form in (events, whole):
        reply = parse(form)
        assert reply.refusal == words
        assert reply.stop_reason == "refusal"
        assert not one(reply).is_runnable
        assert kinds(reply)[0] == ("refusal", "error")


ERROR = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


@pytest.mark.parametrize(
    "error",
    [
        ERROR,
        {"error": {"message": "Overloaded", "type": "overloaded_error"}},
        ValueError("Overloaded"),
        {"type": "error", "error": "Overloaded"},
    ],
)
def test_an_error_in_the_middle(error: Any) -> None:
    """Who asks again would run the calls twice: a reply that the provider broke off runs none."""
    events = [wire.start(), *wire.block(0, wire.tool_use("a"), wire.json_delta("{}"))]
    events += [wire.begin(1, wire.tool_use("b")), wire.delta(1, wire.json_delta('{"x'))]
    reply = parse([*events, error])
    assert [call.is_runnable for call in reply.calls] == [False, False]
    assert [call.complete for call in reply.calls] == [True, False]
    assert "Overloaded" in reply.findings[0].message
    assert "Overloaded" in str(reply.calls[0].error)
    alone = parse(error)
    assert kinds(alone) == [("malformed_reply", "error")]
    assert alone.message == []


def test_an_error_after_the_end() -> None:
    """A reply that was whole before the connection broke is whole."""
    reply = parse([*wire.render_stream([CALL]), ERROR])
    assert one(reply).is_runnable
    assert kinds(reply) == [("malformed_reply", "error")]


def test_no_end() -> None:
    """A lost connection: what the provider ended, or what is a closed object, is whole."""
    whole = wire.block(0, wire.tool_use("a"), wire.json_delta('{"x": 1}'))
    events = [
        wire.start(),
        *whole,
        wire.begin(1, wire.tool_use("b")),
        wire.delta(1, wire.json_delta('{"x')),
    ]
    reply = parse(events)
    assert [call.is_runnable for call in reply.calls] == [True, False]
    assert ("truncated", "warning") in kinds(reply)
    closed = [wire.begin(0, wire.tool_use(input={"x": 1}))]
    assert one(parse(closed)).is_runnable
    assert not one(parse([wire.begin(0, wire.tool_use())])).is_runnable
    stop_only = [*whole, {"type": "message_stop"}]
    assert parse(stop_only).findings == []
    open_stop = [wire.begin(0, wire.tool_use()), {"type": "message_stop"}]
    assert not one(parse(open_stop)).is_runnable
    null = [wire.start(), *whole, *wire.end(None)]
    assert one(parse(null)).is_runnable


def test_content_in_the_start() -> None:
    """A server that sends all content with `message_start` loses none of it, and doubles none."""
    held = wire.start(content=wire.render_reply([CALL], "Hi")["content"])
    for events in ([held], [held, *wire.end()], [held, {"type": "message_stop"}]):
        reply = parse(events)
        assert one(reply).arguments == {"a": 1}
        assert reply.text == "Hi"
    reply = parse([held, *wire.render_stream([CALL], "Hi")[1:]])
    assert one(reply).call_id == "toolu_1"
    assert reply.text == "Hi"


def test_a_conversation() -> None:
    """X9: of a conversation, also as the seed writes it, the last message is the reply."""
    asked = {"role": "user", "content": "Hi"}
    said = {"role": "assistant", "content": wire.render_reply([CALL])["content"]}
    reply = parse([asked, said])
    assert one(reply).call_id == "toolu_1"
    assert kinds(reply) == [("skipped", "warning")]
    answer = {"type": "tool_result", "tool_use_id": "toolu_1", "result": "1684713600000"}
    answered = parse([asked, said, {"role": "user", "content": [answer]}])
    assert answered.calls == []
    assert ("malformed_reply", "error") in kinds(answered)


def test_a_beginning_that_comes_twice() -> None:
    """Before any content a second beginning takes nothing away, whatever its id."""
    first, *rest = wire.render_stream([CALL])
    for again in (first, {**first, "message": {**first["message"], "id": "msg_2"}}):
        reply = parse([first, again, *rest])
        assert (one(reply).is_runnable, reply.findings) == (True, [])
        late = parse([first, *rest[:2], again, *rest[2:]])
        assert not one(late).is_runnable
        assert ("malformed_reply", "error") in kinds(late)


@pytest.mark.parametrize("kind", ["text", "thinking", "server_tool_use", "brand_new"])
def test_a_stream_that_dies_behind_an_empty_block(kind: str) -> None:
    """What ended before it said anything is told to be cut, not to be empty."""
    begun = {"type": kind, "id": "x", "name": "x", "text": "", "thinking": "", "input": {}}
    first, *_ = wire.render_stream([CALL])
    reply = parse([first, wire.begin(0, begun)])
    assert kinds(reply) == [("truncated", "warning")]


def test_a_call_of_the_provider_without_a_result() -> None:
    """Where a limit cut the reply, a server's call without its result does not go back."""
    used: dict[str, Any] = {
        "type": "server_tool_use",
        "id": "srv_1",
        "name": "web_search",
        "input": {},
    }
    ended = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}
    text = {"type": "text", "text": "Hm."}
    thought = {"type": "thinking", "thinking": "x", "signature": "s"}
    cases: list[tuple[str, list[Any], list[Any]]] = [
        ("max_tokens", [text, used], [text]),
        ("max_tokens", [text, thought, used], [text]),
        ("max_tokens", [text, used, ended], [text, used, ended]),
        ("pause_turn", [text, used], [text, used]),
        ("tool_use", [used, wire.tool_use()], [used, wire.tool_use()]),
    ]
    for reason, content, kept in cases:
        reply = parse(wire.message(content, reason))
        assert reply.message == [{"role": "assistant", "content": kept}]
        assert reply.is_paused is (reason == "pause_turn")
    assert parse(wire.message([used], "max_tokens")).message == []


def test_a_second_message() -> None:
    """A proxy that begins again in the middle: the first message counts, and it is told."""
    first = [wire.start(), wire.begin(0, wire.tool_use(input={"x": 1}))]
    for second in (wire.render_stream([CALL]), [wire.render_reply([CALL])]):
        reply = parse([*first, *second])
        assert one(reply).arguments == {"x": 1}
        assert ("malformed_reply", "error") in kinds(reply)
    late = parse(
        [*wire.render_stream([CALL]), wire.begin(1, wire.tool_use("b")), wire.delta(1, {})]
    )
    assert one(late).call_id == "toolu_1"
    assert kinds(late) == [("malformed_reply", "error")]
    again = parse([*wire.render_stream([CALL]), *wire.end("tool_use"), *wire.end("max_tokens")])
    assert kinds(again) == [("malformed_reply", "error")]


def test_ids() -> None:
    """Every call has its own id, in the reply, in the message and in the results."""
    blocks = [
        wire.block(place, wire.tool_use(name), wire.json_delta(f'{{"x": {place}}}'))
        for place, name in enumerate(("a", "a", None, 5))
    ]
    reply = parse(stream(*blocks))
    assert [call.call_id for call in reply.calls] == ["a", "a_2", "call_3", "call_4"]
    assert [each["id"] for each in reply.message[0]["content"]] == ["a", "a_2", "call_3", "call_4"]
    assert kinds(reply) == [("repeated_id", "warning")]


@pytest.mark.parametrize(
    ("written", "sent"), [("foo.bar é", "foo_bar__"), (None, "unnamed"), ("x" * 90, "x" * 64)]
)
def test_names_in_the_history(written: Any, sent: str) -> None:
    """A name that a model made up must not make the next request fail."""
    reply = parse(stream(wire.block(0, wire.tool_use(name=written), wire.json_delta("{}"))))
    assert reply.message[0]["content"][0]["name"] == sent
    assert one(reply).tool_name == (written or "")


def test_empty_texts_are_left_out() -> None:
    """The API refuses texts without a letter, which its own compatible servers send."""
    events = stream(
        wire.block(0, {"type": "text", "text": ""}),
        wire.block(1, {"type": "text", "text": "\n\n"}),
        reason="end_turn",
    )
    assert parse(events).message == []
    assert parse(wire.message([], "end_turn")).message == []
    assert parse(wire.message([], "end_turn")).findings == []
    assert parse({"role": "assistant", "content": ""}).findings == []
    assert parse({"role": "assistant", "content": "Hi"}).text == "Hi"


def test_what_the_sdk_adds_is_not_sent() -> None:
    """The SDK's own fields make the next request fail."""
    text: dict[str, Any] = {"type": "text", "text": "Hi"}
    reply = parse(wire.message([text | {"parsed_output": {"x": 1}, "citations": None}], "end_turn"))
    assert reply.message[0]["content"] == [text]


def test_unsigned_thinking() -> None:
    """Servers that sign nothing want the thinking back; the half of a signed one is of no use."""
    thought = {"type": "thinking", "thinking": "hm"}
    calls = wire.block(1, wire.tool_use())
    whole = parse(stream(wire.block(0, thought), calls))
    assert whole.message[0]["content"][0] == thought
    assert parse(stream(wire.begin(0, thought), reason="max_tokens")).message == []


@pytest.mark.parametrize("reason", ["end_turn", "max_tokens"])
@pytest.mark.parametrize(
    "thought",
    [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "ZGF0YQ=="},
    ],
)
def test_thinking_at_the_end(thought: dict[str, Any], reason: str) -> None:
    """The API refuses a message that ends with thinking, for as long as it is in the history."""
    text = {"type": "text", "text": "Hi."}
    for content, kept in (
        ([thought], []),
        ([thought, thought], []),
        ([thought, text, thought], [thought, text]),
    ):
        reply = parse(wire.message(content, reason))
        assert [each for one in reply.message for each in one["content"]] == kept


def test_deltas_of_another_kind() -> None:
    """A delta that does not fit its block is read for what it is, and it is told."""
    thought = {"type": "thinking_delta", "thinking": "hm"}
    events = stream(
        wire.begin(0, {"type": "text", "text": ""}),
        wire.delta(0, thought),
        wire.delta(0, thought),
        wire.delta(0, wire.text_delta("Hi")),
        wire.begin(1, wire.tool_use()),
        wire.delta(1, wire.text_delta(" there")),
        wire.delta(1, wire.json_delta('{"a": 1}')),
    )
    reply = parse(events)
    assert (reply.reasoning, reply.text) == ("hmhm", "Hi there")
    assert one(reply).arguments == {"a": 1}
    assert kinds(reply) == [("malformed_reply", "warning")] * 2
    lone = parse([wire.delta(4, wire.text_delta("Hi"))])
    assert lone.text == "Hi"
    assert lone.message[0]["content"] == [{"type": "text", "text": "Hi"}]


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        5,
        [],
        "no stream",
        {},
        {"type": 7},
        {"type": "message"},
        {"role": "user", "content": "hello"},
        {"content": 5},
        {"type": "message", "content": [None]},
        [wire.begin(0, None)],
        [wire.begin(0, {"type": None})],
        [wire.delta(0, wire.json_delta('{"a": 1}'))],
        [wire.begin(0, {"type": "text"}), wire.delta(0, wire.json_delta("{"))],
        [wire.begin(0, {"type": "text"}), wire.delta(0, wire.text_delta(5))],
        [
            wire.begin(0, {"type": "thinking"}),
            wire.delta(0, {"type": "thinking_delta", "thinking": 5}),
        ],
        [wire.begin(0, {"type": "text"}), wire.delta(0, None)],
        [wire.delta(0, {"type": "new_delta"})],
        [wire.begin(0, {"type": "server_tool_use"}), wire.delta(0, wire.json_delta(5))],
        b'data: {"type": "content_block_start", "index\n\n',
    ],
)
def test_garbage(wrong: Any) -> None:
    """Whatever a server sends ends as a finding, not as an exception."""
    reply = parse(wrong)
    assert ("malformed_reply", "error") in kinds(reply)
    assert reply.calls == []


def test_quiet() -> None:
    """Pings, the SDK's own events, events to come, and what says nothing are no findings."""
    snapshot = {"type": "input_json", "partial_json": "{}", "snapshot": {}}
    quiet = [
        {"type": "ping"},
        {"type": "text", "text": "x", "snapshot": "x"},
        snapshot,
        {"type": "new"},
    ]
    empty = [wire.stop(9), wire.delta(9, wire.json_delta("")), wire.delta(9, wire.json_delta(None))]
    server = [
        wire.begin(1, {"type": "server_tool_use", "id": "s"}),
        wire.delta(1, wire.json_delta(None)),
    ]
    events = stream(
        *quiet, *empty, *server, wire.block(0, {"type": "new_block"}, {"type": "new", "x": 1})
    )
    reply = parse(events)
    assert (reply.findings, reply.calls, reply.text) == ([], [], "")
    assert {"type": "new_block", "x": 1} in reply.message[0]["content"]
    twice = parse(stream(wire.block(0, wire.tool_use()), wire.stop(0)))
    assert one(twice).is_runnable


def test_a_lost_part() -> None:
    """Where a part of the stream is lost, the call around it is not run, not even with `{}`."""
    whole = wire.block(0, wire.tool_use(), wire.json_delta('{"a": 1}'))
    raw = wire.sse(stream(whole)).replace(b'"partial_json": "', b'"partial_json: "')
    reply = parse(raw)
    assert not one(reply).is_runnable
    assert ("malformed_reply", "error") in kinds(reply)


@pytest.mark.parametrize(
    "lost",
    [
        wire.delta(0, None),
        wire.delta(0, {"partial_json": "2"}),
        wire.delta(0, wire.json_delta({})),
        wire.delta(0, wire.json_delta(2)),
        wire.delta(9, wire.json_delta("2")),
        wire.delta(True, wire.json_delta("2")),
        {"index": 0, "delta": wire.json_delta("2")},
        5,
    ],
)
def test_a_lost_part_in_the_middle(lost: Any) -> None:
    """What is left of the arguments may be an object, and yet not what was meant."""
    parts = [wire.delta(0, wire.json_delta(part)) for part in ('{"a": 1', "3}")]
    begun = wire.begin(0, wire.tool_use())
    reply = parse(stream(begun, parts[0], lost, parts[1], wire.stop(0)))
    assert not one(reply).is_runnable
    assert one(parse(stream(begun, *parts, wire.stop(0)))).arguments == {"a": 13}


def test_halves_of_letters() -> None:
    """Half of a surrogate pair can be read, run and sent again: no client can send it as it is."""
    text = '{"a": "\\ud83d", "b": "\\ud83d\\ude00"}'
    events = stream(
        wire.block(
            0,
            {"type": "text", "text": ""},
            wire.text_delta("\ud83d"),
            wire.text_delta("\ude00 \udc00"),
        ),
        wire.block(1, wire.tool_use(), wire.json_delta(text)),
    )
    reply = parse(events)
    assert one(reply).arguments == {"a": "\ud83d", "b": "😀"}
    said, used = reply.message[0]["content"]
    assert said["text"] == "😀 \\udc00"
    assert used["input"] == {"a": "\\ud83d", "b": "😀"}
    json.dumps(reply.message, ensure_ascii=False).encode()


def test_the_message_is_its_own() -> None:
    """A tool that changes its arguments does not change the history."""
    reply = parse(wire.render_reply([msgspec.structs.replace(CALL, arguments={"a": [1]})]))
    one(reply).arguments["a"].append(2)
    assert reply.message[0]["content"][0]["input"] == {"a": [1]}


def test_results() -> None:
    """R7, D5: one message with a result for every call, in order, errors marked as such."""
    calls = [msgspec.structs.replace(CALL, call_id=f"t{place}") for place in range(6)]
    image = {"type": "image", "data": "aW1n", "mimeType": "image/png"}
    results = [
        result(),
        result(
            is_success=False, error="no such file; check the path", error_type="execution_error"
        ),
        result({"content": [{"type": "text", "text": "See"}, image]}),
        result({"content": [image, {"type": "text", "text": ""}]}),
        result({"result": ""}),
        result({"content": [{**image, "mimeType": "image/bmp"}]}),
    ]
    (said,) = AnthropicProtocol().format_results(results, calls)
    source = {"type": "base64", "media_type": "image/png", "data": "aW1n"}
    shown = {"type": "image", "source": source}
    head = [{"type": "tool_result", "tool_use_id": f"t{place}"} for place in range(6)]
    assert said["role"] == "user"
    assert said["content"][:5] == [
        {**head[0], "content": "ok"},
        {
            **head[1],
            "content": "Error (execution_error): no such file; check the path",
            "is_error": True,
        },
        {**head[2], "content": [{"type": "text", "text": "See"}, shown]},
        {**head[3], "content": [shown]},
        head[4],
    ]
    assert "image/bmp" in said["content"][5]["content"]
    assert AnthropicProtocol().format_results([]) == []


def test_results_must_say_whose_they_are() -> None:
    """A result that cannot be told to belong to a call is refused, not guessed."""
    with pytest.raises(ConfigurationError, match="does not say which call"):
        AnthropicProtocol().format_results([result()])
    (said,) = AnthropicProtocol().format_results([result(metadata={"request_id": "t9"})])
    assert said["content"][0]["tool_use_id"] == "t9"


@settings(max_examples=share_of(30), deadline=None)
@given(
    st.lists(
        st.sampled_from(
            stream(
                wire.block(0, wire.tool_use("a"), wire.json_delta('{"x"'), wire.json_delta(": 1}")),
                wire.block(1, {"type": "text", "text": "é"}, wire.text_delta("🙂")),
                wire.begin(2, None),
                ERROR,
                wire.delta(7, wire.json_delta("{")),
            )
        ),
        max_size=12,
    ),
    st.lists(st.integers(0, 3000), max_size=8),
)
def test_any_order_of_events_however_cut(events: list[Any], cuts: list[int]) -> None:
    """Events in any order are read without an exception, and the same however they are cut."""
    raw = wire.sse(events)
    ends = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    whole = parse(events)
    assert parse([raw[a:b] for a, b in itertools.pairwise(ends)] or [b""]) == whole or not events
    assert parse(raw) == whole or not events


STRANGE = st.text(st.sampled_from("aZ9_- :|.é\n\x00\ud800"), max_size=4)


@given(st.lists(st.tuples(STRANGE, st.integers(0, 1)), min_size=1, max_size=6))
@settings(max_examples=share_of(300))
def test_every_id_is_one_that_the_api_takes(sent: list[tuple[str, int]]) -> None:
    """Each turn with another one would be refused; no id makes two calls of one, or one of two."""
    content = [
        {"type": "tool_use", "id": call_id, "name": "look_up", "input": {"a": number}}
        for call_id, number in sent
    ]
    whole = parse(wire.message(content, "tool_use"))
    parts = [
        wire.block(
            place,
            wire.tool_use(each["id"], "look_up"),
            wire.json_delta(json.dumps(each["input"])),
        )
        for place, each in enumerate(content)
    ]
    for reply in (whole, parse(stream(*parts))):
        ids = [call.call_id for call in reply.calls]
        assert all(wire.ID.fullmatch(each) for each in ids)
        assert len(set(ids)) == len(ids)
        (message,) = reply.message
        assert [each["id"] for each in message["content"]] == ids
        named = [each for each in sent if each[0] and "\ud800" not in each[0]]
        assert len(ids) == len(set(named)) + len(sent) - len(named)
        # It is told of a call that came again, or of another one under its id, and of no more.
        told = [each for each in reply.findings if each.error_type == "repeated_id"]
        assert len(told) == len(named) - len({call_id for call_id, _ in named})


def test_an_input_with_a_key_twice_is_not_run() -> None:
    """U47: whoever passes the bytes of a whole message learns of a key that stands twice in one
    object of a call; nobody guesses which value was meant."""
    body = b"""{"type":"message","role":"assistant","stop_reason":"tool_use","content":[
    {"type":"tool_use","id":"a","name":"add","input":{"x":[{"y":1,"y":2}]}},
    {"type":"tool_use","id":"b","name":"add","input":{"x":2}}]}"""
    reply = AnthropicProtocol().parse(body)
    assert [call.call_id for call in reply.calls if call.is_runnable] == ["b"]
    assert "twice" in str(reply.calls[0].error)


def test_half_a_message_is_told() -> None:
    """A stream that just stops is not taken for a short answer, nor for an empty one."""
    begun = [
        wire.start(),
        wire.begin(0, {"type": "text", "text": ""}),
        wire.delta(0, wire.text_delta("Half an")),
    ]
    reply = AnthropicProtocol().parse(begun)
    assert (reply.text, [each.error_type for each in reply.findings]) == ("Half an", ["truncated"])
    empty = AnthropicProtocol().parse([wire.start()])
    assert [each.level for each in empty.findings] == ["error"]
