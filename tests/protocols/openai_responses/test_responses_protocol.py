"""How does OpenAI's Responses API hear of tools, and what comes of its replies?"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai._models import construct_type_unchecked
from openai.types import responses as sdk

from tests.effort import share_of
from tests.protocols import wire_openai_responses as wire
from tool_engine.errors import ConfigurationError
from tool_engine.model.call import ToolCall, ToolExecutionResult
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.reply import ParsedReply, StreamEventType
from tool_engine.model.tool import Tool, ToolCategory
from tool_engine.protocols.openai_responses import OpenAIResponsesProtocol
from tool_engine.protocols.registry import get_protocol

FIXTURE = Path(__file__).parents[1] / "get_time" / "openai_responses.json"
GET_TIME = json.loads(FIXTURE.read_text("utf-8"))
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
CALL = ToolCall(call_id="call_1", tool_name="look_up", arguments={"a": 1})
OTHER = ToolCall(call_id="call_2", tool_name="other", arguments={"x": [None, "é"]})
ITEM = wire.function_call(CALL)


def parse(reply: Any, **options: Any) -> ParsedReply:
    return OpenAIResponsesProtocol(**options).parse(reply)


def one(reply: ParsedReply) -> ToolCall:
    (call,) = reply.calls
    return call


def kinds(reply: ParsedReply) -> list[tuple[str, str]]:
    return [(each.error_type, each.level) for each in reply.findings]


def what(reply: ParsedReply) -> list[Any]:
    return [(call.call_id, call.tool_name, call.arguments) for call in reply.calls]


def added(item: Any, place: Any = 0) -> dict[str, Any]:
    return wire.event("response.output_item.added", item=item, output_index=place)


def done(item: Any, place: Any = 0) -> dict[str, Any]:
    return wire.event("response.output_item.done", item=item, output_index=place)


def over(output: Any, status: str = "completed", **fields: Any) -> dict[str, Any]:
    whole = wire.response(output, status, **fields)
    return wire.event(f"response.{status}", response=whole)


def begun(item: dict[str, Any]) -> dict[str, Any]:
    return {**item, "arguments": "", "status": "in_progress"}


def at(item: dict[str, Any], place: int | None = 0) -> dict[str, Any]:
    return {"item_id": item.get("id"), "output_index": place}


def result(output: Any = None, **fields: Any) -> ToolExecutionResult:
    made = {"is_success": True, "tool_name": "look_up", "output": output or {"result": "ok"}}
    return ToolExecutionResult(**{**made, **fields})


def test_get_time() -> None:
    """D8, D22: the seed's exchange, as Responses writes it."""
    protocol = get_protocol("openai_responses")
    assert protocol.definitions([TOOL]) == GET_TIME["definitions"]
    reply = protocol.parse(GET_TIME["reply"])
    assert what(reply) == [("call_01", "getTime", {"offset_ms": -86400000})]
    assert reply.text == "为了告诉您昨天的日期，我需要获取昨天的时间戳。"
    assert reply.findings == []
    assert reply.message == GET_TIME["reply"]
    finished = [result({"result": "1684713600000"}, tool_name="getTime")]
    assert protocol.format_results(finished, reply.calls) == GET_TIME["results"]


def test_strict() -> None:
    """The API is strict unless it is told not to be: `strict` is always said, and as it is."""
    optional = ToolParameter("unit", "string", description="Which", validation={"min_length": 1})
    tool = msgspec.structs.replace(TOOL, parameters=[*TOOL.parameters, optional])
    anything = msgspec.structs.replace(TOOL, name="any", parameters=[ToolParameter("x", "any")])
    protocol = OpenAIResponsesProtocol(strict=True)
    kept, loose = protocol.definitions([tool, anything])
    assert (kept["strict"], loose["strict"]) == (True, False)
    assert kept["parameters"]["required"] == ["offset_ms", "unit"]
    assert wire.faults_of({"tools": [kept, loose], "input": []}) == []
    found = {
        (each.tool_name, each.error_type) for each in protocol.definition_findings([tool, anything])
    }
    assert ("any", "dropped") in found
    call = ToolCall(call_id="c", tool_name="getTime", arguments={"offset_ms": 1, "unit": None})
    for form in (wire.render_reply([call]), wire.render_stream([call])):
        reply = protocol.parse(form)
        assert one(reply).arguments == {"offset_ms": 1}
        assert json.loads(reply.message[0]["arguments"]) == call.arguments


def test_names() -> None:
    """A35: a name that the API refuses is sent in another spelling, and found back."""
    tool = msgspec.structs.replace(TOOL, name="时间.get")
    protocol = OpenAIResponsesProtocol()
    (described,) = protocol.definitions([tool])
    assert wire.NAME.fullmatch(described["name"])
    sent = msgspec.structs.replace(CALL, tool_name=described["name"])
    reply = protocol.parse(wire.render_stream([sent]))
    assert one(reply).tool_name == "时间.get"
    assert reply.message[0]["name"] == described["name"]


def as_sdk(event: dict[str, Any]) -> Any:
    return construct_type_unchecked(type_=cast("Any", sdk.ResponseStreamEvent), value=event)


