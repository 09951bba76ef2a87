"""Which tools are there right now, and how is one of them found?

A `ToolIndex` is one immutable snapshot: whoever holds it sees the same tools for as long as they
hold it, whatever is reloaded meanwhile.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final

from tool_engine.errors import DefinitionProblem, DuplicateToolError, ToolNotFoundError
from tool_engine.model.tool import Tool, ToolCategory

__all__ = ["ToolIndex"]

_CANDIDATES: Final = 20
_LONGEST_NAME: Final = 128


class ToolIndex:
    """An immutable, searchable set of tools.

    Every list is sorted by tool name.

    Example:
        >>> ToolIndex().list_names()
        []
    """

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {
            tool.name: tool for tool in sorted(tools, key=lambda tool: tool.name)
        }

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __repr__(self) -> str:
        names = ", ".join(list(self._tools)[:8])
        return f"ToolIndex({len(self)} tools: {names}{', …' if len(self) > 8 else ''})"

    def get(self, name: str) -> Tool | None:
        """The tool of this name, or None."""
        return self._tools.get(name)

    def get_or_raise(self, name: str) -> Tool:
        """The tool of this name.

        Raises:
            ToolNotFoundError: There is none; the message names the nearest ones.
        """
        tool = self._tools.get(name)
        if tool is None:
            near = ", ".join(map(repr, self.nearest(name)))
            shown = repr(name[:_LONGEST_NAME])
            hint = f"; did you mean {near}?" if near else f"; {len(self)} tools are loaded"
            raise ToolNotFoundError(f"there is no tool named {shown}{hint}")
        return tool

    def nearest(self, name: str, limit: int = 3) -> list[str]:
        """The names most like `name`, best first; quick among thousands and for any text."""
        name = name[:_LONGEST_NAME].casefold()
        shared: Counter[str] = Counter()
        for pair in _pairs(name):
            shared.update(self._names_by_pair.get(pair, ()))
        likely = {known.casefold(): known for known, _ in shared.most_common(_CANDIDATES)}
        return [likely[near] for near in difflib.get_close_matches(name, likely, n=limit)]

    def list_all(self) -> list[Tool]:
        """Every tool."""
        return list(self._tools.values())

    def list_names(self) -> list[str]:
        """Every tool's name."""
        return list(self._tools)

    def find_by_tag(self, tag: str) -> list[Tool]:
        """The tools that carry `tag`."""
        return [tool for tool in self if tag in tool.tags]

    def find_by_tags(self, tags: Iterable[str]) -> list[Tool]:
        """The tools that carry all of `tags`; all tools when there are none."""
        wanted = set(tags)
        return [tool for tool in self if wanted.issubset(tool.tags)]

    def find_by_any_tag(self, tags: Iterable[str]) -> list[Tool]:
        """The tools that carry at least one of `tags`."""
        wanted = set(tags)
        return [tool for tool in self if not wanted.isdisjoint(tool.tags)]

    def find_by_category(self, category: ToolCategory | str) -> list[Tool]:
        """The tools of a category, a `ToolCategory` or its value; [] for an unknown one."""
        return [tool for tool in self if tool.category == category]

    def search(self, keyword: str) -> list[Tool]:
        """The tools whose name or description contains `keyword`, in any case."""
        wanted = keyword.casefold()
        return [
            tool
            for tool in self
            if wanted in tool.name.casefold() or wanted in tool.description.casefold()
        ]

    def count_by_category(self) -> dict[str, int]:
        """How many tools there are of each category that has any."""
        return dict(Counter(tool.category.value for tool in self))

    def with_tool(self, tool: Tool, *, replace: bool = False) -> ToolIndex:
        """A snapshot that also holds `tool`.

        Args:
            tool: The tool to add.
            replace: Takes the place of a tool of the same name.

        Raises:
            DuplicateToolError: The name is taken, and `replace` is false.
        """
        present = self._tools.get(tool.name)
        if present is not None and not replace:
            raise DuplicateToolError(
                DefinitionProblem(
                    f"the tool {tool.name!r} is already defined in {present.source or '<code>'}; "
                    "rename one of the two",
                    tool.source or "<code>",
                    path="name",
                )
            )
        return ToolIndex([*(other for other in self if other is not present), tool])

    def without(self, name: str) -> ToolIndex:
        """A snapshot without the tool of this name."""
        return ToolIndex(tool for tool in self if tool.name != name)

    @cached_property
    def _names_by_pair(self) -> dict[str, list[str]]:
        index: dict[str, list[str]] = {}
        for name in self._tools:
            for pair in _pairs(name.casefold()):
                index.setdefault(pair, []).append(name)
        return index


def _pairs(name: str) -> set[str]:
    return {name[at : at + 2] for at in range(max(len(name) - 1, 1))}
