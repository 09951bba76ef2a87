"""How does Anthropic's Messages API call tools?"""

from __future__ import annotations

from tool_engine.protocols.anthropic.anthropic_protocol import AnthropicProtocol

__all__ = ["AnthropicProtocol"]