def every_form(whole: dict[str, Any], events: list[dict[str, Any]]) -> list[Any]:
    raw = wire.sse(events)
    return [
        whole,
        json.dumps(whole),
        json.dumps(whole).encode(),
        construct_type_unchecked(type_=sdk.Response, value=whole),
        whole["output"],
        json.dumps(whole["output"]),
        events,
        iter(events),
        raw,
        raw.decode(),
        raw + b"data: [DONE]\n\n",
        [raw[place : place + 3] for place in range(0, len(raw), 3)],
        [as_sdk(event) for event in events],
    ]


def test_every_form_of_a_reply() -> None:
    """A13: the SDK's objects, mappings, JSON, bytes and streams say the same."""
    calls = [CALL, OTHER]
    whole = wire.render_reply(calls, "Let me see.")
    whole["output"].insert(0, wire.reasoning())
    for form in every_form(whole, wire.stream(whole["output"], whole)):
        reply = parse(form)
        assert what(reply) == [(c.call_id, c.tool_name, c.arguments) for c in calls]
        assert all(call.is_runnable for call in reply.calls)
        assert (reply.text, reply.reasoning) == ("Let me see.", "I need the time.")
        assert reply.findings == []
        assert reply.message == whole["output"]


def test_events_and_usage() -> None:
    """D16: a call's start, its parts, its end, once each although the server says all thrice."""
    decoder = OpenAIResponsesProtocol().decoder()
    events = [event for each in wire.render_stream([CALL], "Hi") for event in decoder.feed(each)]
    assert [event.type for event in events] == [
        StreamEventType.CONTENT_CHUNK,
        StreamEventType.TOOL_CALL_START,
        StreamEventType.TOOL_CALL_CHUNK,
        StreamEventType.TOOL_CALL_CHUNK,
        StreamEventType.TOOL_CALL_END,
    ]
    assert events[-1].tool_call_arguments_complete == '{"a": 1}'
    reply = decoder.close()
    assert reply is decoder.close()
    assert reply.stop_reason == "completed"
    assert reply.usage["total_tokens"] == 30


def test_interleaved_calls() -> None:
    """Deltas belong to the item whose id they carry, whatever comes between them."""
    one_item, other = ITEM, wire.function_call(OTHER)
    events = [
        added(begun(other), 1),
        added(begun(one_item), 0),
        wire.arguments_delta('{"x": ', **at(other, 1)),
        wire.arguments_delta('{"a": ', **at(one_item)),
        wire.arguments_delta('[null, "é"]}', **at(other, 1)),
        wire.arguments_delta("1}", **at(one_item)),
        done(other, 1),
        done(one_item, 0),
        over([one_item, other]),
    ]
    reply = parse(events)
    assert what(reply) == [("call_2", "other", {"x": [None, "é"]}), ("call_1", "look_up", {"a": 1})]
    assert [each["call_id"] for each in parse(events).message] == ["call_1", "call_2"]
    assert reply.findings == []


