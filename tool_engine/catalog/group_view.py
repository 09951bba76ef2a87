"""Which groups are there, and how does code add one?"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from functools import cached_property
from importlib import import_module
from typing import Any

import msgspec

from tool_engine.catalog.index import ToolIndex
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.errors import ConfigurationError, DefinitionProblem, DuplicateToolError
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.group import ToolGroup
from tool_engine.model.match import ToolMatch
from tool_engine.model.tool import Tool, ToolCategory


class CatalogView:
    """The questions about tools, answered from the snapshot in `index`."""

    index: ToolIndex

    def get(self, name: str) -> Tool | None:
        """Return the tool of this name, or None."""
        return self.index.get(name)

    def get_or_raise(self, name: str) -> Tool:
        """Return the tool of this name.

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
            Best first, then by name; draft, deprecated and quarantined tools are not among them.

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

    @abstractmethod
    def _swap_index(self, index: ToolIndex, cause: str = "code") -> None:
        """Replace the present snapshot."""

    @abstractmethod
    def _require_open(self) -> None:
        """Raise `EngineClosedError` once the engine is closed."""


def _load_group(definition: Mapping[str, Any]) -> ToolGroup:
    return ToolConfigLoader().group_from_mapping(definition)
