"""Do the arguments of a call fit its tool, and what exactly is wrong when they do not?"""

from __future__ import annotations

from tool_engine.validation.validator import CompiledParameters, ToolParameterValidator

__all__ = ["CompiledParameters", "ToolParameterValidator"]