DELTA = wire.arguments_delta('{"a": 1}', **at(ITEM))
BARE = {key: value for key, value in ITEM.items() if key != "id"}
OBJECT = {**ITEM, "arguments": {"a": 1}}
LONE = {key: value for key, value in ITEM.items() if key not in ("id", "call_id")}


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([added(begun(ITEM)), done(ITEM), over([ITEM])], id="no deltas"),
        pytest.param([added(begun(ITEM)), DELTA, over([ITEM])], id="no done"),
        pytest.param([added(begun(ITEM)), DELTA, over([])], id="an empty output"),
        pytest.param([added(begun(ITEM)), DELTA, over(None)], id="no output"),
        pytest.param([over([ITEM])], id="only in the response"),
        pytest.param([done(ITEM), over([ITEM])], id="no added"),
        pytest.param([done(ITEM), done(ITEM), over([ITEM])], id="done twice"),
        pytest.param([added(begun(ITEM)), added(begun(ITEM)), DELTA, over([])], id="added twice"),
        pytest.param(
            [added(begun(ITEM)), wire.arguments_done('{"a": 1}', **at(ITEM)), over([])],
            id="only the arguments are done",
        ),
        pytest.param([added(ITEM), over([])], id="all in added"),
        pytest.param([added(ITEM), DELTA, done(ITEM), over([ITEM])], id="in added and in deltas"),
        pytest.param([added(begun(BARE)), DELTA, done(BARE), over([BARE])], id="no item ids"),
        pytest.param(
            [added(begun(BARE)), wire.arguments_delta('{"a": 1}', item_id="call_1"), over([BARE])],
            id="deltas under the id of the call",
        ),
        pytest.param(
            [
                added(begun(ITEM), None),
                wire.arguments_delta('{"a": 1}'),
                done(ITEM, None),
                over([ITEM]),
            ],
            id="no places",
        ),
        pytest.param(
            [added(begun(ITEM)), wire.arguments_delta('{"a": 1}', item_id=""), over([])],
            id="an empty id",
        ),
        pytest.param([added(begun(ITEM), 5), DELTA | {"output_index": 5}, over([ITEM])], id="gaps"),
        pytest.param(
            [added(begun(ITEM)), DELTA, done({**ITEM, "arguments": ""}), over([])], id="empty done"
        ),
        pytest.param(
            [added(begun(ITEM)), DELTA, done({**ITEM, "arguments": '{"a":1}'}), over([ITEM])],
            id="other spaces",
        ),
        pytest.param(
            [
                added(begun(ITEM)),
                wire.arguments_delta('{"a"', **at(ITEM)),
                done(ITEM),
                over([ITEM]),
            ],
            id="the last delta is lost",
        ),
        pytest.param([done({**ITEM, "arguments": {"a": 1}}), over([ITEM])], id="an object"),
        pytest.param([done(OBJECT), over([OBJECT])], id="an object twice"),
        pytest.param([done(LONE), over([LONE])], id="no ids at all"),
        pytest.param(
            [done({**LONE, "arguments": {"a": 1}}), over([{**LONE, "arguments": {"a": 1}}])],
            id="no ids, and objects",
        ),
        pytest.param(
            [added(ITEM), done({**ITEM, "arguments": None}), over([])], id="none when done"
        ),
        pytest.param(
            [
                added(begun({**ITEM, "name": None})),
                DELTA,
                wire.arguments_done('{"a": 1}', **at(ITEM)),
                done(ITEM),
                over([ITEM]),
            ],
            id="the name comes late",
        ),
        pytest.param(
            [
                added(begun({**ITEM, "name": None})),
                wire.arguments_done('{"a": 1}', **at(ITEM), name="look_up"),
                over([]),
            ],
            id="the name comes with the arguments",
        ),
    ],
)
def test_whatever_is_said_twice_or_not_at_all(events: list[Any]) -> None:
    """Every server leaves out something else: the call is there once, and it is whole."""
    for form in (events, wire.sse(events), [as_sdk(event) for event in events]):
        reply = parse(form)
        assert what(reply) == [("call_1", "look_up", {"a": 1})]
        assert one(reply).is_runnable
        assert one(reply).repairs == ()
        assert reply.findings == []
        results = OpenAIResponsesProtocol().format_results([result()], reply.calls)
        assert wire.faults_of({"input": [*reply.message, *results]}) == []


def test_another_id_in_the_whole_response() -> None:
    """vLLM gave a call another id in `response.completed`: it is one call, under the first id."""
    renamed = {**ITEM, "id": "fc_new", "call_id": "call_new"}
    for output in ([renamed], [wire.message("Hi"), renamed]):
        reply = parse([*wire.item_events(ITEM, 0), over(output)])
        assert what(reply) == [("call_1", "look_up", {"a": 1})]
        assert one(reply).is_runnable
        assert kinds(reply) == [("malformed_reply", "warning")]
    same_item = {**ITEM, "call_id": "call_new"}
    assert len(parse([*wire.item_events(ITEM, 0), over([same_item])]).calls) == 1


def test_equal_calls_are_several() -> None:
    """Two calls of the same tool with the same arguments are two calls, whatever their places."""
    twin = {**ITEM, "id": "fc_2", "call_id": "call_2"}
    for place in (1, 0):
        events = [*wire.item_events(ITEM, 0), *wire.item_events(twin, place)]
        for end in (over([ITEM, twin]), over([])):
            reply = parse([*events, end])
            assert [call.call_id for call in reply.calls] == ["call_1", "call_2"]
            assert all(call.is_runnable for call in reply.calls)
            assert reply.findings == []
    whole = [done(ITEM, 0), done(twin, 0), over([twin, ITEM])]
    assert [call.call_id for call in parse(whole).calls] == ["call_1", "call_2"]


def test_one_item_id_for_several_calls() -> None:
    """A server that gives every item one id: the calls are told apart by their own ids."""
    other = {**wire.function_call(OTHER), "id": ITEM["id"]}
    events = [added(begun(ITEM), 0), added(begun(other), 1), done(ITEM, 0), done(other, 1)]
    reply = parse([*events, over([other, ITEM])])
    assert what(reply) == [("call_1", "look_up", {"a": 1}), ("call_2", "other", OTHER.arguments)]
    assert all(call.is_runnable for call in reply.calls)


def rotated(value: Any, number: int) -> Any:
    """The same event with other ids of the response and of the items, as no other event has."""
    if isinstance(value, list):
        return [rotated(each, number) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: f"{each}_{number}" if key in ("id", "item_id") and each else rotated(each, number)
        for key, each in value.items()
    }


def test_ids_that_change_with_each_event() -> None:
    """GitHub Copilot gives the response and its items another id in each event: all is read.

    Looked at: texts, calls and reasoning side by side; only `response.created` begins another one.
    """
    items = [wire.reasoning(), wire.message("Hi."), ITEM, wire.function_call(OTHER)]
    events = wire.stream(items, wire.response(items))
    plain = parse(events)
    reply = parse([rotated(each, number) for number, each in enumerate(events)])
    assert [each.error_type for each in reply.findings if each.level == "error"] == []
    assert (reply.text, reply.reasoning, what(reply)) == (
        plain.text,
        plain.reasoning,
        what(plain),
    )
    assert all(call.is_runnable for call in reply.calls)


