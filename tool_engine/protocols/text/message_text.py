"""Which text is in a message, a completion or a chunk of Chat Completions?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tool_engine.protocols.chunks import field

_MESSAGE_KEYS: Final = frozenset({"content", "role", "reasoning_content", "reasoning"})


class Said(NamedTuple):
    text: str
    reasoning: str
    stop_reason: str | None = None


def find_text(chunk: Any) -> Said | None:
    """Return the text of a message, completion or chunk, else None."""
    choices = field(chunk, "choices")
    if not isinstance(choices, list | tuple):
        return _read_message(chunk)
    first = choices[0] if choices else {}
    stop_reason = field(first, "finish_reason")
    said = _read_message(field(first, "delta") or field(first, "message")) or Said("", "")
    return said._replace(stop_reason=stop_reason if isinstance(stop_reason, str) else None)


def _read_message(message: Any) -> Said | None:
    if isinstance(message, Mapping):
        is_message = bool(_MESSAGE_KEYS & message.keys())
    else:
        is_message = hasattr(message, "content")
    content = field(message, "content", "") if is_message else None
    text = content if isinstance(content, str) else _join_parts(content)
    if text is None:
        return None
    thoughts = field(message, "reasoning_content") or field(message, "reasoning")
    return Said(text, thoughts if isinstance(thoughts, str) else "")


def _join_parts(parts: Any) -> str | None:
    if not isinstance(parts, list | tuple):
        return None
    texts = [part if isinstance(part, str) else field(part, "text", "") for part in parts]
    return "".join(text for text in texts if isinstance(text, str))
