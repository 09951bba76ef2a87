"""How does a model write calls in `<function_call>` tags?"""

from __future__ import annotations

from collections.abc import Sequence

from tool_engine.model.call import ToolCall
from tool_engine.protocols.function_call import FunctionCallProtocol

__all__ = ["render_reply", "render_stream"]


def render_reply(calls: Sequence[ToolCall], text: str = "") -> str:
    """The text, and then each call on lines of its own."""
    protocol = FunctionCallProtocol()
    blocks = [protocol.render_call(call) for call in calls]
    return "\n".join([text, *blocks] if blocks else [text])


def render_stream(calls: Sequence[ToolCall], text: str = "") -> bytes:
    """The same in UTF-8."""
    return render_reply(calls, text).encode()