def test_a_beginning_that_comes_twice() -> None:
    """Before anything was said a second beginning takes nothing away; after that, it does."""
    first, *rest = wire.stream([ITEM], wire.response([ITEM]))
    again = rotated(first, 2)
    assert one(parse([first, again, *rest])).is_runnable
    late = parse([first, added(begun(ITEM)), again, *rest])
    assert ("malformed_reply", "error") in kinds(late)


@pytest.mark.parametrize("item", [wire.message("Hi."), wire.reasoning(), {"type": "compaction"}])
def test_a_stream_that_dies_behind_an_empty_item(item: dict[str, Any]) -> None:
    """What ended before it said anything is told to be cut, not to be empty."""
    events = wire.stream([item], wire.response([item]))
    place = next(n for n, each in enumerate(events) if each["type"].endswith("item.added"))
    reply = parse(events[: place + 1])
    assert kinds(reply) == [("truncated", "warning")]


@pytest.mark.parametrize("ids", [("fc_1", "fc_1"), ("fc_1", "fc_2"), (None, None)])
@pytest.mark.parametrize("second", ['{"a": 1}', '{"a": 2}'])
def test_a_call_that_is_sent_again(ids: tuple[Any, Any], second: str) -> None:
    """The same call under another item, or another place, is one call, and no argument is lost."""
    named = [{**ITEM, "id": each} for each in ids]
    items = [{key: value for key, value in each.items() if value is not None} for each in named]
    items[1]["arguments"] = second
    for form in (wire.response(items), wire.stream(items, wire.response(items))):
        reply = parse(form)
        assert [call.arguments for call in reply.calls] == [
            {"a": 1},
            *([{"a": 2}] if "2" in second else []),
        ]
        assert kinds(reply) == [("repeated_id", "warning")]


def test_a_repeated_id() -> None:
    """Every call has its own id, in the reply, in the message and for the results."""
    reply = parse(wire.response([ITEM, {**ITEM, "id": "fc_2", "arguments": '{"a": 2}'}, LONE]))
    assert [call.call_id for call in reply.calls] == ["call_1", "call_1_2", "call_3"]
    assert [each["call_id"] for each in reply.message] == ["call_1", "call_1_2", "call_3"]
    assert ("repeated_id", "warning") in kinds(reply)


def test_another_call_in_the_whole_response() -> None:
    """Where the stream and the whole response have other calls, nobody knows which counts."""
    changed = {**ITEM, "id": "fc_9", "call_id": "call_9", "arguments": '{"a": 9}'}
    reply = parse([*wire.item_events(ITEM, 0), over([changed])])
    assert [call.is_runnable for call in reply.calls] == [False, False]
    assert all("another call in its place" in str(call.error) for call in reply.calls)


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([added(begun(ITEM)), DELTA, done({**ITEM, "arguments": '{"a": 2}'})], "sent twice"),
        ([added(begun(ITEM)), DELTA, done({**ITEM, "arguments": "{'a"})], "sent twice"),
        ([added(begun(ITEM)), DELTA, done({**ITEM, "arguments": {"a": 2}})], "sent twice"),
        ([done(ITEM), done({**ITEM, "arguments": '{"a": 2}'})], "sent twice"),
        (
            [done({**ITEM, "arguments": {"a": 1}}), over([{**ITEM, "arguments": '{"a": 2}'}])],
            "sent twice",
        ),
        ([done(ITEM), wire.item_events(wire.message("x"), 1)[2], DELTA], "after its end"),
        ([added({**ITEM, "arguments": '{"a": 2}'}), DELTA], "sent twice"),
        ([added(begun(ITEM)), wire.arguments_delta(5, **at(ITEM))], "no text"),
        ([done({**ITEM, "arguments": [1]})], "must be a JSON object"),
        ([done({**ITEM, "arguments": "[1]"})], "must be a JSON object"),
        ([done({**ITEM, "arguments": '{"a": 1}{"a": 2}'})], "two objects"),
        ([done({**ITEM, "name": None})], "no tool name"),
        ([done({**ITEM, "status": "incomplete"})], "incomplete"),
        ([added(begun(ITEM))], "before its arguments began"),
        (
            [
                added(begun(ITEM)),
                done({**ITEM, "arguments": ""}),
                wire.arguments_delta('{"a": 1}', item_id="x"),
            ],
            "belong to no call",
        ),
    ],
)
def test_what_is_doubtful_is_not_run(events: list[Any], why: str) -> None:
    """U47: nothing is guessed and run; the model is told why, and the history stays acceptable."""
    reply = parse([*events, over([])])
    assert not one(reply).is_runnable
    assert one(reply).arguments == {}
    assert why in str(one(reply).error)
    assert "error" in {level for _, level in kinds(reply)}
    results = OpenAIResponsesProtocol().format_results([result()], reply.calls)
    assert wire.faults_of({"input": [*reply.message, *results]}) == []


