"""Streams of Chat Completions: cut anywhere, ended in every way, and as servers write them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from tests.effort import share_of
from tests.protocols.wire_openai import chunk, fragment, render_reply, render_stream, sse
from tool_engine.model.call import ToolCall
from tool_engine.model.reply import ParsedReply, StreamEvent
from tool_engine.protocols.openai import OpenAIProtocol

CALL = ToolCall(call_id="a", tool_name="add", arguments={"x": 1}, raw='{"x": 1}')
MARKERS = [
    *('"', "\\", "\u2028", "\x00", "\ud800", "\U0001f600", "}{", "data: [DONE]\n\n", "\r\n", "é"),
    *("<<<[TOOL_REQUEST]>>>", "「始」", "「末」", "<function_call>", "</function_call>", "```"),
]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.lists(st.sampled_from(MARKERS)).map("".join),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
CALLS = st.lists(
    st.builds(
        ToolCall,
        call_id=st.sampled_from(["a", "b", "c", "call_2"]),
        tool_name=st.sampled_from(["add", "get_time"]),
        arguments=st.dictionaries(st.text(max_size=5), VALUES, max_size=3),
    ),
    max_size=3,
    unique_by=lambda call: call.call_id,
)


def fed(chunks: Iterable[Any]) -> tuple[list[StreamEvent], ParsedReply]:
    decoder = OpenAIProtocol().decoder()
    events = [event for each in chunks for event in decoder.feed(each)]
    return events, decoder.close()


def read(*chunks: Any) -> ParsedReply:
    return fed(chunks)[1]


def kinds(reply: ParsedReply) -> list[tuple[str, str]]:
    return [(each.error_type, each.level) for each in reply.findings]


def runs(reply: ParsedReply) -> list[dict[str, Any]]:
    return [each.arguments for each in reply.calls if each.is_runnable]


@settings(max_examples=share_of(60))
@given(CALLS, st.text(max_size=20))
def test_what_is_written_is_read(calls: list[ToolCall], text: str) -> None:
    """Calls with any arguments come back equal, from a whole reply and from each kind of chunk."""
    chunks = render_stream(calls, text)
    objects = [ChatCompletionChunk.construct(**each) for each in chunks]
    raw = sse(chunks)
    whole = OpenAIProtocol().parse(json.loads(json.dumps(render_reply(calls, text))))
    for reply in (whole, read(*chunks), read(*objects), OpenAIProtocol().parse(chunks)):
        found = [(each.call_id, each.tool_name, each.arguments) for each in reply.calls]
        assert found == [(each.call_id, each.tool_name, each.arguments) for each in calls]
        assert all(each.is_runnable for each in reply.calls)
        assert (reply.text, reply.findings) == (text, [])
        assert reply.usage["total_tokens"] == 21
    if not any("\ud800" <= letter <= "\udfff" for letter in text):
        assert read(raw) == read(*chunks)


@settings(max_examples=share_of(40))
@given(CALLS, st.text(max_size=20), st.lists(st.integers(1, 40), min_size=1), st.booleans())
def test_bytes_may_be_cut_anywhere(
    calls: list[ToolCall], text: str, sizes: list[int], is_whole: bool
) -> None:
    """However the bytes are cut, inside letters and escapes too, the reply is the same."""
    document = json.dumps(render_reply(calls, text), ensure_ascii=False)
    raw = document.encode("utf-8", "surrogatepass") if is_whole else sse(render_stream(calls, text))
    whole_events, whole = fed([raw])
    for lengths in (sizes, [1]):
        pieces, at, turn = [], 0, 0
        while at < len(raw):
            step = lengths[turn % len(lengths)]
            pieces.append(raw[at : at + step])
            at, turn = at + step, turn + 1
        events, reply = fed(pieces)
        assert reply == whole
        assert events == whole_events


def test_the_events_add_up() -> None:
    """D16: the chunks of text and of arguments are the reply's, in order, and each call ends."""
    events, reply = fed(render_stream([CALL], "Let me add."))
    assert "".join(each.content or "" for each in events) == reply.text == "Let me add."
    pieces = "".join(each.tool_call_arguments_chunk or "" for each in events)
    assert pieces == reply.calls[0].raw
    assert events[-1].type == "tool_call_end"
    assert json.loads(events[-1].tool_call_arguments_complete or "") == CALL.arguments


