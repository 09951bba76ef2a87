"""How does a model call tools in VCP, the text protocol of `<<<[TOOL_REQUEST]>>>` blocks?"""

from __future__ import annotations

from tool_engine.protocols.vcp.vcp_protocol import VCPProtocol

__all__ = ["VCPProtocol"]
