"""Which groups exist after a look, and which of them changed?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from tool_engine.catalog.loader import duplicate_error
from tool_engine.model.group import ToolGroup


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
            errors += [_describe_duplicate(group, places) for group in same]
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


def _describe_duplicate(group: ToolGroup, places: list[str]) -> tuple[str, str]:
    source = str(group.source)
    return source, str(duplicate_error(group.name, source, places, kind="group"))
