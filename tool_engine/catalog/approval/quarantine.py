"""Which tool exists but may not be called, and why?"""

from __future__ import annotations

import msgspec

from tool_engine.model.json.data import Data
from tool_engine.model.tool import Tool


class QuarantinedTool(msgspec.Struct, Data, frozen=True):
    """A tool that may not be called, as it is not approved."""

    tool: Tool
    reason: str
    """`new`, `changed`, `handler_changed`, or `no_lock` when the lock file cannot be used."""
    message: str
    """Why, and how it is approved."""
    approved_version: str | None = None
    """The version that was approved, if one was."""

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.tool.name
