"""Which arguments did a model mean?"""

from __future__ import annotations

from tool_engine.protocols.arguments.text import ReadArguments, read_arguments

__all__ = ["ReadArguments", "read_arguments"]