def test_broken_parts_and_a_good_whole() -> None:
    """A delta that got lost in the middle: the whole counts, and the change is told."""
    events = [
        added(begun(ITEM)),
        wire.arguments_delta('{"a 1}', **at(ITEM)),
        done(ITEM),
        over([ITEM]),
    ]
    reply = parse(events)
    assert one(reply).arguments == {"a": 1}
    assert len(one(reply).repairs) == 1
    assert kinds(reply) == [("repaired", "warning")]
    assert reply.message[0]["arguments"] == '{"a": 1}'


def test_repaired_arguments() -> None:
    """What was repaired goes back as it was run: servers read it again."""
    reply = parse(wire.response([{**ITEM, "arguments": '```json\n{"a": 1}\n```'}]))
    assert one(reply).arguments == {"a": 1}
    assert len(one(reply).repairs) == 1
    assert reply.message[0]["arguments"] == '{"a": 1}'
    unread = parse(wire.response([{**ITEM, "arguments": '```json\n{"a": 1}\n```'}]), repair=False)
    assert not one(unread).is_runnable


def test_arguments_that_say_nothing() -> None:
    """No arguments, said so, are `{}`; it is written down."""
    reply = parse(wire.response([{**ITEM, "arguments": ""}]))
    assert one(reply).arguments == {}
    assert one(reply).is_runnable
    assert len(one(reply).repairs) == 1
    assert reply.message[0]["arguments"] == "{}"


@pytest.mark.parametrize("reason", ["max_output_tokens", "max_messages", None])
def test_a_cut_reply(reason: Any) -> None:
    """U47: the last call of a reply that a limit cut is never run, however whole it looks."""
    items = [ITEM, wire.function_call(OTHER)]
    whole = wire.cut(items, reason)
    for form in (whole, wire.stream(items, whole)):
        reply = parse(form)
        assert [call.is_runnable for call in reply.calls] == [True, False]
        assert [call.complete for call in reply.calls] == [True, False]
        assert reply.stop_reason == (reason or "incomplete")
        assert ("truncated", "error") in kinds(reply)
    half = {**ITEM, "arguments": '{"a": "b', "status": "incomplete"}
    assert kinds(parse(wire.cut([]))) == [("truncated", "warning")]
    for form in (wire.cut([half]), wire.stream([half], wire.cut([half]))):
        reply = parse(form)
        assert not one(reply).complete
        assert json.loads(reply.message[0]["arguments"]) == {"INVALID_JSON": '{"a": "b'}


def test_a_cut_behind_a_late_text() -> None:
    """A text that only the whole response has does not make the call after it whole."""
    items = [wire.message("Hi"), {**ITEM, "status": None}]
    end = wire.event("response.incomplete", response=wire.cut(items))
    reply = parse([added(begun(ITEM), 1), DELTA, end])
    assert reply.text == "Hi"
    assert not one(reply).is_runnable


def test_a_content_filter() -> None:
    """What a filter stopped is said, and what it cut is not run."""
    half = {**ITEM, "arguments": '{"a": 1}', "status": "in_progress"}
    events = [
        added(begun(ITEM)),
        DELTA,
        wire.event("response.incomplete", response=wire.cut([half], "content_filter")),
    ]
    reply = parse(events)
    assert not one(reply).is_runnable
    assert ("refusal", "error") in kinds(reply)
    assert reply.stop_reason == "content_filter"
    behind = added(begun(wire.function_call(OTHER)), 1)
    end = wire.event("response.incomplete", response=wire.cut([], "content_filter"))
    both = parse([added(begun(ITEM)), DELTA, behind, end]).calls
    assert [call.is_runnable for call in both] == [False, False]


@pytest.mark.parametrize(
    "end",
    [
        over([ITEM], "failed", error={"code": "server_error", "message": "Overloaded"}),
        over([ITEM], "cancelled", error={"message": "Overloaded"}),
        wire.event("error", code="server_error", message="Overloaded", param=None),
        wire.event("error", error={"type": "server_error", "message": "Overloaded"}),
        {"error": {"code": "server_error", "message": "Overloaded"}},
        ValueError("Overloaded"),
    ],
)
def test_an_error(end: Any) -> None:
    """Who asks again would run the calls twice: a reply that failed runs none."""
    reply = parse([added(begun(ITEM)), DELTA, done(ITEM), end])
    assert not one(reply).is_runnable
    assert one(reply).complete
    assert "Overloaded" in str(one(reply).error)
    assert ("malformed_reply", "error") in kinds(reply)
    whole = end["response"] if isinstance(end, dict) and "response" in end else end
    assert ("malformed_reply", "error") in kinds(parse(whole))
    after = parse([over([ITEM]), wire.event("error", message="late")])
    assert one(after).is_runnable
    assert kinds(after) == [("malformed_reply", "error")]


def test_no_end() -> None:
    """A lost connection: what the provider ended, or what is a closed object, is whole."""
    other = wire.function_call(OTHER)
    events = [done(ITEM), added(begun(other), 1), wire.arguments_delta('{"x": [', **at(other, 1))]
    reply = parse(events)
    assert [call.is_runnable for call in reply.calls] == [True, False]
    assert [call.complete for call in reply.calls] == [True, False]
    assert ("truncated", "warning") in kinds(reply)
    assert one(parse([added(begun(ITEM)), DELTA])).is_runnable
    for status in ("in_progress", "queued", None):
        reply = parse(wire.response([ITEM], status))
        assert one(reply).is_runnable
        assert kinds(reply) == [("truncated", "warning")]


