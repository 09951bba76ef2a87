"""Which snapshot follows from what a folder holds, and what changed?

A name that two places claim is an error of each file and keeps its meaning; what is registered in
code is never touched.
"""

from __future__ import annotations

import msgspec

from tool_engine.catalog.folder.folder_outcome import FolderOutcome
from tool_engine.catalog.folder.group_merging import merged_groups
from tool_engine.catalog.index import ToolIndex
from tool_engine.catalog.loader import duplicate_error
from tool_engine.model.tool import Tool


class ScanOutcome(msgspec.Struct, frozen=True):
    """The next snapshot, and how it differs from the one before."""

    index: ToolIndex
    """The very snapshot from before when nothing is different."""
    added: list[str] = []
    modified: list[str] = []
    """Names whose definition hash changed."""
    removed: list[str] = []
    errors: list[tuple[str, str]] = []
    """`(file, message)` of everything that could not be loaded."""


def merge_folder(previous: ToolIndex, folder: FolderOutcome) -> ScanOutcome:
    """Build the snapshot after `previous` from a look at the folder.

    Quick and without I/O, so that it can run where `previous` cannot change meanwhile.
    """
    errors = list(folder.errors)
    if not folder.is_complete:
        return ScanOutcome(previous, errors=errors)
    changes: dict[str, Tool | None] = {}
    claimed, known = new_tools(previous, folder), previous.new_since(folder.claims)
    for tool in claimed:
        if tool.name in previous.registered:
            errors.append(_describe_duplicate(tool, ["<code>"]))
        elif previous.get(tool.name) != tool:
            changes[tool.name] = tool
    for tool in known:
        if tool.source is not None and tool.name not in folder.claims:
            rivals = folder.rivals.get(tool.name, ())
            # A name that several files claim keeps its meaning.
            if tool.source not in [rival.source for rival in rivals]:
                changes[tool.name] = None
    for name, rivals in folder.rivals.items():
        places = [str(rival.source) for rival in rivals]
        places += ["<code>"] if name in previous.registered else []
        errors += [_describe_duplicate(rival, places) for rival in rivals]
    index = previous.with_changes(changes) if changes else previous
    groups, group_errors = merged_groups(previous.groups, folder.groups)
    errors += group_errors
    if groups != previous.groups:
        index = index.with_groups(groups)
    index.note_difference(folder.claims, {tool.name for tool in claimed + known} - changes.keys())
    return ScanOutcome(index, *_compare_names(previous, changes), sorted(set(errors)))


def new_tools(previous: ToolIndex, folder: FolderOutcome) -> list[Tool]:
    """Return the folder's tools that `previous` lacks and only one file defines."""
    return folder.claims.new_since(previous)


def _describe_duplicate(tool: Tool, places: list[str]) -> tuple[str, str]:
    source = str(tool.source)
    return source, str(duplicate_error(tool.name, source, places))


def _compare_names(
    previous: ToolIndex, changes: dict[str, Tool | None]
) -> tuple[list[str], list[str], list[str]]:
    added = [name for name in changes if name not in previous]
    removed = [name for name, tool in changes.items() if tool is None]
    modified = [
        name
        for name, tool in changes.items()
        if tool is not None
        and (old := previous.get(name)) is not None
        and old.definition_hash != tool.definition_hash
    ]
    return sorted(added), sorted(modified), sorted(removed)
