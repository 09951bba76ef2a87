"""Gemini's streams: server-sent events, a JSON array, and arguments that come piece by piece."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import share_of
from tests.protocols.gemini.test_gemini_protocol import TOOL
from tests.protocols.wire_gemini import (
    as_array,
    as_events,
    call_part,
    chunk,
    render_stream,
    streamed_text,
)
from tool_engine.model.call import ToolCall
from tool_engine.model.reply import ParsedReply, StreamEventType
from tool_engine.protocols.gemini import GeminiProtocol

CALLS = [
    ToolCall(call_id="a", tool_name="getTime", arguments={"说": '"}]{[\\\u2028', "n": [1.5, None]}),
    ToolCall(call_id="b", tool_name="getTime", arguments={}),
]
CHUNKS = render_stream(CALLS, "Grüße 始 🙂 all")


def streamed(**call: Any) -> dict[str, Any]:
    return chunk([{"functionCall": call}])


def piece(path: str, value: Any, *, goes_on: bool | None = None) -> dict[str, Any]:
    # On the wire, the value of `nullValue` is null.
    kinds = {str: "stringValue", bool: "boolValue", type(None): "nullValue"}
    made = {"jsonPath": path, kinds.get(type(value), "numberValue"): value}
    return made if goes_on is None else {**made, "willContinue": goes_on}


BEGIN = streamed(name="getTime", willContinue=True)
END = streamed()
DONE = chunk([], "STOP")


def decoded(chunks: Sequence[Any]) -> ParsedReply:
    decoder = GeminiProtocol(tools=[TOOL]).decoder()
    for each in chunks:
        decoder.feed(each)
    return decoder.close()


@pytest.mark.parametrize("form", [as_events, as_array])
@settings(max_examples=share_of(15), deadline=None)
@given(data=st.data())
def test_a_stream_cut_anywhere(form: Any, data: st.DataObject) -> None:
    """D10: events and the array of a stream without `alt=sse` say what the SDK's chunks say."""
    whole = decoded([types.GenerateContentResponse.model_validate(each) for each in CHUNKS])
    assert [(call.call_id, call.arguments) for call in whole.calls] == [
        (call.call_id, call.arguments) for call in CALLS
    ]
    assert whole.text == "Grüße 始 🙂 all"
    assert whole.findings == []
    raw = form(CHUNKS)
    cuts = data.draw(st.sets(st.integers(1, len(raw) - 1), max_size=20))
    ends = [0, *sorted(cuts), len(raw)]
    for text in (raw, raw.decode()):
        shown = [text[begin:end] for begin, end in itertools.pairwise(ends)]
        assert decoded(shown) == (whole if text is raw else decoded([text]))
    assert decoded([raw[place : place + 1] for place in range(len(raw))]) == whole
    assert decoded(["\n ", raw]) == whole


@pytest.mark.parametrize("form", [as_events, as_array])
def test_a_stream_that_breaks_off(form: Any) -> None:
    """Promise 1: of a stream cut at any byte, only calls that came whole are run."""
    raw = form(CHUNKS)
    meant = [call.arguments for call in CALLS]
    for end in range(0, len(raw), 3):
        reply = decoded([raw[:end]])
        ran = [call.arguments for call in reply.calls if call.is_runnable]
        assert ran == meant[: len(ran)]
        assert reply.stop_reason in (None, "STOP")
        assert reply.findings or reply.stop_reason or not reply.calls


def test_events() -> None:
    """D16: text in chunks, each call with a start, its arguments and an end."""
    decoder = GeminiProtocol(tools=[TOOL]).decoder()
    told = [event for each in CHUNKS for event in decoder.feed(each)]
    kinds = StreamEventType
    begin, chunks, end = kinds.TOOL_CALL_START, kinds.TOOL_CALL_CHUNK, kinds.TOOL_CALL_END
    assert [e.type for e in told if e.tool_call_id == "a"] == [begin, chunks, end]
    assert [e.type for e in told if e.tool_call_id == "b"] == [begin, chunks, end]
    assert json.loads(told[-1].tool_call_arguments_complete or "") == {}
    texts = [event.content or "" for event in told if event.type is kinds.CONTENT_CHUNK]
    assert "".join(texts) == "Grüße 始 🙂 all"
    assert decoder.close() is decoder.close()


