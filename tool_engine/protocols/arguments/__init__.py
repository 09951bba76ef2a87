"""How are the arguments that a model wrote turned into values?"""

from __future__ import annotations

from tool_engine.protocols.arguments.argument_text import ReadArguments, read_arguments

__all__ = ["ReadArguments", "read_arguments"]