def test_texts_are_told_once() -> None:
    """A text in deltas, in a part, in an item and in the response is one text."""
    item = wire.message("Hello")
    delta = wire.event(
        "response.output_text.delta", delta="Hel", item_id="msg_1", output_index=0, content_index=0
    )
    for events in (
        [over([item])],
        [done(item), over([item])],
        [added({**item, "content": []}), delta, done(item), over([item])],
        [delta, done(item), over([item])],
        [delta, {**delta, "delta": "lo"}, over([])],
        [
            {**delta, "content_index": None, "output_index": None},
            {**delta, "delta": "lo"},
            over([]),
        ],
        [{"role": "assistant", "content": "Hello"}],
        [{"role": "assistant", "content": [{"type": "output_text", "text": "Hello"}]}],
    ):
        reply = parse(events)
        assert reply.text == "Hello"
        assert reply.findings == []
        assert reply.message[0]["content"][0]["text"] == "Hello"
    changed = parse(
        [delta, done(item | {"content": [{"type": "output_text", "text": "Bye"}]}), over([])]
    )
    assert changed.text == "Hel"
    assert kinds(changed) == [("malformed_reply", "warning")]


def test_a_conversation() -> None:
    """Of a conversation, what the model said last is the reply."""
    asked = {"role": "user", "content": "Hi"}
    answer = {"type": "function_call_output", "call_id": "call_0", "output": "x"}
    reply = parse([asked, wire.function_call(OTHER), answer, wire.message("Hello"), ITEM])
    assert what(reply) == [("call_1", "look_up", {"a": 1})]
    assert reply.text == "Hello"
    assert kinds(reply) == [("skipped", "warning")]
    assert parse([asked, ITEM, answer]).calls == []


def test_a_refusal() -> None:
    """What the model refuses is no text for the user."""
    part = {"type": "refusal", "refusal": "I cannot help."}
    item = wire.message("", content=[part])
    for form in (wire.response([item]), wire.stream([item], wire.response([item]))):
        reply = parse(form)
        assert (reply.refusal, reply.text) == ("I cannot help.", "")
        assert kinds(reply) == [("refusal", "error")]
        assert reply.message[0]["content"] == [part]
    odd = wire.event("response.refusal.delta", delta="No.", item_id="msg_1")
    changed = parse([odd, done(item), over([])])
    assert changed.refusal == "No."


def test_reasoning_goes_back() -> None:
    """Reasoning with its encrypted content goes back; without it only an id that is stored."""
    thought = wire.reasoning(status="completed")
    sent = wire.reasoning()
    assert parse(wire.response([thought, ITEM])).message == [sent, ITEM]
    bare = wire.reasoning(encrypted_content=None)
    assert "encrypted_content" not in parse(wire.response([bare, ITEM])).message[0]
    assert parse(wire.response([bare, ITEM], store=False)).message == [ITEM]
    assert parse(wire.response([thought, ITEM], store=False)).message == [sent, ITEM]
    # The API refuses reasoning that nothing follows, and half of it is of no use.
    assert parse(wire.cut([thought])).message == []
    unfinished = [added(thought, 0), done(ITEM, 1), over([])]
    assert parse(unfinished).message == [ITEM]


def test_thoughts_in_parts() -> None:
    """Summaries and open reasoning are shown, whichever way they come."""
    kind = "response.reasoning_summary_text.delta"
    parts = [
        wire.event(kind, delta=text, item_id="rs_1", output_index=0, summary_index=place)
        for place, text in ((0, "One"), (0, "."), (1, "Two."))
    ]
    opened = wire.event(
        "response.reasoning_text.delta",
        delta="Three.",
        item_id="rs_1",
        output_index=0,
        content_index=0,
    )
    reply = parse([*parts, opened, over([])])
    assert reply.reasoning == "One.\n\nTwo.\n\nThree."
    assert reply.text == ""


HOSTED = [
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}},
    {
        "type": "mcp_call",
        "id": "mcp_1",
        "name": "look_up",
        "arguments": '{"a": 1}',
        "server_label": "s",
    },
    {
        "type": "code_interpreter_call",
        "id": "ci_1",
        "status": "completed",
        "code": "1",
        "outputs": None,
    },
]


def test_what_the_provider_runs_is_no_call() -> None:
    """Hosted tools are run by the provider: their items are kept, and never run here."""
    events = [
        each
        for place, item in enumerate(HOSTED)
        for each in (added(item, place), done(item, place))
    ]
    for form in (wire.response(HOSTED), [*events, over(HOSTED)]):
        reply = parse(form)
        assert reply.calls == []
        assert reply.message == HOSTED
        assert reply.findings == []


