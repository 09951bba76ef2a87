"""What did a look at a folder find, which snapshot and groups follow, and what changed?

A name that two places claim is an error of each file and keeps its meaning; what is registered in
code is never touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

import msgspec

from tool_engine.catalog.index import ToolIndex
from tool_engine.catalog.kinds import Definition, ServerDefinition
from tool_engine.catalog.loader import duplicate_error
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
        if isinstance(self.held, Tool):
            return [self.held]
        return [each for each in self.held if isinstance(each, Tool)]

    @property
    def is_mixed(self) -> bool:
        """Return True if it holds more than tools."""
        return not isinstance(self.held, Tool) and len(self.tools) < len(self.held)

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
        elif (present := previous.get(tool.name)) is None or present != tool:
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


def _describe_duplicate(
    defined: Tool | ToolGroup, places: list[str], kind: str = "tool"
) -> tuple[str, str]:
    source = str(defined.source)
    return source, str(duplicate_error(defined.name, source, places, kind=kind))


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


class GroupChanges(TypedDict, total=False):
    """The names of the groups that changed; without keys when none did."""

    groups_added: list[str]
    groups_modified: list[str]
    groups_removed: list[str]


def merged_groups(
    previous: Mapping[str, ToolGroup], found: Sequence[ToolGroup]
) -> tuple[dict[str, ToolGroup], list[tuple[str, str]]]:
    """Return the next groups by name, and the refused ones.

    Those of `previous` that were registered in code stay.
    """
    registered = {name: group for name, group in previous.items() if group.source is None}
    groups, errors = dict(registered), list[tuple[str, str]]()
    rivals: dict[str, list[ToolGroup]] = {}
    for group in found:
        rivals.setdefault(group.name, []).append(group)
    for name, same in rivals.items():
        places = [str(group.source) for group in same]
        present = previous.get(name)
        if name in registered:
            places.append("<code>")
        elif len(same) == 1:
            groups[name] = same[0]
        elif present is not None and present.source in places:
            # A name that several files claim keeps its meaning.
            groups[name] = present
        if len(places) > 1:
            errors += [_describe_duplicate(group, places, "group") for group in same]
    return {name: groups[name] for name in sorted(groups)}, errors


def group_changes(before: Mapping[str, ToolGroup], after: Mapping[str, ToolGroup]) -> GroupChanges:
    added = [name for name in after if name not in before]
    modified = [name for name, group in after.items() if before.get(name, group) != group]
    removed = [name for name in before if name not in after]
    if not (added or modified or removed):
        return GroupChanges()
    return GroupChanges(groups_added=added, groups_modified=modified, groups_removed=removed)


def with_registered(
    wanted: Mapping[str, ToolGroup], present: Mapping[str, ToolGroup]
) -> dict[str, ToolGroup]:
    """Return the files' groups in `wanted` with the registered ones in `present`."""
    of_files = {name: group for name, group in wanted.items() if group.source is not None}
    in_code = {name: group for name, group in present.items() if group.source is None}
    return of_files | in_code
