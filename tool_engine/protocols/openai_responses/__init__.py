"""How does OpenAI's Responses API call tools?"""

from __future__ import annotations

from tool_engine.protocols.openai_responses.responses_protocol import OpenAIResponsesProtocol

__all__ = ["OpenAIResponsesProtocol"]
