"""Which snapshots of the tools were there, and which are kept?

Generations share the tools that did not change, so that keeping a few costs next to nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NotRequired, TypedDict

import msgspec

from tool_engine.catalog.approval.quarantine import QuarantinedTool
from tool_engine.catalog.folder.group_merging import group_changes
from tool_engine.catalog.group_view import GroupsView
from tool_engine.catalog.index import ToolIndex
from tool_engine.errors import ConfigurationError, GenerationNotFoundError, ToolQuarantinedError
from tool_engine.model.json.data import Data
from tool_engine.model.tool import Tool


class Generation(msgspec.Struct, Data, frozen=True, kw_only=True):
    """One state of the folder's tools, as calls saw it."""

    number: int
    """Counts from 0, the state before anything was loaded."""
    index: ToolIndex
    """The snapshot."""
    cause: str
    """`start`, `load`, `reload` or `rollback`."""
    at: datetime
    """When it came to be, UTC."""
    added: list[str] = []
    """Names that it added to the generation before."""
    modified: list[str] = []
    """Names whose definition it changed."""
    removed: list[str] = []
    """Names that it took away."""


class ReloadChanges(TypedDict):
    """The names of the tools and groups that a reload changed."""

    added: list[str]
    modified: list[str]
    removed: list[str]
    groups_added: NotRequired[list[str]]
    groups_modified: NotRequired[list[str]]
    groups_removed: NotRequired[list[str]]


class Generations:
    """The present generation, and the last ones before it.

    Args:
        keep: How many are kept, the present one included.
    """

    def __init__(self, keep: int) -> None:
        self.number = 0
        """Counts every change of the snapshot, registrations too."""
        first = Generation(number=0, index=ToolIndex(), cause="start", at=datetime.now(UTC))
        self._kept: deque[Generation] = deque([first], maxlen=keep)

    def __repr__(self) -> str:
        return f"Generations(number={self.number}, kept={[each.number for each in self._kept]})"

    @property
    def index(self) -> ToolIndex:
        return self._kept[-1].index

    def add(self, index: ToolIndex, cause: str) -> Generation:
        """Make `index` the present snapshot; the oldest one that is kept goes."""
        self.number += 1
        added, modified, removed = difference(self.index, index)
        made = Generation(
            number=self.number,
            index=index,
            cause=cause,
            at=datetime.now(UTC),
            added=added,
            modified=modified,
            removed=removed,
        )
        self._kept.append(made)
        return made

    def amend(self, index: ToolIndex) -> None:
        """Take in what was registered in code: no rollback undoes it."""
        self.number += 1
        self._kept[-1] = msgspec.structs.replace(self._kept[-1], index=index)

    def kept(self) -> list[Generation]:
        return list(self._kept)

    def find(self, number: int) -> Generation:
        """Return the state of the folder's tools in generation `number`.

        Raises:
            GenerationNotFoundError: It is not kept, or never was; the message says which are.
            ConfigurationError: `number` is no whole number.
        """
        if isinstance(number, bool) or not isinstance(number, int):
            raise ConfigurationError(f"a generation is a whole number, got {number!r}")
        if self._kept[0].number <= number <= self.number:
            return next(each for each in reversed(self._kept) if each.number <= number)
        kept = ", ".join(str(each.number) for each in self._kept)
        why = "is no longer kept" if 0 <= number <= self.number else "never was"
        raise GenerationNotFoundError(
            f"generation {number} {why}; kept are: {kept}; to go further back next time, raise "
            f"keep_generations ({self._kept.maxlen})"
        )


class GenerationsView(GroupsView):
    """The questions about generations and quarantined tools."""

    _generations: Generations

    @property
    @abstractmethod
    def _quarantined_tools(self) -> Mapping[str, QuarantinedTool]:
        """The quarantined tools by name."""

    @property
    def generation(self) -> int:
        """The number of the present snapshot; each change adds 1."""
        return self._generations.number

    def generations(self) -> list[Generation]:
        """Return the kept generations, oldest first, as `rollback` takes them.

        Registrations in code count on, but keep no generation of their own: a rollback leaves what
        was registered as it is.
        """
        return self._generations.kept()

    def quarantined(self) -> list[QuarantinedTool]:
        """Return the tools that the lock file does not approve, by name."""
        return [self._quarantined_tools[name] for name in sorted(self._quarantined_tools)]

    def get_or_raise(self, name: str) -> Tool:
        """Return the tool of this name.

        Raises:
            ToolQuarantinedError: It exists, but was not approved.
            ToolNotFoundError: There is none; the message names the nearest.
        """
        if name in self._quarantined_tools and name not in self.index:
            raise ToolQuarantinedError(self._quarantined_tools[name].message)
        return super().get_or_raise(name)


def changes_between(before: ToolIndex, after: ToolIndex) -> ReloadChanges:
    """Return the names of tools and groups that differ between snapshots."""
    added, modified, removed = difference(before, after)
    return {
        "added": added,
        "modified": modified,
        "removed": removed,
        **group_changes(before.groups, after.groups),
    }


def difference(before: ToolIndex, after: ToolIndex) -> tuple[list[str], list[str], list[str]]:
    """Return the names of added, modified and removed tools."""
    changed = [(before.get(tool.name), tool) for tool in after.new_since(before)]
    added = [tool.name for old, tool in changed if old is None]
    modified = [
        tool.name
        for old, tool in changed
        if old is not None and old.definition_hash != tool.definition_hash
    ]
    if len(before) + len(added) == len(after):
        return added, modified, []
    return added, modified, [tool.name for tool in before if tool.name not in after]
