"""What do the protocols share that call tools in plain text?"""

from __future__ import annotations

from tool_engine.protocols.text.text_protocol import TextProtocol

__all__ = ["TextProtocol"]
