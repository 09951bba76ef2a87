"""How are tools, calls and results spoken to each model?"""

from __future__ import annotations

from tool_engine.protocols.definitions import FORMATS, definitions

__all__ = ["FORMATS", "definitions"]
