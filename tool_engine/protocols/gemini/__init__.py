"""How does Gemini's generateContent call tools?"""

from __future__ import annotations

from tool_engine.protocols.gemini.gemini_protocol import GeminiProtocol

__all__ = ["GeminiProtocol"]
