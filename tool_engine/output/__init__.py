"""How does what a tool returned become what its caller and a model read?"""

from __future__ import annotations

from tool_engine.model.json.returned_value import as_output, to_text

__all__ = ["as_output", "to_text"]
