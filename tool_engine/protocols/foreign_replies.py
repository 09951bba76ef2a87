"""Which protocol has a reply that was given to another one?"""

from __future__ import annotations

from typing import Any, Final

from tool_engine.protocols.chunks import read_field

_RESPONSE_EVENTS: Final = ("response.created", "response.in_progress", "response.completed")


def find_protocol(payload: Any) -> str:
    """Return the name of the protocol whose sign the beginning of a reply has; empty if none.

    Args:
        payload: A reply, or the first part of one: a mapping or an SDK's object.
    """
    if isinstance(read_field(payload, "choices"), list):
        return "openai"
    if isinstance(read_field(payload, "candidates"), list):
        return "gemini"
    kind, content = read_field(payload, "type"), read_field(payload, "content")
    parts = content if isinstance(content, list) else []
    is_message = kind == "message" and isinstance(read_field(payload, "stop_reason"), str)
    if (
        kind == "message_start"
        or is_message
        or any(read_field(each, "type") == "tool_use" for each in parts)
    ):
        return "anthropic"
    is_response = read_field(payload, "object") == "response" or kind in _RESPONSE_EVENTS
    return "openai_responses" if is_response else ""
