"""The messages that go back to Chat Completions: the reply, then the results of its calls."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from tests.protocols.wire_openai import entry, message
from tool_engine.errors import ConfigurationError
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.reply import ParsedReply
from tool_engine.protocols.openai import OpenAIProtocol


def parsed(reply: Any) -> ParsedReply:
    return OpenAIProtocol().parse(reply)


def succeeded(output: Any, request_id: str = "a") -> ToolExecutionResult:
    metadata = {"request_id": request_id}
    return ToolExecutionResult(True, "add", output=output, metadata=metadata)


def test_reasoning_goes_back_with_calls() -> None:
    """Servers that show their reasoning want it back beside the calls, and only there."""
    reply = parsed(message(entry("{}"), reasoning_content="Why?"))
    assert reply.message[0]["reasoning_content"] == "Why?"
    silent = parsed({"role": "assistant", "content": "Hi", "reasoning_content": "Why?"})
    assert "reasoning_content" not in silent.message[0]


def test_what_servers_want_back() -> None:
    """Signatures and details of reasoning go back as they came, or a server refuses the rest of
    the conversation: Gemini's on each call, OpenRouter's on the message."""
    signed = {"google": {"thought_signature": "c2ln"}}
    details = [{"type": "reasoning.encrypted", "data": "abc", "index": 0}]
    custom = {"id": "c", "type": "custom", "custom": {"name": "run", "input": "1"}}
    reply = parsed(
        message(
            {**entry("{}"), "extra_content": signed},
            entry("{}", call_id="b"),
            {**custom, "provider_specific_fields": signed},
            reasoning="Why?",
            reasoning_details=details,
            extra_content=signed,
        )
    )
    (sent,) = reply.message
    assert [each.get("extra_content") for each in sent["tool_calls"]] == [signed, None, None]
    assert sent["tool_calls"][2]["provider_specific_fields"] == signed
    assert sent["reasoning_details"] == details
    assert (sent["reasoning"], sent["extra_content"]) == ("Why?", signed)


def test_the_message_that_goes_back() -> None:
    """Arguments go back as the model wrote them, or as an object that holds what it wrote."""
    written = ['{"x":  1.50}', "{'x': 1}", '{"x": ', '{"y": "\ud800"}', "[1]", ""]
    calls = [entry(each, call_id=str(at)) for at, each in enumerate(written)]
    calls.append({"id": "c", "type": "custom", "custom": {"name": "run", "input": "1"}})
    calls.append(entry("{}", "functions.get time", "n"))
    calls.append(entry("{}", None, "m"))
    choice = {"message": message(*calls, content="Hi \ud800"), "finish_reason": "tool_calls"}
    (sent,) = parsed({"choices": [choice]}).message
    json.dumps(sent, ensure_ascii=False).encode()
    assert sent["content"] == "Hi \\ud800"
    assert [each["function"]["arguments"] for each in sent["tool_calls"][:6]] == [
        '{"x":  1.50}',
        '{"x": 1}',
        '{"unreadable_arguments": "{\\"x\\": "}',
        '{"y": "\\ud800"}',
        '{"unreadable_arguments": "[1]"}',
        "{}",
    ]
    assert sent["tool_calls"][6]["custom"] == {"name": "run", "input": "1"}
    names = [each["function"]["name"] for each in sent["tool_calls"][7:]]
    assert names == ["functions_get_time", "unnamed_tool"]


def test_no_message_of_nothing() -> None:
    """A reply that holds nothing adds nothing to a conversation."""
    assert parsed({"role": "assistant", "content": ""}).message == []
    assert parsed({"error": {"message": "overloaded"}}).message == []


def test_results() -> None:
    """R7, A37: each result is a message of the role `tool` under the id of its call."""
    failed = ToolExecutionResult(
        False, "add", error="no", error_type="timeout", metadata={"request_id": "b"}
    )
    assert OpenAIProtocol().format_results([succeeded({"result": "ü"}), failed]) == [
        {"role": "tool", "tool_call_id": "a", "content": "ü"},
        {"role": "tool", "tool_call_id": "b", "content": "Error (timeout): no"},
    ]
    with pytest.raises(ConfigurationError, match="which call"):
        OpenAIProtocol().format_results([ToolExecutionResult(True, "add")])


def test_images_in_results() -> None:
    """A `tool` message holds no images: they follow all results, in one message of the user.

    Some servers refuse a user behind results, and some images in results: a line of the model's
    stands between, which all take. Whose server takes images in results may say so.
    """
    text = {"type": "text", "text": "A map:"}
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    results = [succeeded({"content": [text, image]}), succeeded({"x": 1}, "b")]
    note = "[image/png: shown in the user message after the results]"
    shown = [
        {"type": "text", "text": "The images in the result of call a:"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
    ]
    assert OpenAIProtocol().format_results(results) == [
        {"role": "tool", "tool_call_id": "a", "content": [text, {"type": "text", "text": note}]},
        {"role": "tool", "tool_call_id": "b", "content": '{"x": 1}'},
        {"role": "assistant", "content": "I look at the images."},
        {"role": "user", "content": shown},
    ]
    assert OpenAIProtocol(images="inside").format_results(results) == [
        {"role": "tool", "tool_call_id": "a", "content": [text, shown[1]]},
        {"role": "tool", "tool_call_id": "b", "content": '{"x": 1}'},
    ]
    with pytest.raises(ConfigurationError, match="images must be one of after, inside"):
        OpenAIProtocol(images="insde")


def test_an_error_that_quotes_half_a_character_can_be_sent() -> None:
    """No client can write half of a surrogate pair, which an error quotes from arguments: it would
    fail every later request of the conversation."""
    result = ToolExecutionResult(False, "add", {}, "bad \ud800 value", "validation_error")
    metadata = {"request_id": "a"}
    (told,) = OpenAIProtocol().format_results([replace(result, metadata=metadata)])
    assert json.dumps(told, ensure_ascii=False).encode()
    assert told["content"] == "Error (validation_error): bad \\ud800 value"
