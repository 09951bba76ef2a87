"""Whatever a server sends in the place of Chat Completions: it ends as a finding."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.effort import share_of
from tests.protocols.wire_openai import chunk, fragment, render_reply, render_stream
from tool_engine.model.call import ToolCall
from tool_engine.model.reply import ParsedReply
from tool_engine.protocols.openai import OpenAIProtocol

CALL = ToolCall(call_id="a", tool_name="add", arguments={"x": 1}, raw='{"x": 1}')
GARBAGE: st.SearchStrategy[Any] = st.sampled_from(
    [None, 0, 1, -1, True, 1.5, "", "x", "{", [], [None], [1], {}, {"a": 1}, [[]], "\ud800"]
)


def read(*chunks: Any) -> ParsedReply:
    decoder = OpenAIProtocol().decoder()
    for each in chunks:
        decoder.feed(each)
    return decoder.close()


def kinds(reply: ParsedReply) -> list[tuple[str, str]]:
    return [(each.error_type, each.level) for each in reply.findings]


def runs(reply: ParsedReply) -> list[dict[str, Any]]:
    return [each.arguments for each in reply.calls if each.is_runnable]


@pytest.mark.parametrize(
    "garbage",
    [
        *(None, 5, True, 1.5, [], [5], [[[]]], {}, {"a": 1}, "x", b"\xff", object()),
        *({"choices": 5}, {"choices": [5]}, {"choices": [None]}, {"choices": [{"delta": 5}]}),
        *({"choices": [{"delta": {"tool_calls": 5}}]}, {"choices": [{"delta": {"content": 5}}]}),
        *({"usage": "x"}, {"usage": {"a": {"b": 1}}}, {"type": "ping"}),
    ],
)
def test_garbage_between_chunks(garbage: Any) -> None:
    """Nothing in a stream raises, and a call that comes whole after it is read."""
    reply = read(garbage, garbage, *render_stream([CALL]))
    if not isinstance(garbage, str | bytes):
        assert reply.calls == [CALL]


def altered(data: st.DataObject, value: Any) -> Any:
    """The value with garbage in one place of it."""
    if not isinstance(value, dict | list) or not value or data.draw(st.integers(0, 6)) == 0:
        return data.draw(GARBAGE)
    if isinstance(value, list):
        place = data.draw(st.integers(0, len(value) - 1))
        return [altered(data, each) if at == place else each for at, each in enumerate(value)]
    key = data.draw(st.sampled_from(sorted(value)))
    return {**value, key: altered(data, value[key])}


@settings(max_examples=share_of(150))
@given(st.data())
def test_nothing_that_a_server_sends_raises(data: st.DataObject) -> None:
    """Whatever stands in whatever place of a chunk or a reply, the reply is told, and a call is
    run only with the arguments that were written."""
    whole = data.draw(st.booleans())
    reply = render_reply([CALL], "Hi", None)
    chunks: list[Any] = [reply] if whole else render_stream([CALL], "Hi")
    chunks = altered(data, chunks)
    chunks = chunks if isinstance(chunks, list) else [chunks]
    kind = ChatCompletion if whole else ChatCompletionChunk
    for stream in (chunks, [kind.construct(**e) if isinstance(e, dict) else e for e in chunks]):
        found = read(*stream)
        assert all(each.arguments in ({"x": 1}, {}) for each in found.calls if each.is_runnable)
        json.dumps(found.message)
        OpenAIProtocol().parse(stream)


def test_a_chunk_that_nests_without_end() -> None:
    """A chunk that nests deeper than can be followed is a finding."""
    deep: list[Any] = []
    deep.append(deep)
    reply = read(deep, *render_stream([CALL]))
    assert reply.calls == [CALL]
    assert kinds(reply) == [("malformed_reply", "error")]


def test_hostile_arguments() -> None:
    """Deep nesting and a million characters are read, or refused, in linear time."""
    deep = "[" * 10_000 + "]" * 10_000
    wide = "x" * 300_000
    pieces = [chunk(fragment(0, None, None, each)) for each in ('{"x": "', wide, '"}')]
    first, last = chunk(fragment(0, "a", "add", "")), chunk(finish_reason="stop")
    assert runs(read(first, *pieces, last)) == [{"x": wide}]
    reply = read(first, chunk(fragment(0, None, None, f'{{"x": {deep}}}')), last)
    assert runs(reply) == []
    assert "nest" in str(reply.calls[0].error)


@pytest.mark.parametrize(
    "beside",
    [
        {"function_call": {"name": "drop", "arguments": "{}"}},
        {"custom": {"name": "drop", "input": "x"}},
        {"name": "drop"},
        {"arguments": '{"x": 2}'},
        {"parameters": {"x": 2}},
    ],
)
def test_a_second_call_in_an_entry_is_not_dropped(beside: dict[str, Any]) -> None:
    """Which of two calls in one entry is meant is not known: none runs, and that is an error."""
    entry = {"index": 0, "id": "a", "function": {"name": "add", "arguments": '{"x": 1}'}}
    same = {**entry, "name": "add", "arguments": '{"x": 1}', "custom": None}
    for each, found in ((entry, [{"x": 1}]), (same, [{"x": 1}]), ({**entry, **beside}, [])):
        message = {"role": "assistant", "tool_calls": [each]}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        whole = OpenAIProtocol().parse({"choices": [choice]})
        streamed = read(chunk(each), chunk(finish_reason="tool_calls"))
        for reply in (whole, streamed):
            assert runs(reply) == found
            assert ("error" in {each.level for each in reply.findings}) is (not found)
