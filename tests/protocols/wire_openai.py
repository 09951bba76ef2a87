"""How does a server of Chat Completions write calls and text, whole and in chunks?"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from tool_engine.model.call import ToolCall

__all__ = [
    "chunk",
    "entry",
    "fault_of",
    "fragment",
    "message",
    "render_reply",
    "render_stream",
    "sse",
    "usage",
]

COMPLETION = {"id": "chatcmpl-1", "created": 1_700_000_000, "model": "model-1"}
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
PIECE = 7
"""Characters of arguments in one chunk."""


def render_reply(
    calls: Sequence[ToolCall], text: str = "", finish_reason: str | None = None
) -> dict[str, Any]:
    """The whole completion."""
    message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": None}
    if calls:
        message["tool_calls"] = [_entry(call) for call in calls]
    reason = finish_reason or ("tool_calls" if calls else "stop")
    choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
    return {**COMPLETION, "object": "chat.completion", "choices": [choice], "usage": usage()}


def render_stream(
    calls: Sequence[ToolCall], text: str = "", finish_reason: str | None = None
) -> list[dict[str, Any]]:
    """The chunks of the same completion, as OpenAI cuts them; `sse` makes bytes of them."""
    chunks = [chunk(role="assistant", content="" if text else None)]
    chunks += [chunk(content=text[at : at + PIECE]) for at in range(0, len(text), PIECE)]
    for index, call in enumerate(calls):
        arguments = _arguments(call)
        chunks.append(chunk(fragment(index, call.call_id, call.tool_name, "")))
        chunks += [
            chunk(fragment(index, arguments=arguments[at : at + PIECE]))
            for at in range(0, len(arguments), PIECE)
        ]
    reason = finish_reason or ("tool_calls" if calls else "stop")
    last = {**COMPLETION, "object": "chat.completion.chunk", "choices": [], "usage": usage()}
    return [*chunks, chunk(finish_reason=reason), last]


def chunk(*fragments: Any, finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
    """One chunk, with these entries of `tool_calls` or these fields of the delta."""
    if fragments:
        delta["tool_calls"] = [*fragments]
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return {**COMPLETION, "object": "chat.completion.chunk", "choices": [choice]}


def fragment(
    index: Any = 0, call_id: Any = None, name: Any = None, arguments: Any = None
) -> dict[str, Any]:
    """One entry of `tool_calls`; what is None is left out, as OpenAI does."""
    function = {"name": name, "arguments": arguments}
    entry = {"index": index, "id": call_id, "type": None if name is None else "function"}
    return {
        **{key: value for key, value in entry.items() if value is not None},
        "function": {key: value for key, value in function.items() if value is not None},
    }


def message(*calls: Any, **fields: Any) -> dict[str, Any]:
    """A bare assistant message with these entries of `tool_calls`."""
    return {"role": "assistant", "content": None, "tool_calls": [*calls], **fields}


def entry(arguments: Any, name: Any = "add", call_id: Any = "a") -> dict[str, Any]:
    """One entry of the `tool_calls` of a whole message."""
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def sse(chunks: Iterable[Any], *, done: bool = True) -> bytes:
    """The stream of server-sent events."""
    events = [f"data: {json.dumps(each, ensure_ascii=False)}\n\n" for each in chunks]
    text = "".join([*events, "data: [DONE]\n\n"] if done else events)
    return text.encode("utf-8", "surrogatepass")


def usage() -> dict[str, Any]:
    """What it cost."""
    return {"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21}


def fault_of(request: dict[str, Any]) -> str | None:
    """What OpenAI would refuse in a request."""
    for each in request.get("tools", []):
        function = each["function"]
        parameters = function["parameters"]
        if each["type"] != "function" or not NAME.fullmatch(function["name"]):
            return "Invalid 'tools[0].function.name': string does not match pattern"
        if parameters["type"] != "object" or parameters.keys() & {"anyOf", "oneOf", "allOf"}:
            return "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'"
        if function.get("strict") and parameters["required"] != [*parameters["properties"]]:
            return "'required' is required to be supplied and to be an array including every key"
    return _fault_of_messages(request["messages"])


def _fault_of_messages(messages: list[dict[str, Any]]) -> str | None:
    """What OpenAI would refuse in a conversation."""
    awaited: list[str] = []
    for before, each in itertools.pairwise(messages):
        # Not OpenAI itself, but Mistral and servers with its templates.
        if before["role"] == "tool" and each["role"] not in ("tool", "assistant"):
            return f"Unexpected role {each['role']!r} after role 'tool'"
    for each in messages:
        if each["role"] == "tool":
            if each["tool_call_id"] not in awaited:
                return "messages with role 'tool' must be a response to 'tool_calls'"
            awaited.remove(each["tool_call_id"])
            continue
        if awaited:
            return f"tool_call_ids did not have response messages: {awaited}"
        if each["role"] == "assistant" and not (each.get("content") or each.get("tool_calls")):
            return "Invalid value for 'content': expected a string, got null"
        calls = each.get("tool_calls", [])
        awaited = [call["id"] for call in calls]
        for call in calls:
            json.loads(call["function"]["arguments"])
            if call["type"] != "function" or not NAME.fullmatch(call["function"]["name"]):
                return "Invalid 'messages[1].tool_calls[0].function.name'"
    return f"tool_call_ids did not have response messages: {awaited}" if awaited else None


def _entry(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.tool_name, "arguments": _arguments(call)}
    return {"id": call.call_id, "type": "function", "function": function}


def _arguments(call: ToolCall) -> str:
    # With escapes, as lone surrogates have no other form.
    return json.dumps(call.arguments)