@pytest.mark.parametrize("kind", ["custom_tool_call", "computer_call", "mcp_approval_request"])
def test_what_somebody_else_has_to_answer(kind: str) -> None:
    """The next request fails unless the program answers such an item: so it is told."""
    item = {"type": kind, "id": "x_1", "call_id": "call_1", "name": "look_up", "input": "text"}
    for form in (wire.response([item]), [added(item), done(item), over([item])]):
        reply = parse(form)
        assert reply.calls == []
        assert reply.message == [item]
        assert kinds(reply) == [("skipped", "error")]


def test_what_the_sdk_adds_is_not_sent() -> None:
    """Fields that only the SDK or the answer knows make the next request fail."""
    parsed = {**ITEM, "parsed_arguments": {"a": 1}, "created_by": "x"}
    text = wire.message("Hi")
    text["content"][0] |= {"parsed": {"x": 1}, "annotations": None}
    reply = parse(wire.response([text, parsed, wire.message("") | {"content": []}]))
    assert reply.message == [wire.message("Hi"), ITEM]
    broken = [wire.message("x", content=5), wire.message("x", content=[5, {"type": "output_text"}])]
    assert parse(wire.response([broken[0]])).message == []
    assert parse(wire.response(broken)).text == ""
    odd = wire.message("Hi", status=None)
    assert parse(wire.response([odd])).message[0]["status"] == "completed"


@pytest.mark.parametrize(("written", "sent"), [("foo.bar é", "foo_bar__"), ("x" * 90, "x" * 64)])
def test_names_in_the_history(written: str, sent: str) -> None:
    """A name that a model made up must not make the next request fail."""
    reply = parse(wire.response([{**ITEM, "name": written}]))
    assert reply.message[0]["name"] == sent
    assert one(reply).tool_name == written


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        5,
        [],
        "no stream",
        {},
        {"output": 5},
        {"type": 7},
        {"choices": []},
        {"role": "user", "content": "hello"},
        {"output": [None]},
        [done(None)],
        [added({"id": "x"})],
        [DELTA],
        [wire.arguments_done("{}", item_id="x")],
        [wire.event("response.output_text.delta", delta=5)],
        [wire.event("response.function_call_arguments.delta", delta=5)],
        b'data: {"type": "response.output_item.added", "ite\n\n',
    ],
)
def test_garbage(wrong: Any) -> None:
    """Whatever a server sends ends as a finding, not as an exception."""
    reply = parse(wrong)
    assert ("malformed_reply", "error") in kinds(reply)
    assert reply.calls == []


def test_the_wrong_protocol() -> None:
    """Who passes a reply of Chat Completions is told so."""
    assert "one of the protocol 'openai'" in parse({"choices": []}).findings[0].message


def test_quiet() -> None:
    """Signs of life, events to come, and what says nothing are no findings."""
    quiet = [
        {"type": "keepalive"},
        wire.event("response.brand_new", delta=5),
        wire.event("response.created", response=wire.response([])),
        wire.event("response.queued"),
        added(None),
        wire.arguments_delta(""),
        wire.arguments_done(""),
        wire.event("response.output_text.delta", delta=""),
        wire.event("response.output_text.delta", delta=None),
        wire.event("response.done", response=wire.response([], None)),
    ]
    assert parse(quiet).findings == []


def test_what_comes_after_the_end() -> None:
    """Nothing of it is read, and it is told once."""
    late = [added(begun(wire.function_call(OTHER)), 1), over([]), ITEM, wire.render_reply([OTHER])]
    reply = parse([over([ITEM])]).calls + parse([over([ITEM]), *late]).calls
    assert [call.call_id for call in reply] == ["call_1", "call_1"]
    assert kinds(parse([over([ITEM]), *late])) == [("malformed_reply", "error")]
    fresh = wire.event("response.created", response={**wire.response([]), "id": "resp_2"})
    first = wire.event("response.created", response=wire.response([]))
    second = parse([first, added(begun(ITEM)), fresh, DELTA, over([ITEM])])
    assert not one(second).is_runnable
    assert ("malformed_reply", "error") in kinds(second)


def test_a_lost_part() -> None:
    """Where a part of the stream is lost, the call around it is not run."""
    raw = wire.sse([added(begun(ITEM)), DELTA]).replace(b'"delta": "', b'"delta: "')
    assert not one(parse(raw + wire.sse([over([])]))).is_runnable
    lost = wire.sse([added(begun(ITEM)), DELTA]) + b'data: {"type": \n\n' + wire.sse([over([])])
    assert not one(parse(lost)).is_runnable
    deep: Any = 1
    for _ in range(3_000):
        deep = [deep]
    held = parse(wire.response([{"type": "new_call", "x": deep}]))
    assert ("malformed_reply", "error") in kinds(held)


@pytest.mark.parametrize(
    "lost",
    [
        wire.arguments_delta(2, **at(ITEM)),
        wire.arguments_delta("2", item_id="x"),
        {"delta": "2", "item_id": "fc_call_1"},
        5,
    ],
)
def test_a_lost_part_in_the_middle(lost: Any) -> None:
    """What is left of the arguments may be an object, and yet not what was meant."""
    first, last = (wire.arguments_delta(part, **at(ITEM)) for part in ('{"a": 1', "3}"))
    assert not one(parse([added(begun(ITEM)), first, lost, last, over([])])).is_runnable
    assert one(parse([added(begun(ITEM)), first, last, over([])])).arguments == {"a": 13}


