"""What is one answer to a search for tools?"""

from __future__ import annotations

import msgspec

from tool_engine.model.json.data import Data
from tool_engine.model.tool import Tool


class ToolMatch(msgspec.Struct, Data, frozen=True):
    """A tool that fits a search, and how well."""

    tool: Tool
    score: float
    """BM25: more is better; comparable within one search, not between two."""

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.tool.name

    @property
    def description(self) -> str:
        """The tool's description."""
        return self.tool.description
