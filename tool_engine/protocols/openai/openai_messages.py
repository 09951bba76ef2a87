"""How do a reply and the results of its calls go back into a Chat Completions conversation?

Servers check these messages: ids must be unique, names in their characters, and many read the
arguments as JSON although the API only asks for text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tool_engine.model.call import ToolCall, ToolExecutionResult
from tool_engine.model.json.output import to_text
from tool_engine.model.reply import ParsedReply
from tool_engine.protocols.arguments.argument_text import read_arguments
from tool_engine.protocols.object_arguments import make_sendable
from tool_engine.protocols.openai.call_table import WireCall
from tool_engine.protocols.result_content import ResultPart, parts_of

_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]")
_NO_NAME: Final = "unnamed_tool"
_UNREAD: Final = "unreadable_arguments"
_BETWEEN: Final = "I look at the images."
_IMAGES: Final = "The images in the result of call {}:"


def write_reply(
    reply: ParsedReply, calls: Sequence[WireCall], extra: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the reply as one message in a list, or no message.

    `extra` holds fields that servers with reasoning want back, where there are calls.
    """
    message: dict[str, Any] = {"role": "assistant", "content": to_text(reply.text) or None}
    if reply.refusal is not None:
        parts = [{"type": "text", "text": to_text(reply.text)}] if reply.text else []
        message["content"] = [*parts, {"type": "refusal", "refusal": to_text(reply.refusal)}]
    if reply.calls:
        pairs = zip(reply.calls, calls, strict=True)
        message["tool_calls"] = [_write_call(call, wire) for call, wire in pairs]
        message.update(make_sendable(extra))
    return [message] if reply.calls or message["content"] else []


def _write_call(call: ToolCall, wire: WireCall) -> dict[str, Any]:
    name = _OTHER.sub("_", wire.name or _NO_NAME)[:64]
    if wire.is_custom:
        custom = {"name": name, "input": to_text(call.raw)}
        return {"id": call.call_id, "type": "custom", "custom": custom, **make_sendable(wire.extra)}
    function = {"name": name, "arguments": _write_arguments(call, wire)}
    return {
        "id": call.call_id,
        "type": "function",
        "function": function,
        **make_sendable(wire.extra),
    }


def _write_arguments(call: ToolCall, wire: WireCall) -> str:
    written = read_arguments(call.raw, repair=False).value
    if written is not None and not written.keys() and not call.raw.strip():
        return "{}"
    if written is not None:
        return call.raw if to_text(call.raw) == call.raw else json.dumps(written)
    read = wire.call.read
    value = None if read is None else read.value
    return json.dumps({_UNREAD: call.raw} if value is None else value)


def write_results(
    results: Iterable[tuple[str, ToolExecutionResult]], *, is_inside: bool = False
) -> list[dict[str, Any]]:
    """Return one `tool` message for each result, then all images.

    A message of that role holds text only, and nothing may stand between such messages. Mistral,
    and servers with its templates, refuse a user's message right behind them, so that a line of the
    model's stands between.

    Args:
        results: The id of each call, and its result.
        is_inside: Whether images stay in the message of their result.
    """
    messages: list[dict[str, Any]] = []
    images: list[dict[str, Any]] = []
    for call_id, result in results:
        parts = parts_of(result)
        content = _write_content(parts, is_inside=is_inside)
        messages.append({"role": "tool", "tool_call_id": call_id, "content": content})
        shown = [_write_image(part) for part in parts if part.data is not None and not is_inside]
        if shown:
            images += [{"type": "text", "text": _IMAGES.format(call_id)}, *shown]
    if images:
        messages.append({"role": "assistant", "content": _BETWEEN})
        messages.append({"role": "user", "content": images})
    return messages


def _write_content(parts: Sequence[ResultPart], *, is_inside: bool) -> str | list[dict[str, Any]]:
    if is_inside and any(part.data is not None for part in parts):
        return [
            _write_image(each) if each.data is not None else _write_block(each) for each in parts
        ]
    blocks = [_write_block(part) for part in parts]
    return str(blocks[0]["text"]) if len(blocks) == 1 else blocks


def _write_block(part: ResultPart) -> dict[str, Any]:
    return {"type": "text", "text": _write_text(part)}


def _write_text(part: ResultPart) -> str:
    if part.text is not None:
        return to_text(part.text)
    return f"[{part.media_type}: shown in the user message after the results]"


def _write_image(part: ResultPart) -> dict[str, Any]:
    url = f"data:{part.media_type};base64,{part.data}"
    return {"type": "image_url", "image_url": {"url": url}}