def test_a_status_that_is_no_text() -> None:
    """A server that says anything but a text of the status is not believed to be done."""
    reply = parse(wire.response([ITEM], {"odd": 1}))  # type: ignore[arg-type]
    assert kinds(reply) == [("malformed_reply", "warning")]


def test_halves_of_letters() -> None:
    """Half of a surrogate pair can be read, run and sent again."""
    reply = parse(wire.response([wire.message("\ud83d"), {**ITEM, "arguments": '{"a": "\ud83d"}'}]))
    assert one(reply).arguments == {"a": "\ud83d"}
    json.dumps(reply.message, ensure_ascii=False).encode()


def test_what_the_result_of_a_call_says_again() -> None:
    """Where a program of the provider's called, or a namespace is named, the output says so too."""
    caller = {"type": "program", "caller_id": "prog_1"}
    item = {**ITEM, "caller": caller, "namespace": "crm"}
    other = wire.function_call(OTHER, caller=None)
    items = [item, other]
    for form in (wire.response(items), wire.stream(items, wire.response(items))):
        reply = parse(form)
        told = OpenAIResponsesProtocol().format_results([result(), result()], reply.calls)
        assert (told[0]["caller"], told[0]["namespace"]) == (caller, "crm")
        assert told[1].keys() == {"type", "call_id", "output"}
        assert wire.faults_of({"input": [*reply.message, *told]}) == []


def test_results() -> None:
    """R7: one item for each result, in order, with images as content."""
    calls = [msgspec.structs.replace(CALL, call_id=f"c{place}") for place in range(5)]
    image = {"type": "image", "data": "aW1n", "mimeType": "image/png"}
    results = [
        result(),
        result(
            is_success=False, error="no such file; check the path", error_type="execution_error"
        ),
        result({"content": [{"type": "text", "text": "See"}, image]}),
        result({"result": ""}),
        result({"content": [{**image, "mimeType": "image/bmp"}]}),
    ]
    items = OpenAIResponsesProtocol().format_results(results, calls)
    assert [(item["type"], item["call_id"]) for item in items] == [
        ("function_call_output", call.call_id) for call in calls
    ]
    assert [item["output"] for item in items[:4]] == [
        "ok",
        "Error (execution_error): no such file; check the path",
        [
            {"type": "input_text", "text": "See"},
            {"type": "input_image", "image_url": "data:image/png;base64,aW1n", "detail": "auto"},
        ],
        "",
    ]
    assert "image/bmp" in items[4]["output"]
    assert OpenAIResponsesProtocol().format_results([]) == []
    with pytest.raises(ConfigurationError, match="does not say which call"):
        OpenAIResponsesProtocol().format_results([result()])


@settings(max_examples=share_of(30), deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                *wire.item_events(wire.message("é🙂"), 0),
                *wire.item_events(ITEM, 1),
                *wire.item_events(wire.function_call(OTHER), 0),
                over([ITEM]),
                added(None),
                done(None),
                wire.event("error", message="x"),
            ]
        ),
        min_size=1,
        max_size=12,
    ),
    st.lists(st.integers(0, 4000), max_size=8),
)
def test_any_order_of_events_however_cut(events: list[Any], cuts: list[int]) -> None:
    """Events in any order are read without an exception, and the same however they are cut."""
    raw = wire.sse(events)
    ends = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    whole = parse(events)
    assert parse([raw[a:b] for a, b in itertools.pairwise(ends)]) == whole
    assert parse(raw) == whole
    assert len({call.call_id for call in whole.calls}) == len(whole.calls) <= 3


def test_half_a_response_is_told() -> None:
    """A stream that just stops is not taken for a short answer, nor for an empty one."""
    events = wire.render_stream([], "Half an answer")
    cut = next(n for n, each in enumerate(events) if each["type"].endswith("text.delta")) + 1
    reply = OpenAIResponsesProtocol().parse(events[:cut])
    assert reply.text
    assert [each.error_type for each in reply.findings] == ["truncated"]
    empty = OpenAIResponsesProtocol().parse(events[:1])
    assert [each.level for each in empty.findings] == ["error"]


def test_arguments_of_two_calls_in_one_place() -> None:
    """U47: whose arguments they are is told by an id; by a place that two calls share, not."""
    calls = [ToolCall(call_id=each, tool_name=each, arguments={}) for each in "ab"]
    begun = [
        wire.event("response.output_item.added", output_index=0, item=item)
        for item in (wire.function_call(each, arguments="", status="in_progress") for each in calls)
    ]
    placed = wire.arguments_delta('{"x": 1}', output_index=0)
    known = wire.arguments_delta('{"x": 1}', output_index=0, item_id="fc_b")
    end = wire.event("response.completed", response=wire.response([]))
    for delta, run in ((placed, []), (known, ["b"])):
        reply = OpenAIResponsesProtocol().parse([*begun, delta, end])
        assert [each.call_id for each in reply.calls if each.is_runnable] == run
