"""What a model reads of a result, and of which call it is the result."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tool_engine.errors import ConfigurationError
from tool_engine.model.call import ToolCall, ToolExecutionResult
from tool_engine.model.content.pieces import ImageContent, TextContent
from tool_engine.protocols.registry import get_protocol
from tool_engine.protocols.result_content import REQUEST_ID, parts_of, request_ids, text_of

IMAGE = {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}
TEXT = {"type": "text", "text": "hello"}
PICTURE = ImageContent(b"hello", "image/png")


def result_of(output: Any, **fields: Any) -> ToolExecutionResult:
    return ToolExecutionResult(True, "t", output, **fields)


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ({"result": "as it is"}, "as it is"),
        ({"result": 5}, "5"),
        ({"result": None}, "null"),
        ({"result": {"a": "好"}}, '{"a": "好"}'),
        ({"a": 1, "b": [True]}, '{"a": 1, "b": [true]}'),
        ({}, "{}"),
        ({"content": "no list"}, '{"content": "no list"}'),
    ],
)
def test_text(output: Any, text: str) -> None:
    """A37: a string as it is, everything else as JSON."""
    assert text_of(result_of(output)) == text


def test_a_failure_says_what_to_do() -> None:
    """The type and the message, which names the cure."""
    failed = ToolExecutionResult(False, "t", {}, "no tool 'x'; did you mean 'y'?", "tool_not_found")
    assert text_of(failed) == "Error (tool_not_found): no tool 'x'; did you mean 'y'?"


def test_blocks_are_taken_apart() -> None:
    """D4: text and images of MCP are the pieces; in a text, an image is named."""
    for output in ({"content": [TEXT, IMAGE]}, {"content": [TEXT, IMAGE], "isError": False}):
        assert parts_of(result_of(output)) == [TextContent("hello"), PICTURE]
        assert text_of(result_of(output)) == "hello\n[image/png, 5 bytes]"


class Final(ToolExecutionResult, kw_only=True):
    """What a session makes of a result."""

    final_text: str | None = None


def test_the_final_text_is_what_a_model_reads() -> None:
    """S15: of a call of a session, and of no other; a failure says it, too."""
    assert text_of(Final(True, "t", {"result": "long"}, final_text="l…")) == "l…"
    assert parts_of(Final(True, "t", {"a": 1}, final_text="")) == [TextContent("")]
    assert text_of(Final(True, "t", {"result": "long"})) == "long"
    failed = Final(False, "t", {"result": "x"}, "broken", "execution_error")
    assert text_of(failed) == "Error (execution_error): broken"
    failed.final_text = "bro…"
    assert parts_of(failed) == [TextContent("Error (execution_error): bro…")]
    assert text_of(failed) == "Error (execution_error): bro…"


@pytest.mark.parametrize(
    "name", ["openai", "openai_responses", "anthropic", "gemini", "vcp", "function_call"]
)
def test_every_protocol_sends_the_final_text(name: str) -> None:
    """S15: and nothing of what was left out of it."""
    output = {"rows": list(range(5_000, 9_000))}
    result = Final(True, "t", output, metadata={REQUEST_ID: "call_1"}, final_text="FINAL …")
    sent = json.dumps(get_protocol(name).format_results([result]), ensure_ascii=False)
    assert "FINAL …" in sent
    assert "8000" not in sent


def test_images_stay_beside_the_final_text() -> None:
    """S15: a whole result is shown as the tool wrote it; what was cut takes no image along."""
    output = {"content": [IMAGE, TEXT]}
    whole = Final(True, "t", output, final_text="[image/png, 5 bytes]\nhello")
    assert parts_of(whole) == [PICTURE, TextContent("hello")]
    cut = Final(True, "t", output, final_text="[image/png, 5 bytes]\nhe…")
    assert parts_of(cut) == [TextContent("[image/png, 5 bytes]\nhe…"), PICTURE]
    assert text_of(cut) == "[image/png, 5 bytes]\nhe…"


@pytest.mark.parametrize(
    "output",
    [
        {"content": []},
        {"content": [TEXT, 5]},
        {"content": [TEXT, {"type": "video", "data": "aGVsbG8=", "mimeType": "video/mp4"}]},
        {"content": [{"type": "text", "text": 5}]},
        {"content": [{**IMAGE, "data": "no base64!"}]},
        {"content": [{**IMAGE, "data": ""}]},
        {"content": [{**IMAGE, "data": None}]},
        {"content": [{**IMAGE, "mimeType": "text/html"}]},
        {"content": [{**IMAGE, "mimeType": None}]},
        {"content": [TEXT], "isError": True},
        {"content": [TEXT], "rows": 1},
    ],
)
def test_everything_else_is_shown_whole(output: Any) -> None:
    """Nothing is left out: a block that cannot be shown keeps all of them as JSON."""
    (part,) = parts_of(result_of(output))
    assert isinstance(part, TextContent)
    assert json.loads(part.text) == output


def test_ids() -> None:
    """The id in the result comes first, then that of the call in the same place."""
    calls = [ToolCall(call_id=key, tool_name="t", arguments={}) for key in ("c1", "c2")]
    known = result_of({}, metadata={REQUEST_ID: "r1"})
    assert request_ids([known, result_of({})], calls) == ["r1", "c2"]
    assert request_ids([known], None) == ["r1"]


def test_a_result_of_no_call() -> None:
    """It cannot be told what it answers: the message says how to tell."""
    with pytest.raises(ConfigurationError, match="result 0, of 't', does not say"):
        request_ids([result_of({})], None)
    with pytest.raises(ConfigurationError, match="1 results for 0 calls"):
        request_ids([result_of({})], [])
