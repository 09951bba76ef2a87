"""What does one file of a folder of definitions stand for?"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tool_engine.model.group import ToolGroup
from tool_engine.model.tool import Tool

__all__ = ["FileOutcome"]


class FileOutcome(msgspec.Struct, frozen=True, gc=False):
    """What one file stands for: its tools and groups, or the last good ones when it is broken."""

    path: str
    held: Tool | tuple[Tool | ToolGroup, ...]
    """Its one tool, or all of several: with a list for each of thousands of files, a garbage
    collection would take twice as long."""
    error: str | None = None
    """What keeps the file from being loaded; then `held` is what it held before."""

    @classmethod
    def of(
        cls, path: str, definitions: Sequence[Tool | ToolGroup], error: str | None = None
    ) -> FileOutcome:
        """The outcome of a file that stands for these tools and groups."""
        sole = definitions[0] if len(definitions) == 1 else None
        return cls(path, sole if isinstance(sole, Tool) else tuple(definitions), error)

    @property
    def definitions(self) -> list[Tool | ToolGroup]:
        """The tools and groups, in the order of the file."""
        return [self.held] if isinstance(self.held, Tool) else list(self.held)

    @property
    def tools(self) -> list[Tool]:
        """The tools, in the order of the file."""
        return [each for each in self.definitions if isinstance(each, Tool)]

    @property
    def groups(self) -> list[ToolGroup]:
        """The groups, in the order of the file."""
        if isinstance(self.held, Tool):
            return []
        return [each for each in self.held if isinstance(each, ToolGroup)]
