"""How does Gemini's generateContent call tools?"""

from __future__ import annotations

from tool_engine.protocols.gemini.protocol import GeminiProtocol

__all__ = ["GeminiProtocol"]
