"""Which snapshots of the tools were there, which are kept, and what did they call secret?

Generations share the tools that did not change, so that keeping a few costs next to nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cached_property
from importlib import import_module
from typing import Any, NotRequired, TypedDict

import msgspec

from tool_engine.catalog.approval.quarantine import QuarantinedTool
from tool_engine.catalog.folder.merging import group_changes
from tool_engine.catalog.index import ToolIndex
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.errors import (
    ConfigurationError,
    DefinitionProblem,
    DuplicateToolError,
    GenerationNotFoundError,
    ToolQuarantinedError,
)
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.event import ToolEngineEventType
from tool_engine.model.group import ToolGroup
from tool_engine.model.json.data import Data
from tool_engine.model.match import ToolMatch
from tool_engine.model.tool import Tool, ToolCategory, may_declare_secrets


class CatalogView:
    """The questions about tools, answered from the snapshot in `index`."""

    index: ToolIndex

    def get(self, name: str) -> Tool | None:
        """Return the tool of this name or alias, or None."""
        return self.index.find(name)

    def get_or_raise(self, name: str) -> Tool:
        """Return the tool of this name or alias.

        Raises:
            ToolNotFoundError: There is none; the message names the nearest.
        """
        return self.index.get_or_raise(name)

    def list_all(self) -> list[Tool]:
        """Return all tools, by name."""
        return self.index.list_all()

    def list_names(self) -> list[str]:
        """Return the names of all tools, sorted."""
        return self.index.list_names()

    def find_by_tag(self, tag: str) -> list[Tool]:
        """Return the tools with the tag `tag`."""
        return self.index.find_by_tag(tag)

    def find_by_tags(self, tags: Iterable[str]) -> list[Tool]:
        """Return the tools with all of `tags`."""
        return self.index.find_by_tags(tags)

    def find_by_any_tag(self, tags: Iterable[str]) -> list[Tool]:
        """Return the tools with at least one of `tags`."""
        return self.index.find_by_any_tag(tags)

    def find_by_category(self, category: ToolCategory | str) -> list[Tool]:
        """Return the tools of a category."""
        return self.index.find_by_category(category)

    def search_tools(self, query: str, limit: int = 10) -> list[ToolMatch]:
        """Return the enabled tools that fit `query` best, in any wording.

        Ranks by BM25 over name, tags, description and parameters; any text is a query of plain
        words. The first search builds what it needs, half a second for 10,000 tools: with
        thousands, call it in a thread (`asyncio.to_thread`) so that the event loop goes on.

        Args:
            query: What is looked for, in words.
            limit: The most matches.

        Returns:
            Best first, then by name; draft, deprecated and quarantined tools are not among them,
            nor are those for code only.

        Raises:
            ConfigurationError: `query` is no text, or `limit` no whole number of 1 or more.
        """
        found: list[ToolMatch] = self._tool_search.find(self.index, query, limit)
        return found

    @cached_property
    def _tool_search(self) -> Any:
        # Loaded on first use: its patterns for all scripts take long to compile.
        return import_module("tool_engine.catalog.search").ToolSearch()

    def search(self, keyword: str) -> list[Tool]:
        """Return the tools with `keyword` in name or description, in any case."""
        return self.index.search(keyword)


class GroupsView(CatalogView):
    """The groups beside the tools of the snapshot in `index`."""

    @property
    def groups(self) -> Mapping[str, ToolGroup]:
        """The present groups by name, sorted; a reload makes new ones.

        A reload swaps tools and groups at once: `index.groups` are those that go with the tools of
        the snapshot `index`.
        """
        return self.index.groups

    def group_warnings(self) -> list[str]:
        """Return warnings about groups, such as names of missing tools.

        Nothing of it keeps a group from being used: the tool may come with the next reload.
        """
        notes: list[str] = import_module("tool_engine.catalog.group_links").group_warnings(
            self.index
        )
        return notes

    def register_group(self, group: ToolGroup | Mapping[str, Any]) -> ToolGroup:
        """Add a group that no file defines; it stays across reloads.

        Args:
            group: The group, or its definition as a mapping, in which `kind` may be left out.

        Returns:
            The group, without a `source`.

        Raises:
            DefinitionError: The definition is not right, or the name is taken.
            EngineClosedError: The engine is closed.

        Example:
            >>> engine = ToolEngine()
            >>> engine.register_group({"name": "web", "tags": ["web"]}).is_enabled
            False
        """
        self._require_open()
        made = group if isinstance(group, ToolGroup) else _load_group(group)
        made = msgspec.structs.replace(made, source=None)
        present = self.groups.get(made.name)
        if present is not None:
            cure = "rename one of the two"
            where = present.source or "<code>"
            message = f"the group {made.name!r} is already defined in {where}; {cure}"
            raise DuplicateToolError(DefinitionProblem(message, "<code>", path="name", cure=cure))
        self._swap_index(self.index.with_groups({**self.groups, made.name: made}))
        self._publish_group(ToolEngineEventType.GROUP_ADDED, made.name)
        return made

    def unregister_group(self, name: str) -> None:
        """Remove a group that was registered in code.

        Raises:
            ConfigurationError: There is none of this name, or it comes from a file.
        """
        group = self.groups.get(name)
        if group is None:
            hint = suggest_near(name, self.groups) or "; see engine.groups"
            raise ConfigurationError(f"there is no group {name!r}{hint}")
        if group.source is not None:
            raise ConfigurationError(
                f"the group {name!r} is defined in {group.source}; remove the file instead"
            )
        rest = {other: each for other, each in self.groups.items() if other != name}
        self._swap_index(self.index.with_groups(rest))
        self._publish_group(ToolEngineEventType.GROUP_REMOVED, name)

    @abstractmethod
    def _publish_group(self, kind: ToolEngineEventType, name: str) -> None:
        """Publish what has become of a group that no file defines."""

    @abstractmethod
    def _swap_index(self, index: ToolIndex, cause: str = "code") -> None:
        """Replace the present snapshot."""

    @abstractmethod
    def _require_open(self) -> None:
        """Raise `EngineClosedError` once the engine is closed."""


def _load_group(definition: Mapping[str, Any]) -> ToolGroup:
    return ToolConfigLoader().group_from_mapping(definition)


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

    def add(self, index: ToolIndex, cause: str, changes: ReloadChanges | None = None) -> Generation:
        """Make `index` the present snapshot; the oldest one that is kept goes.

        Args:
            index: The snapshot.
            cause: Why it came to be.
            changes: How it differs from the present one; None: that is found out.
        """
        self.number += 1
        found = changes_between(self.index, index) if changes is None else changes
        made = Generation(
            number=self.number,
            index=index,
            cause=cause,
            at=datetime.now(UTC),
            added=[*found["added"]],
            modified=[*found["modified"]],
            removed=[*found["removed"]],
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
        if isinstance(name, str) and name in self._quarantined_tools and name not in self.index:
            raise ToolQuarantinedError(self._quarantined_tools[name].message)
        return super().get_or_raise(name)


def changes_between(before: ToolIndex, after: ToolIndex) -> ReloadChanges:
    """Return the names of tools and groups that differ between snapshots."""
    added, modified, removed = find_difference(before, after)
    return {
        "added": added,
        "modified": modified,
        "removed": removed,
        **group_changes(before.groups, after.groups),
    }


def find_difference(before: ToolIndex, after: ToolIndex) -> tuple[list[str], list[str], list[str]]:
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


class FormerSecrets:
    """Carry what was secret over to the definitions that follow.

    A call may come with arguments that were written for a definition that is gone: the model read
    it before a reload, or a person was asked meanwhile. So what was once secret under a tool's name
    stays hidden in its calls for as long as the engine is there.
    """

    def __init__(self) -> None:
        self._known: dict[str, frozenset[str]] = {}

    def keep(self, index: ToolIndex, present: ToolIndex) -> ToolIndex:
        """Return the snapshot that replaces `present`, with what its tools once called secret."""
        for old in present.new_since(index):
            if may_declare_secrets(old) and (secret := old.secret_names | old.secret_parts):
                self._known[old.name] = self._known.get(old.name, frozenset()) | secret
        changes: dict[str, Tool | None] = {}
        for name, known in self._known.items():
            tool = index.get(name)
            if tool is not None and (kept := _with_former(tool, known)) is not tool:
                before = present.get(name)
                # A tool that stays as it is stays the same value, so that a reload changes nothing.
                changes[name] = before if before == kept else kept
        return index.with_changes(changes) if changes else index


def _with_former(tool: Tool, known: frozenset[str]) -> Tool:
    own = msgspec.structs.replace(tool, once_secret=()) if tool.once_secret else tool
    once = tuple(sorted(known - own.secret_names - own.secret_parts))
    return tool if once == tool.once_secret else msgspec.structs.replace(own, once_secret=once)
