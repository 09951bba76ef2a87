"""What did a look at a folder of definitions find?"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tool_engine.catalog.index import ToolIndex
from tool_engine.catalog.kinds import Definition, ServerDefinition
from tool_engine.model.group import ToolGroup
from tool_engine.model.tool import Tool


class FolderOutcome(msgspec.Struct, frozen=True):
    """All that a look at the folder found, changed or not."""

    files: tuple[FileOutcome, ...]
    claims: ToolIndex
    """The tools whose names one file defines."""
    rivals: dict[str, list[Tool]]
    """The tools of each name that several files define."""
    groups: list[ToolGroup]
    """The groups of all files, by file; several may have the same name."""
    errors: list[tuple[str, str]]
    """`(file, message)` of each file that is broken, and of a folder that cannot be read."""
    servers: list[ServerDefinition] = []
    """The servers of all files, by file; several may have the same name."""
    is_complete: bool = True
    """False when the folder could not be listed: then its tools stay as they were."""
    version: int = 0
    """Another number than that of an earlier look when anything is different."""
    unsettled: frozenset[str] = frozenset()
    """Files that are being written: they are as they were, and must be looked at again soon."""


class FileOutcome(msgspec.Struct, frozen=True, gc=False):
    """What a file defines, or its last good definitions."""

    path: str
    held: Tool | tuple[Definition, ...]
    """Its one tool, or all of several: with a list for each of thousands of files, a garbage
    collection would take twice as long.
    """
    error: str | None = None
    """Why the file cannot be loaded; `held` is what it held before."""

    @classmethod
    def of(
        cls, path: str, definitions: Sequence[Definition], error: str | None = None
    ) -> FileOutcome:
        sole = definitions[0] if len(definitions) == 1 else None
        return cls(path, sole if isinstance(sole, Tool) else tuple(definitions), error)

    @property
    def definitions(self) -> list[Definition]:
        return [self.held] if isinstance(self.held, Tool) else list(self.held)

    @property
    def tools(self) -> list[Tool]:
        return [each for each in self.definitions if isinstance(each, Tool)]

    @property
    def groups(self) -> list[ToolGroup]:
        if isinstance(self.held, Tool):
            return []
        return [each for each in self.held if isinstance(each, ToolGroup)]

    @property
    def servers(self) -> list[ServerDefinition]:
        if isinstance(self.held, Tool):
            return []
        return [each for each in self.held if isinstance(each, ServerDefinition)]
