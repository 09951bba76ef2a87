"""Which provider's form has a reply whose reader may be that of another one?

Text protocols read the text of a reply only, and native ones what they know. This file finds the
calls that a provider sends beside that, which would otherwise be lost silently.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tool_engine.model.reply import ParsedReply
from tool_engine.protocols.chunks import read_field

_PLACES: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    ("openai", "choices", ("message", "tool_calls")),
    ("openai", "choices", ("delta", "tool_calls")),
    ("openai", "tool_calls", ()),
    ("openai_responses", "output", ()),
    ("openai_responses", "response", ("output",)),
    ("openai_responses", "item", ()),
    ("openai_responses", "", ()),
    ("anthropic", "content", ()),
    ("anthropic", "content_block", ()),
    ("gemini", "candidates", ("content", "parts")),
    ("gemini", "content", ("parts",)),
    ("gemini", "parts", ()),
)
"""Where calls are: in a whole reply, a message, a part of a stream."""
_TEXTS: Final = (str, bytes, bytearray, memoryview)
_RESPONSE_EVENTS: Final = ("response.created", "response.in_progress", "response.completed")
_TYPES: Final = {"openai_responses": "function_call", "anthropic": "tool_use"}


def find_form(reply: object) -> str | None:
    """Return the name of the protocol whose calls a reply holds.

    The reply is a mapping, an SDK's object, a list of these, or a reply that a protocol has read.
    Text is not searched: it is no reply of a provider.
    """
    if isinstance(reply, ParsedReply):
        reply = reply.message
    for part in reply if isinstance(reply, list | tuple) else (reply,):
        if part is None or isinstance(part, _TEXTS):
            continue
        # SDK objects are slow to report a missing field.
        known = part if type(part) is dict else getattr(part, "__dict__", None)
        for name, key, path in _PLACES:
            if key and known is not None and key not in known:
                continue
            inner = read_field(part, key) if key else part
            if inner is not None and any(_is_call(each, name) for each in _find_parts(inner, path)):
                return name
    return None


def find_owner(beginning: object) -> str | None:
    """Return the name of the protocol that a reply is of, by its first part or all of it.

    The reply is as for `find_form`. Some forms have a sign before any call; None: it has neither.
    """
    if isinstance(read_field(beginning, "choices"), list):
        return "openai"
    if isinstance(read_field(beginning, "candidates"), list):
        return "gemini"
    kind, reason = read_field(beginning, "type"), read_field(beginning, "stop_reason")
    if kind == "message_start" or (kind == "message" and isinstance(reason, str)):
        return "anthropic"
    if kind in _RESPONSE_EVENTS or read_field(beginning, "object") == "response":
        return "openai_responses"
    return find_form(beginning)


def _find_parts(value: Any, path: Sequence[str]) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for each in value:
            if each is not None:
                yield from _find_parts(each, path)
    elif type(value) is dict or isinstance(value, Mapping) or hasattr(value, "model_dump"):
        if not path:
            yield value
        elif (inner := read_field(value, path[0])) is not None:
            yield from _find_parts(inner, path[1:])


def _is_call(part: Any, protocol: str) -> bool:
    if protocol == "gemini":
        return bool(read_field(part, "functionCall") or read_field(part, "function_call"))
    if protocol == "openai":
        return read_field(part, "function") is not None
    return bool(read_field(part, "type") == _TYPES[protocol])
