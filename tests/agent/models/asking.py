"""How do the tests ask every provider's client alike?"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

from tool_engine.agent.models.registry import chat_model
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.model.call import ToolCall, ToolExecutionResult
from tool_engine.model.chat import ChatRequest
from tool_engine.model.reply import ParsedReply

__all__ = ["ADD", "CALLS", "PROVIDERS", "TIMEOUT", "ask_model", "client_of", "result"]

TIMEOUT = 20.0
PROVIDERS = ("openai", "openai_responses", "anthropic", "gemini")
ADD = ToolConfigLoader().load_text(
    """
name: add
description: Adds two numbers.
parameters:
  - {name: a, type: integer, required: true, description: The first.}
  - {name: b, type: integer, required: true, description: The second.}
entry: {type: builtin, handler: add}
"""
)
CALLS = [
    ToolCall(call_id="call_a", tool_name="add", arguments={"a": 1, "b": 2}),
    ToolCall(call_id="call_b", tool_name="add", arguments={"a": 3, "b": 4}),
]


def client_of(provider: str, url: str, **options: Any) -> Any:
    """A client of a server on loopback, which asks once."""
    settings = {"base_url": url, "max_retries": 0, **options}
    return chat_model(f"{provider}:model-1", **settings)


def result(value: int) -> ToolExecutionResult:
    """A call that went well."""
    return ToolExecutionResult(tool_name="add", is_success=True, output={"result": value})


async def ask_model(model: Any, messages: list[Any], **fields: Any) -> ParsedReply:
    """One reply, read by the model's own protocol."""
    request = ChatRequest(messages=messages, **fields)
    asking = cast("AsyncGenerator[Any, None]", model.reply(request))
    async with aclosing(asking) as chunks:
        if not request.is_streamed:
            [whole] = [chunk async for chunk in chunks]
            return cast("ParsedReply", model.protocol.parse(whole))
        decoder = model.protocol.decoder()
        async for chunk in chunks:
            decoder.feed(chunk)
    return cast("ParsedReply", decoder.close())