def test_every_chunk_may_say_stop() -> None:
    """Older models say STOP in every chunk: what comes behind it counts all the same."""
    parts = [{"text": "a"}, {"functionCall": {"name": "getTime"}}, {"text": "b"}]
    reply = decoded([chunk([part], "STOP") for part in parts])
    assert (reply.text, reply.findings) == ("ab", [])
    assert [call.is_runnable for call in reply.calls] == [True]


def test_an_error_in_the_stream() -> None:
    """An error in the middle is a finding, and no call is run: who asks again gets them again."""
    error = {"error": {"code": 503, "message": "overloaded"}}
    half = streamed(name="getTime", partialArgs=[piece("$.a", 1)], willContinue=True)
    reply = decoded([as_events([CHUNKS[-3], half, error])])
    assert [call.is_runnable for call in reply.calls] == [False, False]
    assert ("malformed_reply", "error") in [(e.error_type, e.level) for e in reply.findings]
    between = decoded([as_events([half]) + b"data: {broken\n\n" + as_events([END, DONE])])
    assert [call.is_runnable for call in between.calls] == [False]
    raw = b"[" + json.dumps(CHUNKS[-3]).encode() + b", what, ever " + as_array([DONE])[1:]
    for size in (1, 7, len(raw)):
        junk = decoded([raw[at : at + size] for at in range(0, len(raw), size)])
        assert [call.is_runnable for call in junk.calls] == [True]
        assert [each.error_type for each in junk.findings] == ["malformed_reply"]
        assert "what, ever" in junk.findings[0].message


def test_streamed_arguments() -> None:
    """Vertex AI: values come with their places, texts in pieces, and an empty call ends it."""
    pieces = [
        [piece("$.place.city", "Bos", goes_on=True)],
        [piece("$.place.city", "ton", goes_on=True)],
        [piece("$.place.city", ", MA"), piece("$.days[0].n", 1.0), piece("$.days[1].n", 2)],
        [{"jsonPath": "$.u", "willContinue": True}, piece("$.u", "v", goes_on=True)],
        [{"jsonPath": "$.u"}],
        [piece("$['odd key'][\"it's\"]", False), piece("$.no", None), piece("$.t", "")],
    ]
    middle = [streamed(partialArgs=each, willContinue=True) for each in pieces]
    signed = chunk([{"functionCall": BEGIN_CALL, "thoughtSignature": "QUJD"}])
    expected = {
        "place": {"city": "Boston, MA"},
        "days": [{"n": 1.0}, {"n": 2}],
        "odd key": {"it's": False},
        "no": None,
        "t": "",
        "u": "v",
    }
    as_objects = [
        types.GenerateContentResponse.model_validate(each) for each in [signed, *middle, END, DONE]
    ]
    for chunks in ([signed, *middle, END, DONE], [as_events([signed, *middle, END, DONE])]):
        reply = decoded(chunks)
        assert [(call.arguments, call.is_runnable) for call in reply.calls] == [(expected, True)]
        assert reply.findings == []
    for odd in (as_objects, [each.model_dump() for each in as_objects]):
        assert decoded(odd).calls[0].arguments == expected
    (content,) = reply.message
    assert content["parts"] == [
        {"functionCall": {"name": "getTime", "args": expected}, "thoughtSignature": "QUJD"}
    ]


BEGIN_CALL = {"name": "getTime", "willContinue": True}
NAMED_END = streamed(name="getTime")


