"""Bytes, text, mappings and objects: how they become what decoders read."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessage

from tests.effort import share_of
from tool_engine.protocols.chunks import (
    AmbiguousObject,
    ChunkReader,
    EventStream,
    dump_object,
    read_field,
    split_chunks,
)

JSON = st.recursive(st.text() | st.integers() | st.none(), st.lists)


def read(*chunks: Any) -> tuple[list[Any], list[str]]:
    """What the chunks come to, and what was wrong with them."""
    reader = ChunkReader()
    found = [value for chunk in chunks for value in reader.feed(chunk)]
    return found + list(reader.close()), reader.problems


def one_by_one(raw: bytes) -> list[bytes]:
    return [raw[at : at + 1] for at in range(len(raw))]


@settings(max_examples=share_of(60))
@given(st.lists(JSON, max_size=4), st.sampled_from(["\n", "\r\n", "\r"]), st.booleans())
def test_events_may_be_cut_anywhere(values: list[Any], line_end: str, with_mark: bool) -> None:
    """However the bytes of a stream are cut, its events are the same."""
    lines = [f": {n}\nevent: x\ndata: {json.dumps(each)}\n\n" for n, each in enumerate(values)]
    raw = "".join(lines).replace("\n", line_end).encode("utf-8-sig" if with_mark else "utf-8")
    assert read(raw) == read(*one_by_one(raw)) == (values, [])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("data: 1\n\n", ["1"]),
        ("data:1\n\ndata:  2\n\n", ["1", " 2"]),
        ("data: 1\ndata: 2\n\n", ["1\n2"]),
        ("data: 1\r\ndata: 2\r\n\r\n", ["1\n2"]),
        ("data\n\ndata: 1\n\n", ["", "1"]),
        ("data: 1", ["1"]),
        ("data: 1\n", ["1"]),
        ("data: 1\r\n\r\ndata: 2\r\r", ["1", "2"]),
        ("\n\n: hello\nid: 5\nretry: 9\n\ndata: 1\n\n", ["1"]),
        ("data: a\u2028b\x85c\n\n", ["a\u2028b\x85c"]),
        ("database: 1\n\n", []),
        ("", []),
    ],
)
def test_the_lines_of_events(text: str, found: list[str]) -> None:
    """https://html.spec.whatwg.org/multipage/server-sent-events.html, and what servers forget."""
    for chunks in ([text.encode()], one_by_one(text.encode()), list(text)):
        stream = EventStream()
        events = [event for chunk in chunks for event in stream.feed(chunk)]
        assert events + stream.close() == found


def test_after_done() -> None:
    """`[DONE]` ends a stream: what comes after it is left out, and told once for each."""
    reader = ChunkReader()
    assert list(reader.feed(b"data: 1\n\ndata: [DONE]\n\n")) == [1]
    assert (reader.is_done, reader.problems) == (True, [])
    assert list(reader.feed(b"data: 2\n\n")) == []
    assert len(reader.problems) == 1


@pytest.mark.parametrize("wrong", [b"{", b'"\xff"', b"nul", b"1 2", b"9" * 5000])
def test_what_cannot_be_read_is_a_problem(wrong: bytes) -> None:
    """An event that is no JSON, or no UTF-8, is told; the others are read."""
    found, problems = read(b"data: 1\n\ndata: " + wrong + b"\n\ndata: 2\n\n")
    assert found == [1, 2]
    assert len(problems) == 1


def test_problems_are_told_in_their_place() -> None:
    """Whoever takes the values one by one learns of a problem between the right two."""
    reader = ChunkReader()
    values = reader.feed(b"data: 1\n\ndata: x\n\ndata: 2\n\n")
    seen = [(value, len(reader.problems)) for value in values]
    assert seen == [(1, 0), (2, 1)]


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf", b"\r\n \t"])
def test_a_document_instead_of_a_stream(mark: bytes) -> None:
    """One JSON document, however it is cut and laid out, is what the stream held."""
    value = {"error": {"message": "é"}, "list": [1, "[2]"]}
    raw = mark + json.dumps(value, indent=2, ensure_ascii=False).encode()
    for document in (raw, raw + b"\n\n"):
        assert read(document) == read(*one_by_one(document)) == ([value], [])
    found, problems = read(raw[:-1])
    assert (found, len(problems)) == ([], 1)


def test_one_document_in_each_line() -> None:
    """Documents in lines are a stream; the line that cannot be read is told."""
    assert read(b'{"a":1}\n\n[2]\r\n') == ([{"a": 1}, [2]], [])
    found, problems = read(b'{"a":1}\n{"b":')
    assert (found, len(problems)) == ([{"a": 1}], 1)


def test_what_is_no_text_stays() -> None:
    """Mappings, objects and garbage are handed on; a reader of those has nothing to close."""
    message = ChatCompletionMessage(role="assistant", content="Hi")
    assert read({"a": 1}, message, None, 5) == ([{"a": 1}, message, None, 5], [])
    assert read(bytearray(b"data: 1\n\n"), memoryview(b"data: 2\n\n")) == ([1, 2], [])


def test_fields_of_mappings_and_objects() -> None:
    """A field is looked up the same way in both; null is as good as missing."""
    message = ChatCompletionMessage(role="assistant", content=None)
    assert read_field(message, "role") == read_field({"role": "assistant"}, "role") == "assistant"
    assert (
        read_field(message, "content", "x") == read_field({"content": None}, "content", "x") == "x"
    )
    assert read_field(5, "role") is None


def test_objects_as_plain_values() -> None:
    """An SDK's object is written as the mapping it came from, without a warning where a server
    sent other types than its class declares."""
    odd = ChatCompletionMessage.construct(role="assistant", content=5, extra=[1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        written = dump_object({"messages": (odd,), "n": 1})
    assert written["messages"][0]["content"] == 5
    assert written["messages"][0]["extra"] == [1]
    assert dump_object(ChatCompletionMessage) is ChatCompletionMessage


@pytest.mark.parametrize(
    "reply",
    ['{"a": 1}', "data: 1", b"", b"{}", {"a": 1}, 5, None, ChatCompletionMessage(role="assistant")],
)
def test_what_is_one_chunk(reply: Any) -> None:
    """Text of any kind, mappings, SDK objects and what is no reply are one chunk."""
    assert list(split_chunks(reply)) == [reply]


@pytest.mark.parametrize("make", [list, tuple, iter])
def test_what_holds_chunks(make: Any) -> None:
    """The items of another iterable are the chunks, and are taken one by one."""
    assert list(split_chunks(make([1, "a"]))) == [1, "a"]


@pytest.mark.parametrize("key", ["input", "arguments", "parameters"])
def test_a_key_that_stands_twice_in_arguments_is_not_forgotten(key: str) -> None:
    """Of two values under one key JSON readers keep the last: that there were two can be told."""
    (twice,), problems = read(f'data: {{"{key}" : {{ "a": [{{"b": 1, "b": 2}}]}}}}\n\n')
    assert (twice, problems) == ({key: {"a": [{"b": 2}]}}, [])
    assert isinstance(twice[key]["a"][0], AmbiguousObject)
    (once,), _ = read(f'{{"{key}": {{"a": {{"b": 1}}}}}}')
    assert type(once[key]["a"]) is dict


@pytest.mark.parametrize("reply", ['{"a": 1}', 'data: {"a": 1}\n\n'])
def test_a_byte_order_mark_before_a_text(reply: str) -> None:
    """A text that was decoded with its mark is the same reply."""
    assert read("\ufeff" + reply) == read(" \n", "\ufeff", reply) == ([{"a": 1}], [])
