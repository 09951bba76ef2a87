"""A call of which a part could not be read does not run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tool_engine.model.reply import ParsedReply
from tool_engine.protocols import get_protocol

ANTHROPIC: list[Any] = [
    {"type": "message_start", "message": {"role": "assistant", "content": []}},
    {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "tool_use", "id": "t1", "name": "add", "input": {}},
    },
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "input_json_delta", "partial_json": '{"a": 1}'},
    },
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
    {"type": "message_stop"},
]
RESPONSES: list[Any] = [
    {
        "type": "response.output_item.added",
        "output_index": 0,
        "item": {"type": "function_call", "id": "f", "call_id": "t1", "name": "add"},
    },
    {"type": "response.function_call_arguments.delta", "item_id": "f", "delta": '{"a": 1}'},
    {"type": "response.output_item.done", "output_index": 0, "item": {"type": "function_call"}},
    {"type": "response.completed", "response": {"status": "completed"}},
]
RESPONSES[2]["item"] = {**RESPONSES[0]["item"], "arguments": ""}


def of_openai(calls: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"tool_calls": calls}}]}


OPENAI: list[Any] = [
    of_openai([{"index": 0, "id": "t1", "function": {"name": "add", "arguments": ""}}]),
    of_openai([{"index": 0, "function": {"arguments": '{"a": 1}'}}]),
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
]


def of_gemini(call: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": [{"functionCall": call}]}, **more}]}


GEMINI: list[Any] = [
    of_gemini({"name": "add", "willContinue": True}),
    of_gemini(
        {"partialArgs": [{"jsonPath": "$.a", "numberValue": 1}], "willContinue": True},
    ),
    of_gemini({}, finishReason="STOP"),
]
STREAMS: dict[str, tuple[list[Any], int]] = {
    "anthropic": (ANTHROPIC, 2),
    "openai_responses": (RESPONSES, 1),
    "openai": (OPENAI, 1),
    "gemini": (GEMINI, 1),
}
"""Each stream that calls `add` with {"a": 1}, and where its arguments are."""


def read(name: str, chunks: list[Any]) -> ParsedReply:
    decoder = get_protocol(name).decoder()
    for chunk in chunks:
        decoder.feed(chunk)
    return decoder.close()


def with_part(name: str, part: Any) -> list[Any]:
    """The stream with another part in the place of the arguments."""
    chunks, place = STREAMS[name]
    return [*chunks[:place], part, *chunks[place + 1 :]]


def beside(name: str, part: Any) -> list[Any]:
    chunks, place = STREAMS[name]
    return [*chunks[:place], part, *chunks[place:]]


def delta(**fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": fields}


def gemini_piece(**fields: Any) -> dict[str, Any]:
    return of_gemini({"partialArgs": [fields], "willContinue": True})


UNREADABLE: list[tuple[str, Any]] = [
    ("anthropic", []),
    ("anthropic", [[]]),
    ("anthropic", delta(type="input_json_delta2", partial_json='{"a": 1}')),
    ("anthropic", {**ANTHROPIC[2], "type": "content_block_delta2"}),
    ("anthropic", {"type": "new", "delta": ANTHROPIC[2]["delta"]}),
    ("anthropic", delta(type="input_json_delta", partial_json=None)),
    ("anthropic", delta(type="input_json_delta", partial_json={})),
    ("anthropic", delta(type="input_json_delta")),
    ("openai_responses", []),
    ("openai_responses", {**RESPONSES[1], "type": "response.function_call_arguments.delta2"}),
    ("openai_responses", {"type": "new", "output_index": 0, "arguments": '{"a": 1}'}),
    ("openai_responses", {**RESPONSES[1], "delta": None}),
    ("openai", []),
    ("openai", of_openai({})),
    ("openai", of_openai({"a": None})),
    ("openai", of_openai(0)),
    ("openai", of_openai([None])),
    ("openai", of_openai([[]])),
    ("openai", of_openai([{"index": 0, "function": []}])),
    ("openai", of_openai([{"index": 0, "function": 0}])),
    ("openai", of_openai([{"index": 0, "function": {"arguments": ['{"a": 1}']}}])),
    ("openai", {"choices": [{"index": 0, "delta": []}]}),
    ("openai", {"choices": [{"index": "x", "delta": {}}]}),
    ("gemini", []),
    ("gemini", of_gemini({"partialArgs": [None], "willContinue": True})),
    ("gemini", of_gemini({"args": 5, "willContinue": True})),
    ("gemini", gemini_piece(jsonPath="$.a", number=1)),
    ("gemini", gemini_piece(jsonPath="$.a", numberValue="1")),
]


@pytest.mark.parametrize("name", STREAMS)
def test_the_streams_call_the_tool(name: str) -> None:
    reply = read(name, STREAMS[name][0])
    assert [call.arguments for call in reply.calls if call.is_runnable] == [{"a": 1}]
    assert reply.findings == []


@pytest.mark.parametrize(("name", "part"), UNREADABLE)
def test_a_call_with_an_unreadable_part_does_not_run(name: str, part: Any) -> None:
    """U47: what is left, `{}`, is not what was meant; the finding shows the part or names it.

    Looked at: parts of calls in the streams of Anthropic, Responses, Chat Completions and Gemini;
    whole replies have no parts, and arguments of a wrong type are refused there already.
    """
    reply = read(name, with_part(name, part))
    assert [call.is_runnable for call in reply.calls] == [False]
    assert "error" in {finding.level for finding in reply.findings}


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("anthropic", {"type": "ping"}),
        ("anthropic", {"type": "new", "index": 0, "percent": 50}),
        ("anthropic", {"type": "new", "index": 7, "delta": {"type": "new"}}),
        ("anthropic", {"type": "input_json", "partial_json": "{", "snapshot": {}}),
        ("openai_responses", {"type": "response.audio.delta", "delta": "UklGRg=="}),
        ("openai_responses", {"type": "response.new", "item_id": "f", "percent": 50}),
        ("openai_responses", {"type": "response.new.delta", "item_id": "other", "delta": "x"}),
        ("openai", of_openai(None)),
        ("openai", of_openai([])),
        ("openai", of_openai([{}])),
        ("openai", of_openai([{"index": 0, "function": None}])),
        ("openai", {"choices": []}),
        ("gemini", {"usageMetadata": {}}),
    ],
)
def test_what_belongs_to_no_call_is_harmless(name: str, part: Any) -> None:
    """Signs of life, and events to come, say nothing of a call's arguments."""
    reply = read(name, beside(name, part))
    assert [call.arguments for call in reply.calls if call.is_runnable] == [{"a": 1}]
    assert reply.findings == []


@pytest.mark.parametrize("line", ["data: []", "data: ", "data: x", ": x", "dta: {}"])
def test_a_damaged_line_of_the_stream(line: str) -> None:
    """An event that is called a delta, and has no data, has lost them."""
    damaged = ["data: " + json.dumps(event) for event in ANTHROPIC]
    damaged[2] = line
    text = "".join(
        f"event: {event['type']}\n{data}\n\n"
        for event, data in zip(ANTHROPIC, damaged, strict=True)
    )
    reply = read("anthropic", [text.encode()])
    assert [call.is_runnable for call in reply.calls] == [False]
