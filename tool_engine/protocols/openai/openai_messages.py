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
from tool_engine.model.json.returned_value import to_text
from tool_engine.model.reply import ParsedReply
from tool_engine.protocols.arguments.argument_text import read_arguments
from tool_engine.protocols.object_arguments import make_sendable
from tool_engine.protocols.openai.call_table import WireCall
from tool_engine.protocols.result_content import parts_of
from tool_engine.protocols.result_media import Carried, Media

AUDIO_TYPES: Final = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}
"""The types of audio that the API takes, and its names for them."""
_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]")
_NO_NAME: Final = "unnamed_tool"
_UNREAD: Final = "unreadable_arguments"
_BETWEEN: Final = "I look at the {}."
_MEDIA: Final = "The {} in the result of call {}:"


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
    results: Iterable[tuple[str, ToolExecutionResult]], carried: Carried, *, is_inside: bool = False
) -> list[dict[str, Any]]:
    """Return one `tool` message for each result, then all images, audio and files.

    A message of that role holds text only, and nothing may stand between such messages. Mistral,
    and servers with its templates, refuse a user's message right behind them, so that a line of the
    model's stands between.

    Args:
        results: The id of each call, and its result.
        carried: What the server takes beside texts.
        is_inside: Whether it stays in the message of its result.
    """
    messages: list[dict[str, Any]] = []
    shown: list[tuple[str, list[Media]]] = []
    for call_id, result in results:
        parts = list(carried.write_parts(parts_of(result)))
        content = _write_content(parts, is_inside=is_inside)
        messages.append({"role": "tool", "tool_call_id": call_id, "content": content})
        media = [part for part in parts if isinstance(part, Media)]
        if media and not is_inside:
            shown.append((call_id, media))
    if shown:
        named = _name_media([part for _, media in shown for part in media])
        blocks = [
            block
            for call_id, media in shown
            for block in (
                _write_text(_MEDIA.format(_name_media(media), call_id)),
                *map(_write_media, media),
            )
        ]
        messages.append({"role": "assistant", "content": _BETWEEN.format(named)})
        messages.append({"role": "user", "content": blocks})
    return messages


def _name_media(media: Sequence[Media]) -> str:
    return "images" if all(part.kind == "image" for part in media) else "files"


def _write_content(parts: Sequence[str | Media], *, is_inside: bool) -> str | list[dict[str, Any]]:
    blocks = [
        _write_text(part)
        if isinstance(part, str)
        else _write_media(part)
        if is_inside
        else _write_text(f"[{part.mime_type}: shown in the user message after the results]")
        for part in parts
    ]
    return str(blocks[0]["text"]) if len(blocks) == 1 and "text" in blocks[0] else blocks


def _write_text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": to_text(text)}


def _write_media(part: Media) -> dict[str, Any]:
    if part.kind == "image":
        return {"type": "image_url", "image_url": {"url": part.url}}
    if part.kind == "audio":
        sound = {"data": part.data, "format": AUDIO_TYPES[part.mime_type]}
        return {"type": "input_audio", "input_audio": sound}
    name = part.name if part.name.endswith(".pdf") else f"{part.name}.pdf"
    return {"type": "file", "file": {"filename": to_text(name), "file_data": part.url}}
