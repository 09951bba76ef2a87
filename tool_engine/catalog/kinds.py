"""What may a definition file define, beside tools and groups?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tool_engine.model.group import ToolGroup
from tool_engine.model.tool import Tool


class ServerDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A server that gives tools, as a file or the configuration names it; it may not run yet."""

    name: str
    content: Mapping[str, Any]
    """What it says of the server: checked, and as it is written, without variables filled in."""
    description: str = ""
    version: str = "1.0.0"
    is_enabled: bool = True
    definition_hash: str = ""
    """sha256 of what is above, without the description."""
    source: str | None = None
    """The file that the definition came from; None: the program."""
    findings: tuple[str, ...] = ()
    """Warnings about the definition, each with its place and cure."""
    folder: str = ""
    """Where its paths count from; what is approved says only where they are in there."""

    @property
    def place(self) -> str:
        """The file that names it, or the setting."""
        return self.source or "mcp_servers"


Definition = Tool | ToolGroup | ServerDefinition
