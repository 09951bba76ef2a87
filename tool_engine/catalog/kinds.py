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
    marks: Mapping[tuple[str | int, ...], tuple[int, int]] = {}
    """The line and the column of each part of what it says, where it came from a text."""

    def __repr__(self) -> str:
        # What it says may hold secrets.
        return f"ServerDefinition({self.name!r}, {self.place!r})"

    def __rich_repr__(self) -> Any:
        yield repr(self)

    @property
    def place(self) -> str:
        """The file that names it, or the setting."""
        return self.source or "mcp_servers"

    def locate(self, path: tuple[str | int, ...] = ()) -> str:
        """Return `file:line:column` of a part, or of the nearest one around it."""
        while path and path not in self.marks:
            path = path[:-1]
        line, column = self.marks.get(path, (0, 0))
        return f"{self.place}:{line}:{column}" if line else self.place


Definition = Tool | ToolGroup | ServerDefinition
