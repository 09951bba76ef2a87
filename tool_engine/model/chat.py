"""What does a request to a model contain?"""

from __future__ import annotations

from typing import Any

import msgspec

from tool_engine.model.checks.known_fields import KnownFields
from tool_engine.model.json.data import Data


class ChatRequest(msgspec.Struct, Data, frozen=True, kw_only=True, metaclass=KnownFields):
    """One request for a reply of a model."""

    messages: list[Any]
    """The conversation so far, in the form of the model's protocol; not changed by the client."""
    system: str = ""
    """Text that the model gets once: instructions, rules, and the tools of a text protocol."""
    tools: Any = None
    """The result of `protocol.definitions(tools)`; None: no tools, or those of a text protocol."""
    may_call: bool = True
    """False: the model must answer without calling a tool, even if tools are listed."""
    max_tokens: int | None = None
    """The most tokens of the reply; None: the client's own setting."""
    is_streamed: bool = True
    """True if the reply is wanted in chunks, while it is written."""
