"""Which questions about tools does every holder of a snapshot answer?"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from importlib import import_module
from typing import Any

from tool_engine.catalog.index import ToolIndex
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