def test_the_events_of_the_helper() -> None:
    """What `chat.completions.stream` of the SDK yields is read once, though it tells all twice."""
    state = ChatCompletionStreamState()
    chunks = [ChatCompletionChunk.model_validate(each) for each in render_stream([CALL], "Hi")]
    reply = read(*(event for each in chunks for event in state.handle_chunk(each)))
    assert (reply.calls, reply.text, reply.findings) == ([CALL], "Hi", [])


def test_the_same_bytes_make_the_same_reply() -> None:
    """Ids that are made up come from the place of a call alone."""
    chunks = [chunk(fragment(0, None, "add", "{}")), chunk(finish_reason="stop")]
    assert read(*chunks) == read(*chunks)
    assert read(*chunks).calls[0].call_id == "call_1"
    decoder = OpenAIProtocol().decoder()
    assert decoder.close() is decoder.close()


QUIRKS = {
    "the role alone": [chunk(role="assistant"), chunk(fragment(0, "a", "add", '{"x": 1}'))],
    "null deltas": [
        {"choices": [{"index": 0, "delta": None}]},
        chunk(fragment(0, "a", "add", '{"x": 1}')),
    ],
    "empty choices": [{"choices": []}, {}, chunk(fragment(0, "a", "add", '{"x": 1}'))],
    "null everywhere": [
        chunk(content=None, tool_calls=None, function_call=None, refusal=None, reasoning=None),
        chunk(fragment(0, "a", "add", '{"x": 1}'), content=None),
    ],
    "no index of the choice": [
        {"choices": [{"delta": {"tool_calls": [fragment(0, "a", "add", '{"x": 1}')]}}]}
    ],
    "one entry that is no list": [
        {"choices": [{"delta": {"tool_calls": fragment(0, "a", "add", '{"x": 1}')}}]}
    ],
    "a whole message instead of a delta": [
        {"choices": [{"index": 0, "message": render_reply([CALL])["choices"][0]["message"]}]}
    ],
    "messages for deltas": [
        {
            "object": "chat.completion.chunk",
            "choices": [{"message": {"tool_calls": [fragment(0, "a", "add", '{"x"')]}}],
        },
        {
            "object": "chat.completion.chunk",
            "choices": [{"message": {"tool_calls": [fragment(0, None, None, ": 1}")]}}],
        },
    ],
    "both delta and message": [
        {
            "choices": [
                {
                    "index": 0,
                    "delta": {"tool_calls": [fragment(0, "a", "add", '{"x": 1}')]},
                    "message": {"tool_calls": [fragment(0, "a", "add", '{"x": 1}')]},
                }
            ]
        }
    ],
    "an empty reason in each chunk": [
        chunk(fragment(0, "a", "add", '{"x"'), finish_reason=""),
        chunk(fragment(0, None, None, ": 1}"), finish_reason=""),
    ],
}


@pytest.mark.parametrize("name", QUIRKS)
@pytest.mark.parametrize("reason", ["stop", "tool_calls", "function_call"])
def test_quirks_of_servers(name: str, reason: str) -> None:
    """However a server dresses its chunks, the one call in them is read, without a finding."""
    reply = read(*QUIRKS[name], chunk(finish_reason=reason))
    assert (reply.calls, reply.findings) == ([CALL], [])


def test_a_whole_message_after_its_parts() -> None:
    """A message that comes again, whole, after its chunks does not make each call twice."""
    reply = read(*render_stream([CALL], "Hi"), render_reply([CALL], "Hi"))
    assert (reply.calls, reply.text) == ([CALL], "Hi")
    assert kinds(reply) == [("skipped", "warning")]


