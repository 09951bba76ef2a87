"""What does one file of a folder of definitions stand for?"""

from __future__ import annotations

import msgspec

from tool_engine.model.tool import Tool

__all__ = ["FileOutcome"]


class FileOutcome(msgspec.Struct, frozen=True, gc=False):
    """What one file stands for: its tools, or the last good ones when it is broken."""

    path: str
    held: Tool | tuple[Tool, ...]
    """Its one tool, or all of several: with a list for each of thousands of files, a garbage
    collection would take twice as long."""
    error: str | None = None
    """What keeps the file from being loaded; then `tools` is what it held before."""

    @classmethod
    def of(cls, path: str, tools: list[Tool], error: str | None = None) -> FileOutcome:
        """The outcome of a file that stands for `tools`."""
        return cls(path, tools[0] if len(tools) == 1 else tuple(tools), error)

    @property
    def tools(self) -> list[Tool]:
        """The tools, in the order of the file."""
        return [self.held] if isinstance(self.held, Tool) else list(self.held)
