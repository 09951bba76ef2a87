"""How does Anthropic's Messages API write replies, and what does it refuse in a request?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from tool_engine.model.call import ToolCall

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ID = re.compile(r"[a-zA-Z0-9_-]+")


def render_reply(
    calls: Sequence[ToolCall], text: str = "", stop_reason: str | None = None
) -> dict[str, Any]:
    """A whole message with the text, if there is any, and then the calls."""
    content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    content += [
        {"type": "tool_use", "id": call.call_id, "name": call.tool_name, "input": call.arguments}
        for call in calls
    ]
    return message(content, stop_reason or ("tool_use" if calls else "end_turn"))


def message(content: list[dict[str, Any]], stop_reason: str | None) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-test",
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 20},
    }


def render_stream(
    calls: Sequence[ToolCall], text: str = "", stop_reason: str | None = None
) -> list[dict[str, Any]]:
    """The events of the same message."""
    events = [start(), {"type": "ping"}]
    place = 0
    if text:
        half = len(text) // 2
        events += block(
            place, {"type": "text", "text": ""}, *map(text_delta, (text[:half], text[half:]))
        )
        place += 1
    for call in calls:
        written = json.dumps(call.arguments, ensure_ascii=False)
        parts = [""] + [written[at : at + 7] for at in range(0, len(written), 7)]
        events += block(place, tool_use(call.call_id, call.tool_name), *map(json_delta, parts))
        place += 1
    return events + end(stop_reason or ("tool_use" if calls else "end_turn"))


def start(**fields: Any) -> dict[str, Any]:
    begun = {**message([], None), "usage": {"input_tokens": 10, "output_tokens": 1}, **fields}
    return {"type": "message_start", "message": begun}


def tool_use(call_id: Any = "toolu_1", name: Any = "look_up", **fields: Any) -> Any:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {}, **fields}


def block(place: Any, begun: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [begin(place, begun), *(delta(place, each) for each in deltas), stop(place)]


def begin(place: Any, begun: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": place, "content_block": begun}


def delta(place: Any, part: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": place, "delta": part}


def stop(place: Any) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": place}


def json_delta(part: Any) -> dict[str, Any]:
    return {"type": "input_json_delta", "partial_json": part}


def text_delta(text: Any) -> dict[str, Any]:
    return {"type": "text_delta", "text": text}


def end(reason: str | None = "tool_use", **fields: Any) -> list[dict[str, Any]]:
    said = {"stop_reason": reason, "stop_sequence": None, **fields}
    usage = {"output_tokens": 20}
    return [{"type": "message_delta", "delta": said, "usage": usage}, {"type": "message_stop"}]


def sse(events: Iterable[dict[str, Any]]) -> bytes:
    """The events as the API sends them."""
    return b"".join(
        f"event: {each['type']}\ndata: {json.dumps(each, ensure_ascii=False)}\n\n".encode()
        for each in events
    )


def faults_of(request: dict[str, Any]) -> list[str]:
    """What the API would refuse in a request, in words."""
    faults = [fault for tool in request.get("tools", []) for fault in _tool_faults(tool)]
    awaited: list[str] = []
    for place, said in enumerate(request["messages"]):
        content = said["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        answers = [each["tool_use_id"] for each in blocks if each["type"] == "tool_result"]
        if awaited and (said["role"] != "user" or answers != awaited):
            faults.append(f"message {place}: the calls {awaited} are answered by {answers}")
        if any(each["type"] != "tool_result" for each in blocks[: len(answers)]):
            faults.append(f"message {place}: the results do not come first")
        faults += [f"message {place}: {fault}" for each in blocks for fault in _block_faults(each)]
        awaited = [each["id"] for each in blocks if each["type"] == "tool_use"]
        ended = [each.get("tool_use_id") for each in blocks]
        open_uses = [
            each["id"]
            for each in blocks
            if each["type"] == "server_tool_use" and each["id"] not in ended
        ]
        # The reply is sent back so that the provider goes on, or with the results of other calls.
        is_last = place == len(request["messages"]) - 1
        if open_uses and not (awaited or is_last):
            faults.append(f"`server_tool_use` {open_uses} without a corresponding result block")
        if not blocks or len(set(awaited)) != len(awaited):
            faults.append(f"message {place}: no content, or an id twice")
    return faults


def _tool_faults(tool: dict[str, Any]) -> Iterable[str]:
    if set(tool) - {"name", "description", "input_schema", "cache_control", "strict"}:
        yield f"tool: extra fields in {sorted(tool)}"
    if not NAME.fullmatch(tool["name"]):
        yield f"tool: name {tool['name']!r}"
    if tool["input_schema"].get("type") != "object":
        yield "tool: input_schema.type must be object"
    if tool.get("strict"):
        yield from _strict_faults(tool["input_schema"])


def _strict_faults(schema: Any) -> Iterable[str]:
    if isinstance(schema, list):
        for each in schema:
            yield from _strict_faults(each)
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        yield "For 'object' type, 'additionalProperties' must be explicitly set to false"
    refused = {"minimum", "maximum", "minLength", "maxLength", "pattern", "maxItems"} & set(schema)
    if refused:
        yield f"properties {sorted(refused)} are not supported"
    for each in (*schema.get("properties", {}).values(), schema.get("items"), schema.get("anyOf")):
        yield from _strict_faults(each)


def _block_faults(block: dict[str, Any]) -> Iterable[str]:
    kind = block["type"]
    if kind == "text" and not block["text"].strip():
        yield "text content blocks must contain non-whitespace text"
    if kind == "thinking" and not block.get("signature"):
        yield "thinking.signature: field required"
    if kind == "tool_use":
        if not isinstance(block["input"], dict):
            yield "tool_use.input: Input should be a valid dictionary"
        if not NAME.fullmatch(block["name"]) or not ID.fullmatch(block["id"]):
            yield f"tool_use: {block['name']!r}, {block['id']!r}"
    if kind == "tool_result":
        extra = set(block) - {"type", "tool_use_id", "content", "is_error"}
        inner = block.get("content", "x")
        empty = inner == "" or any(each.get("text") == "" for each in inner if type(each) is dict)
        if extra or empty:
            yield f"tool_result: {extra or 'empty content'}"
