"""How do OpenAI's Chat Completions, and the servers that speak like it, call tools?"""

from __future__ import annotations

from tool_engine.protocols.openai.protocol import OpenAIProtocol

__all__ = ["OpenAIProtocol"]
