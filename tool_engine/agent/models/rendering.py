"""How would each provider have sent a handwritten reply?"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tool_engine.errors import ConfigurationError
from tool_engine.model.call import ToolCall

_PIECE: Final = 12


def render_reply(wire: str, text: str, calls: Sequence[ToolCall] = ()) -> dict[str, Any]:
    """Return a whole reply of protocol `wire`; calls have their sent names.

    Raises:
        ConfigurationError: The form of this protocol is not known here.
    """
    form = _FORMS.get(wire)
    if form is None:
        raise ConfigurationError(
            f"text and calls cannot be written in the form of {wire!r}, only of "
            f"{', '.join(_FORMS)}: write reply or chunks as the provider sends them"
        )
    return form(text, calls)


def render_chunks(wire: str, text: str, calls: Sequence[ToolCall] = ()) -> list[Any]:
    if wire == "openai":
        return _render_openai_chunks(text, calls)
    if wire == "gemini":
        said = [_render_gemini_chunk([{"text": piece}]) for piece in split_text(text)]
        return [*said, render_reply(wire, "", calls)]
    # A decoder also takes a whole reply in place of its events.
    return [render_reply(wire, text, calls)]


def split_text(text: str) -> list[str]:
    return [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]


def _render_openai(text: str, calls: Sequence[ToolCall]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = [_render_openai_call(call) for call in calls]
    reason = "tool_calls" if calls else "stop"
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return {"object": "chat.completion", "choices": [choice]}


def _render_openai_chunks(text: str, calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
    deltas: list[dict[str, Any]] = [{"content": piece} for piece in split_text(text)]
    deltas += [
        {"tool_calls": [{"index": place, **_render_openai_call(call)}]}
        for place, call in enumerate(calls)
    ]
    choices: list[dict[str, Any]] = [
        {"index": 0, "delta": delta, "finish_reason": None} for delta in deltas
    ]
    reason = "tool_calls" if calls else "stop"
    choices.append({"index": 0, "delta": {}, "finish_reason": reason})
    return [{"object": "chat.completion.chunk", "choices": [choice]} for choice in choices]


def _render_openai_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.tool_name, "arguments": json.dumps(call.arguments)}
    return {"id": call.call_id, "type": "function", "function": function}


def _render_openai_responses(text: str, calls: Sequence[ToolCall]) -> dict[str, Any]:
    items: list[dict[str, Any]] = []
    if text:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        items.append({"type": "message", "role": "assistant", "content": content})
    items += [
        {
            "type": "function_call",
            "call_id": call.call_id,
            "name": call.tool_name,
            "arguments": json.dumps(call.arguments),
            "status": "completed",
        }
        for call in calls
    ]
    return {"object": "response", "status": "completed", "output": items}


def _render_anthropic(text: str, calls: Sequence[ToolCall]) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    content += [
        {"type": "tool_use", "id": call.call_id, "name": call.tool_name, "input": call.arguments}
        for call in calls
    ]
    reason = "tool_use" if calls else "end_turn"
    return {"type": "message", "role": "assistant", "content": content, "stop_reason": reason}


def _render_gemini(text: str, calls: Sequence[ToolCall]) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"text": text}] if text else []
    parts += [
        {"functionCall": {"id": call.call_id, "name": call.tool_name, "args": call.arguments}}
        for call in calls
    ]
    return _render_gemini_chunk(parts, "STOP")


def _render_gemini_chunk(parts: list[dict[str, Any]], finish: str | None = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": parts}}
    return {"candidates": [{**candidate, "finishReason": finish} if finish else candidate]}


_FORMS: Final[Mapping[str, Callable[[str, Sequence[ToolCall]], dict[str, Any]]]] = {
    "openai": _render_openai,
    "openai_responses": _render_openai_responses,
    "anthropic": _render_anthropic,
    "gemini": _render_gemini,
}
