"""What is a model asked for?"""

from __future__ import annotations

from typing import Any

import msgspec

from tool_engine.model.checks.known_fields import KnownFields
from tool_engine.model.json.data import Data

__all__ = ["ChatRequest"]


class ChatRequest(msgspec.Struct, Data, frozen=True, kw_only=True, metaclass=KnownFields):
    """One request for a reply of a model."""

    messages: list[Any]
    """The conversation so far, in the form of the model's protocol; not changed by the client."""
    system: str = ""
    """What the model is told once: instructions, rules, and the tools of a text protocol."""
    tools: Any = None
    """What `protocol.definitions(tools)` gave; None: no tools, or those of a text protocol."""
    may_call: bool = True
    """False: the model is to answer without calling a tool, although it may be told of some."""
    max_tokens: int | None = None
    """The most tokens of the reply; None: what the client was made with."""
    is_streamed: bool = True
    """Whether the reply is wanted in chunks, while it is written."""
