"""How does OpenAI's Responses API write replies, and what does it refuse in a request?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from tool_engine.model.call import ToolCall

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def render_reply(calls: Sequence[ToolCall], text: str = "", **fields: Any) -> dict[str, Any]:
    """A whole response with the text, if there is any, and then the calls."""
    items = [message(text)] if text else []
    return response([*items, *(function_call(call) for call in calls)], **fields)


def response(output: Any, status: str | None = "completed", **fields: Any) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1.0,
        "model": "gpt-test",
        "status": status,
        "error": None,
        "incomplete_details": None,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 20,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 30,
        },
        **fields,
    }


def cut(output: Any, reason: str = "max_output_tokens") -> dict[str, Any]:
    return response(output, "incomplete", incomplete_details={"reason": reason})


def message(text: str, **fields: Any) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [part],
        **fields,
    }


def function_call(call: ToolCall, **fields: Any) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"fc_{call.call_id}",
        "call_id": call.call_id,
        "name": call.tool_name,
        "arguments": json.dumps(call.arguments, ensure_ascii=False),
        "status": "completed",
        **fields,
    }


def reasoning(**fields: Any) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": "I need the time."}]
    item = {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "ZW5j"}
    return {**item, **fields}


def render_stream(calls: Sequence[ToolCall], text: str = "") -> list[dict[str, Any]]:
    """The events of the same response."""
    whole = render_reply(calls, text)
    return stream(whole["output"], whole)


def stream(items: Sequence[dict[str, Any]], whole: dict[str, Any]) -> list[dict[str, Any]]:
    begun = {**whole, "output": [], "status": "in_progress", "usage": None}
    events = [
        event("response.created", response=begun),
        event("response.in_progress", response=begun),
    ]
    for place, item in enumerate(items):
        events += item_events(item, place)
    return numbered([*events, event(f"response.{whole['status']}", response=whole)])


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"{kind}", **fields}


def numbered(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**each, "sequence_number": place} for place, each in enumerate(events)]


def item_events(item: dict[str, Any], place: int) -> list[dict[str, Any]]:
    at = {"item_id": item.get("id"), "output_index": place}
    inner: list[dict[str, Any]] = []
    begun = {**item, "status": "in_progress"}
    if item["type"] == "function_call":
        begun["arguments"] = ""
        inner = [arguments_delta(part, **at) for part in pieces(item["arguments"])]
        inner.append(arguments_done(item["arguments"], **at, name=item["name"]))
    elif item["type"] == "message":
        begun["content"] = []
        inner = [
            each for n, part in enumerate(item["content"]) for each in part_events(part, n, at)
        ]
    elif item["type"] == "reasoning":
        begun = {**item, "summary": [], "encrypted_content": None}
        for n, part in enumerate(item["summary"]):
            where = {**at, "summary_index": n}
            kind = "response.reasoning_summary_text"
            inner += [event(f"{kind}.delta", delta=each, **where) for each in pieces(part["text"])]
            inner.append(event(f"{kind}.done", text=part["text"], **where))
    return [
        event("response.output_item.added", item=begun, output_index=place),
        *inner,
        event("response.output_item.done", item=item, output_index=place),
    ]


def part_events(part: dict[str, Any], n: int, at: dict[str, Any]) -> list[dict[str, Any]]:
    where = {**at, "content_index": n}
    kind, name = ("refusal", "refusal") if part["type"] == "refusal" else ("output_text", "text")
    begun = {**part, name: ""}
    logprobs: dict[str, Any] = {"logprobs": []} if name == "text" else {}
    return [
        event("response.content_part.added", part=begun, **where),
        *(
            event(f"response.{kind}.delta", delta=each, **where, **logprobs)
            for each in pieces(part[name])
        ),
        event(f"response.{kind}.done", **{name: part[name]}, **where, **logprobs),
        event("response.content_part.done", part=part, **where),
    ]


def arguments_delta(part: Any, **at: Any) -> dict[str, Any]:
    return event("response.function_call_arguments.delta", delta=part, **at)


def arguments_done(arguments: Any, **at: Any) -> dict[str, Any]:
    return event("response.function_call_arguments.done", arguments=arguments, **at)


def pieces(text: str) -> list[str]:
    return [text[at : at + 7] for at in range(0, len(text), 7)]


def sse(events: Iterable[dict[str, Any]]) -> bytes:
    """The events as the API sends them."""
    return b"".join(
        f"event: {each['type']}\ndata: {json.dumps(each, ensure_ascii=False)}\n\n".encode()
        for each in events
    )


def faults_of(request: dict[str, Any]) -> list[str]:
    """What the API would refuse in a request, in words."""
    faults = [fault for tool in request.get("tools", []) for fault in _tool_faults(tool)]
    items = request["input"]
    asked = [item["call_id"] for item in items if item.get("type") == "function_call"]
    answered = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    faults += [
        f"No tool output found for function call {each}" for each in asked if each not in answered
    ]
    faults += [f"No tool call found for output {each}" for each in answered if each not in asked]
    faults += [
        f"No tool output found for {item['type']} {item.get('id')}"
        for item in items
        if item.get("type") in AWAITED
    ]
    calls = {item["call_id"]: item for item in items if item.get("type") == "function_call"}
    for item in items:
        call = calls.get(item.get("call_id", "")) if "output" in item else None
        for name in ("caller", "namespace"):
            if call is not None and item.get(name) != call.get(name):
                faults.append(f"the output has another {name} than its call: {item.get(name)}")
    if len(set(asked)) != len(asked):
        faults.append("a call_id twice")
    for place, item in enumerate(items):
        faults += [f"input[{place}]: {fault}" for fault in _item_faults(item)]
        if item.get("type") == "reasoning":
            following = items[place + 1].get("type") if place + 1 < len(items) else None
            if following not in ("message", "function_call", "reasoning"):
                faults.append(f"input[{place}]: reasoning without its required following item")
    return faults


def _tool_faults(tool: dict[str, Any]) -> Iterable[str]:
    if set(tool) != {"type", "name", "description", "parameters", "strict"}:
        yield f"tool: the fields are {sorted(tool)}"
    if not NAME.fullmatch(tool["name"]) or tool["parameters"].get("type") != "object":
        yield f"tool: {tool['name']!r}"
    properties = tool["parameters"].get("properties", {})
    if tool["strict"] and set(tool["parameters"].get("required", ())) != set(properties):
        yield "tool: strict wants every property to be required"


AWAITED = ("custom_tool_call", "computer_call", "shell_call", "mcp_approval_request")
FIELDS = {
    "function_call": {
        "type",
        "id",
        "call_id",
        "name",
        "arguments",
        "status",
        "async",
        "caller",
        "namespace",
    },
    "function_call_output": {
        *("type", "id", "call_id", "output", "status", "caller", "namespace", "name")
    },
    "reasoning": {"type", "id", "summary", "content", "encrypted_content"},
    "message": {"type", "id", "role", "content", "status", "phase"},
}


def _item_faults(item: dict[str, Any]) -> Iterable[str]:
    kind = item.get("type", "message")
    extra = set(item) - FIELDS.get(kind, set(item))
    if extra:
        yield f"Unknown parameter: {sorted(extra)}"
    if kind == "function_call":
        if not isinstance(item["arguments"], str) or not NAME.fullmatch(item["name"]):
            yield f"{item['name']!r}, {item['arguments']!r}"
        elif not isinstance(json.loads(item["arguments"]), dict):
            yield "the arguments are no object"
    if kind == "function_call_output" and not isinstance(item["output"], str):
        kinds = {part["type"] for part in item["output"]}
        if not kinds <= {"input_text", "input_image", "input_file"}:
            yield f"output: {kinds}"
    if item.get("status", "completed") not in ("in_progress", "completed", "incomplete"):
        yield f"status {item['status']!r}"