def test_the_end_of_a_streamed_call() -> None:
    """A call ends when it does not go on, under its name again or without; a new one is new."""
    value = [piece("$.offset_ms", 5)]
    named = streamed(name="getTime", partialArgs=value, willContinue=False)
    for chunks in ([BEGIN, named], [BEGIN, streamed(partialArgs=value)], [named]):
        for ending in ([DONE], [END, DONE]):
            reply = decoded([*chunks, *ending])
            assert [call.arguments for call in reply.calls] == [{"offset_ms": 5}]
            assert reply.calls[0].is_runnable
    reply = decoded([BEGIN, named, named, END, END, DONE])
    assert [call.is_runnable for call in reply.calls] == [True, True, False]
    again = decoded([BEGIN, BEGIN, streamed(name="getTime", partialArgs=value), DONE])
    assert [call.is_runnable for call in again.calls] == [False, True]
    ended = decoded([BEGIN, streamed(partialArgs=value, willContinue=True), NAMED_END, DONE])
    assert [(call.arguments, call.is_runnable) for call in ended.calls] == [
        ({"offset_ms": 5}, True)
    ]
    whole = streamed(name="getTime", args={"offset_ms": 6})
    other = decoded([BEGIN, streamed(partialArgs=value, willContinue=True), whole, DONE])
    assert [call.is_runnable for call in other.calls] == [False, True]
    late = chunk([{"functionCall": {"args": {"a": 1}}, "thoughtSignature": "QQ=="}])
    reply = decoded([BEGIN, late, DONE])
    assert reply.calls[0].arguments == {"a": 1}
    assert reply.message[0]["parts"][0]["thoughtSignature"] == "QQ=="
    empty = decoded([BEGIN, END, DONE])
    assert [(call.arguments, call.is_runnable) for call in empty.calls] == [({}, True)]


@pytest.mark.parametrize("ending", [[DONE], [chunk([], "MAX_TOKENS")], [], [CHUNKS[-3], DONE]])
def test_a_streamed_call_that_was_never_ended(ending: list[Any]) -> None:
    """U47: arguments of which more was to come are half of what was meant: not run."""
    more = streamed(partialArgs=[piece("$.offset_ms", 5)], willContinue=True)
    for begun in ([BEGIN], [BEGIN, more]):
        reply = decoded([*begun, *ending])
        assert not reply.calls[0].complete
        assert not reply.calls[0].is_runnable
        assert any(each.level == "error" for each in reply.findings)
        assert all(call.is_runnable for call in reply.calls[1:])
        types.Content.model_validate(reply.message[0])


@pytest.mark.parametrize(
    "pieces",
    [
        [piece("$.a", "x", goes_on=True)],
        [piece("$.a", "x"), piece("$.a", "y")],
        [piece("$.a", 1), piece("$.a", 2)],
        [piece("$.a", 1), piece("$.a.b", 2)],
        [piece("$.a.b", 1), piece("$.a[0]", 2)],
        [piece("$.a[1000000000]", 1)],
        [piece("$.a[999999999999999999].b", 1)],
        [piece("$.a[1].b", 1)],
        [piece("$.a[0][0]", 1), piece("$.a[0].b", 1), piece("$.a.b.c", 1)],
        [piece("$.a", {}), piece("$.a.b", 1)],
        [piece("$", 1)],
        [piece("$[0]", 1)],
        [piece("a", 1)],
        [piece("$.", 1)],
        [piece("$" + ".a" * 101, 1)],
        [{"jsonPath": "$.a"}, {"jsonPath": "$.a"}],
        [{"jsonPath": "$.a", "willContinue": True}],
        [{"jsonPath": "$.a", "stringValue": "x", "numberValue": 1}],
        [{"jsonPath": "$.a", "stringValue": {}}, {"stringValue": "x"}],
        [{}],
        [None],
        [3],
    ],
)
def test_pieces_that_cannot_be_placed(pieces: list[Any]) -> None:
    """Promise 1: a piece without a place of its own is no guess: the call is not run."""
    reply = decoded([BEGIN, streamed(partialArgs=pieces, willContinue=True), END, DONE])
    (call,) = reply.calls
    assert not call.is_runnable
    assert ("malformed_arguments", "error") in [(e.error_type, e.level) for e in reply.findings]


def test_nested_lists() -> None:
    """Places in lists of lists, and later places of a list, are found."""
    pieces = [piece("$.a[0][0]", 1), piece("$.a[0][1]", 2), piece("$.a[1][0]", 3)]
    (call,) = decoded([BEGIN, streamed(partialArgs=pieces), DONE]).calls
    assert call.arguments == {"a": [[1, 2], [3]]}