def test_legacy_deltas() -> None:
    """D8: `function_call` of before `tool_calls` came in pieces, too."""
    reply = read(
        chunk(function_call={"name": "add", "arguments": ""}),
        chunk(function_call={"arguments": '{"x":'}),
        chunk(function_call={"arguments": " 1}"}),
        chunk(finish_reason="function_call"),
    )
    assert runs(reply) == [{"x": 1}]
    written = {"name": "add", "arguments": '{"x":'}
    twice = read(
        chunk(fragment(0, "a", "add", '{"x":'), function_call=written),
        chunk(fragment(0, None, None, " 1}"), function_call={"arguments": " 1}"}),
        chunk(finish_reason="tool_calls"),
    )
    assert (twice.calls, kinds(twice)) == ([CALL], [("skipped", "warning")])


def test_reasoning_and_refusals_in_pieces() -> None:
    """Reasoning and refusals are put together, and are no text."""
    reply = read(
        chunk(reasoning_content="Wh"),
        chunk(reasoning_content="y?"),
        chunk(refusal="I "),
        chunk(refusal="won't."),
        chunk(finish_reason="stop"),
    )
    assert (reply.reasoning, reply.refusal, reply.text) == ("Why?", "I won't.", "")
    assert kinds(reply) == [("refusal", "error")]


def test_details_of_reasoning_in_pieces() -> None:
    """OpenRouter's details come in pieces, which go back as one."""

    def told(*details: Any, **fields: Any) -> dict[str, Any]:
        return chunk(reasoning_details=[*details], **fields)

    text = {"type": "reasoning.text", "index": 0}
    chunks = [
        told({**text, "text": "Wh", "signature": None}, reasoning="Wh"),
        told({**text, "text": "y?", "format": None}, reasoning="y?"),
        told({**text, "signature": "s"}),
        told({**text, "index": 1, "text": "So."}, {"type": "encrypted", "data": "x"}, "odd"),
        chunk(fragment(0, "a", "add", "{}")),
        chunk(fragment(0, None, None, ""), finish_reason="tool_calls", content=""),
    ]
    objects = [ChatCompletionChunk.construct(**each) for each in chunks]
    for stream in (chunks, objects):
        reply = read(*stream)
        (sent,) = reply.message
        assert (reply.reasoning, sent["reasoning"]) == ("Why?", "Why?")
        first, *others = sent["reasoning_details"]
        assert (first["text"], first["signature"], first["index"]) == ("Why?", "s", 0)
        assert [each["text"] for each in others[:1]] == ["So."]
        assert others[1:] == [{"type": "encrypted", "data": "x"}, "odd"]


@pytest.mark.parametrize(
    ("chunks", "is_run", "found"),
    [
        ([chunk(finish_reason="tool_calls"), chunk(finish_reason="stop")], True, []),
        ([chunk(finish_reason="stop"), chunk(content="")], True, []),
        ([chunk(finish_reason="length")], False, [("truncated", "error")]),
        (
            [chunk(finish_reason="length"), chunk(finish_reason="stop")],
            False,
            [("truncated", "error")],
        ),
        ([chunk(content="Hm."), chunk(finish_reason="length")], True, [("truncated", "warning")]),
        ([], True, [("truncated", "warning")]),
        ([b"data: [DONE]\n\n"], True, [("truncated", "warning")]),
        (
            [{"error": {"message": "lost"}}],
            False,
            [("malformed_reply", "error"), ("truncated", "error")],
        ),
        (
            [chunk(finish_reason="content_filter")],
            False,
            [("refusal", "error"), ("truncated", "error")],
        ),
    ],
)
def test_how_streams_end(chunks: list[Any], is_run: bool, found: list[Any]) -> None:
    """A call is run only when nothing says that it was cut."""
    reply = read(chunk(fragment(0, "a", "add", '{"x": 1}')), *chunks)
    assert runs(reply) == ([{"x": 1}] if is_run else [])
    assert kinds(reply) == found


@pytest.mark.parametrize("written", ['{"x": 1', '{"x": "a', '{"x": 1,', "{", "", " "])
@pytest.mark.parametrize("reason", [None, "length", "tool_calls"])
def test_open_arguments_are_never_run(written: str, reason: str | None) -> None:
    """U47: what a limit or a lost connection cut is never closed and run."""
    chunks = [chunk(fragment(0, "a", "add", written))]
    reply = read(*chunks, *([chunk(finish_reason=reason)] if reason else []))
    if written.strip() or reason != "tool_calls":
        assert runs(reply) == []
        assert reply.calls[0].complete is False
        assert ("truncated", "error") in kinds(reply)


