"""How do OpenAI's Chat Completions and compatible servers call tools?"""

from __future__ import annotations

from tool_engine.protocols.openai.openai_protocol import OpenAIProtocol

__all__ = ["OpenAIProtocol"]