@pytest.mark.parametrize("depth", [50, 505, 600, 5000])
def test_arguments_nested_deep(depth: int) -> None:
    """D18: what nests too deep to be copied or sent is refused, and breaks nothing."""
    text = '{"candidates": [{"content": {"parts": [{"functionCall": {"name": "getTime", "args": '
    raw = text + '{"a":' * depth + "1" + "}" * depth + '}}]}, "finishReason": "STOP"}]}'
    reply = decoded([raw])
    assert [call.is_runnable for call in reply.calls] == {50: [True], 505: [False]}.get(depth, [])
    assert bool(reply.findings) is (depth > 50)
    json.dumps(reply.message)
    value: Any = 1
    for _ in range(depth):
        value = [value]
    for odd in (value, chunk([{"executableCode": value}]), {"x": value}, chunk([{"text": value}])):
        json.dumps(decoded([odd, DONE]).message)


# Python 3.11 cannot send 498 levels again; newer ones can.
@pytest.mark.parametrize("depth", [*([498] if sys.version_info < (3, 12) else []), 600, 5000])
def test_a_reply_nested_deep_says_what_to_do(depth: int) -> None:
    """U47: the model is told how to write it, not how Python fails."""
    args: Any = 1
    for _ in range(depth):
        args = {"a": args}
    reply = decoded([chunk([{"functionCall": {"name": "getTime", "args": args}}]), DONE])
    told = " ".join(each.message for each in reply.findings)
    assert "cannot be read: it nests too deep; write it flatter" in told
    assert "ecursion" not in told


def test_long_and_hostile_streams() -> None:
    """Arguments in 4-byte pieces, and hostile bytes, take linear time: quadratic is minutes."""
    text = "abcd" * 5_000
    pieces = [
        streamed(partialArgs=[piece("$.text", text[at : at + 4], goes_on=True)], willContinue=True)
        for at in range(0, len(text), 4)
    ]
    last = streamed(partialArgs=[piece("$.text", "")], willContinue=False)
    reply = decoded([BEGIN, *pieces, last, DONE])
    assert reply.calls[0].arguments == {"text": text}
    one = json.dumps(chunk([{"functionCall": {"name": "getTime", "args": {"t": text}}}], "STOP"))
    array = f"[{one}]"
    sliced = decoded([array[at : at + 4] for at in range(0, len(array), 4)])
    assert sliced.calls[0].arguments == {"t": text}
    for hostile in ("[" * 100_000, '{"a":' * 50_000, "[{}" * 5_000, "x" * 300_000, '{"' * 50_000):
        assert decoded([hostile]).calls == []


GARBAGE: list[Any] = [
    {"candidates": "oops"},
    {"candidates": ["oops"]},
    {"candidates": [{"content": "oops"}]},
    {"candidates": [{"content": {"parts": ["oops"]}}]},
    {"candidates": [{"content": {"parts": [{"functionCall": "oops"}]}}]},
    {"candidates": [{"content": {"parts": [{"text": 5}]}}]},
    {"oops": 1},
    5,
]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_a_call_that_may_lack_a_piece_is_not_run(garbage: Any) -> None:
    """U47: what cannot be read between the pieces of a call may have been one of them."""
    first, *rest = streamed_text("find", ["ab", "cd"])
    whole = GeminiProtocol().parse([first, *rest])
    assert [call.is_runnable for call in whole.calls] == [True]
    reply = GeminiProtocol().parse([first, garbage, *rest])
    assert [call.is_runnable for call in reply.calls] == [False]


def test_no_call_of_a_reply_that_broke_off_is_run() -> None:
    """Who gets an error asks again, and would run its calls twice; after the end it says nothing
    of them."""
    call = call_part(ToolCall(call_id="a", tool_name="find", arguments={}))
    error = {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}
    broken = GeminiProtocol().parse([chunk([call]), error])
    assert [each.is_runnable for each in broken.calls] == [False]
    assert "broke the reply off" in str(broken.calls[0].error)
    late = GeminiProtocol().parse([chunk([call], "STOP"), error])
    assert [each.is_runnable for each in late.calls] == [True]
    assert "overloaded" in late.findings[-1].message


def test_a_call_in_both_spellings_is_not_dropped() -> None:
    """A part with two calls is refused, and not read as the second of them."""
    both = {"functionCall": {"name": "getTime"}, "function_call": {"name": "other"}}
    reply = GeminiProtocol().parse(chunk([both], "STOP"))
    assert [call for call in reply.calls if call.is_runnable] == []
    assert "'functionCall' and 'function_call'" in reply.findings[0].message
