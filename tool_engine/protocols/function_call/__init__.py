"""How does a model call tools in `<function_call>` tags, or in JSON as its whole reply?"""

from __future__ import annotations

from tool_engine.protocols.function_call.function_call_protocol import FunctionCallProtocol

__all__ = ["FunctionCallProtocol"]
