"""What did a look at a folder of definitions find?"""

from __future__ import annotations

import msgspec

from tool_engine.catalog.folder.file_outcome import FileOutcome
from tool_engine.catalog.index import ToolIndex
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
    is_complete: bool = True
    """False when the folder could not be listed: then its tools stay as they were."""
    version: int = 0
    """Another number than that of an earlier look when anything is different."""
    unsettled: frozenset[str] = frozenset()
    """Files that are being written: they are as they were, and must be looked at again soon."""