def test_the_end_of_the_stream_ends_calls() -> None:
    """Where no reason came, `[DONE]` ends the calls whose arguments are closed, and no others."""
    chunks = [chunk(fragment(0, "a", "add", "{}")), chunk(fragment(1, "b", "add", "{"))]
    events, reply = fed([sse(chunks)])
    ends = [each.tool_call_id for each in events if each.type == "tool_call_end"]
    assert ends == ["a"] == [each.call_id for each in reply.calls if each.is_runnable]


def test_a_part_that_is_lost() -> None:
    """An event that cannot be read may have been a part of a call: none that is open is run."""
    first = sse([chunk(fragment(0, "a", "add", '{"x": "/tmp'))], done=False)
    last = sse([chunk(fragment(0, None, None, '"}')), chunk(fragment(1, "b", "add", "{}"))])
    for lost in (b"data: {...\n\n", b'data: "\xff"\n\n', b"data: 5\n\n", b"data: null\n\n"):
        reply = read(first + lost + last)
        assert [each.is_runnable for each in reply.calls] == [False, True]
        assert ("malformed_reply", "error") in kinds(reply)


def test_after_the_end_of_the_stream() -> None:
    """What comes after `[DONE]` is not read, and that is told."""
    late = sse([chunk(fragment(0, "b", "add", "{}"))], done=False)
    reply = read(sse(render_stream([CALL])) + late)
    assert reply.calls == [CALL]
    assert kinds(reply) == [("malformed_reply", "error")]


def test_other_lines_of_the_stream() -> None:
    """Comments, names of events, other line ends and a mark at the beginning say nothing."""
    text = (
        sse(render_stream([CALL], "é")).decode().replace("data:", ": busy\nevent: x\nid: 1\ndata:")
    )
    for line_end in ("\n", "\r\n", "\r"):
        raw = text.replace("\n", line_end).encode("utf-8-sig")
        reply = read(*(raw[at : at + 1] for at in range(len(raw))))
        assert (reply.calls, reply.text, reply.findings) == ([CALL], "é", [])


def test_a_document_instead_of_a_stream() -> None:
    """A server that was asked for a stream may answer with one document, or one in each line."""
    raw = json.dumps(render_reply([CALL], "Hi"), indent=1).encode()
    assert read(raw[:9], raw[9:]).calls == [CALL]
    lines = "\n".join(json.dumps(each) for each in render_stream([CALL], "Hi"))
    assert read(lines).calls == [CALL]
    assert kinds(read(raw[:-9]))[0] == ("malformed_reply", "error")


def test_only_the_first_choice_is_read() -> None:
    """Chunks of other choices are told of once; where there is no first one, nothing is read."""
    second = {"choices": [{"index": 1, "delta": {"content": "B"}}]}
    reply = read(chunk(content="A"), second, second, chunk(finish_reason="stop"))
    assert (reply.text, kinds(reply)) == ("A", [("skipped", "warning")])
    assert ("skipped", "error") in kinds(read(second))
    call = {"choices": [{"index": 1, "delta": {"tool_calls": [fragment(0, "a", "add", "{}")]}}]}
    reply = read(chunk(content="A"), call, chunk(finish_reason="stop"))
    assert (reply.calls, kinds(reply)) == ([], [("skipped", "error")])


def test_half_a_reply_is_told() -> None:
    """A stream that just stops is not taken for a short answer, nor for an empty one; `[DONE]` says
    as well as a reason that the text is whole."""
    cut = OpenAIProtocol().parse([chunk(content="Half an")])
    assert (cut.text, [each.error_type for each in cut.findings]) == ("Half an", ["truncated"])
    empty = OpenAIProtocol().parse([chunk(role="assistant")])
    assert [each.level for each in empty.findings] == ["error"]
    whole = sse([chunk(content="All of it")])
    assert OpenAIProtocol().parse(whole).findings == []
    # A server may forget the empty line, or all of the line's end, behind the last event.
    for cut_short in (whole.rstrip(), whole.rstrip() + whole[-1:]):
        assert OpenAIProtocol().parse(cut_short).findings == []
