"""Is a reply of one protocol that is read with another one said to be that, and never half read?"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from anthropic.types import Message

from tool_engine.protocols.registry import get_protocol

CALL: dict[str, Any] = {"id": "c1", "name": "look", "input": {}}
MESSAGE = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "hi"}, {"type": "tool_use", **CALL}],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
FUNCTION = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
ITEM = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
REPLIES: list[tuple[str, Any]] = [
    ("anthropic", MESSAGE),
    ("anthropic", Message.model_validate(MESSAGE)),
    ("anthropic", {"role": "assistant", "content": MESSAGE["content"]}),
    ("anthropic", {**MESSAGE, "content": [{"type": "text", "text": "hi"}]}),
    ("openai", {"choices": [{"message": {"role": "assistant", "tool_calls": [FUNCTION]}}]}),
    ("gemini", {"candidates": [{"content": {"parts": [{"functionCall": {"name": "look"}}]}}]}),
    ("openai", {"role": "assistant", "content": None, "tool_calls": [FUNCTION]}),
    ("openai_responses", {"output": [ITEM]}),
    ("openai_responses", {"object": "response", "status": "completed", "output": [ITEM]}),
]
NAMES = ("openai", "openai_responses", "anthropic", "gemini")


@pytest.mark.parametrize(("reply", "name"), list(itertools.product(REPLIES, NAMES)))
def test_whose_reply_it_is(reply: tuple[str, Any], name: str) -> None:
    """The calls of one were dropped, with its text kept and no error, or without a word."""
    owner, given = reply
    read = get_protocol(name).parse(given)
    said = [each.message for each in read.findings if "one of the protocol" in each.message]
    if owner == name:
        assert said == []
        assert read.text or read.calls
    else:
        what = f"the reply is one of the protocol {owner!r}, not of {name!r}"
        assert said == [f"{what}; read it with that one"]
        assert (read.text, list(read.calls)) == ("", [])
