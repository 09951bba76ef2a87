"""Which tools are there now, and how is one found?

A `ToolIndex` is one immutable snapshot: its holder sees the same tools whatever is reloaded.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from itertools import compress
from operator import is_not, itemgetter
from types import MappingProxyType
from typing import Any, Final, Self, cast

from tool_engine.errors import (
    ConfigurationError,
    DefinitionProblem,
    DuplicateToolError,
    ToolNotFoundError,
)
from tool_engine.model.checks.aliases import AliasTable
from tool_engine.model.checks.called_name import word_no_name
from tool_engine.model.checks.nearness import find_near
from tool_engine.model.checks.setting_kinds import check_names
from tool_engine.model.group import ToolGroup
from tool_engine.model.tool import Tool, ToolCategory

_CANDIDATES: Final = 20
_LONGEST_NAME: Final = 128
_MOST_NOTED: Final = 1000
"""Two snapshots that differ in more names are compared anew."""

_NO_GROUPS: Final[Mapping[str, ToolGroup]] = MappingProxyType({})

_Difference = tuple[object, frozenset[str]]
"""The mark of a snapshot, and the only names in which this one may differ from it."""


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
        self._is_sorted = True
        self.aliases = AliasTable(self._tools.values())
        """The further names of the tools; read-only."""
        # Snapshots know one another by a mark, so that none keeps another one alive.
        self._mark = object()
        self._parent: _Difference = (self._mark, frozenset())
        self._noted: _Difference = self._parent
        self.groups: Mapping[str, ToolGroup] = _NO_GROUPS
        """The groups of the same moment, by name and sorted; read-only."""

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._sort_tools().values())

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _index_of, (self.list_all(), dict(self.groups))

    def __repr__(self) -> str:
        names = ", ".join(self.list_names()[:8])
        return f"ToolIndex({len(self)} tools: {names}{', …' if len(self) > 8 else ''})"

    def get(self, name: str) -> Tool | None:
        """Return the tool of this name, or None."""
        return self._tools.get(name)

    def find(self, name: str) -> Tool | None:
        """Return the tool that a call of this name means, by its name or an alias, or None.

        Raises:
            ConfigurationError: It is no name, but a tool, a mapping or the like.
        """
        try:
            tool = self._tools.get(name)
        except TypeError:
            raise ConfigurationError(word_no_name(name)) from None
        if tool is None and isinstance(name, str):
            meant = self.aliases.find(name, self._tools)
            return None if meant is None else self._tools[meant]
        return tool

    def get_or_raise(self, name: str) -> Tool:
        """Return the tool of this name or alias.

        Raises:
            ToolNotFoundError: There is none; the message names the nearest ones.
        """
        tool = self.find(name)
        if tool is None and not isinstance(name, str):
            raise ToolNotFoundError(word_no_name(name))
        if tool is None:
            near = ", ".join(map(repr, self._find_near(name)))
            shown = repr(name[:_LONGEST_NAME])
            loaded = "one tool is" if len(self) == 1 else f"{len(self)} tools are"
            hint = f"; did you mean {near}?" if near else f"; {loaded} loaded"
            raise ToolNotFoundError(f"there is no tool named {shown}{hint}")
        return tool

    def find_clashes(self, only: Container[str] | None = None) -> list[DefinitionProblem]:
        """Return a problem for each tool and further name of it that is not clear.

        Args:
            only: The names of the tools that are looked at; None: every tool.
        """
        if not self.aliases.items():
            return []
        # Loaded by name: most tools have no further names.
        clashes = import_module("tool_engine.catalog.alias_clashes")
        return cast("list[DefinitionProblem]", clashes.clashes_of(self, only))

    def nearest(self, name: str, limit: int = 3) -> list[str]:
        """Return the names most like `name`, best first; quick among thousands.

        Models read them: tools for code only are not among them.
        """
        return self._find_near(name, limit, without=self._for_code_only)

    def _find_near(
        self, name: str, limit: int = 3, without: Container[str] = frozenset()
    ) -> list[str]:
        name = name[:_LONGEST_NAME].casefold()
        shared: Counter[str] = Counter()
        for pair in _letter_pairs(name):
            shared.update(self._names_by_pair.get(pair, ()))
        known = ((count, each) for each, count in shared.items() if each not in without)
        likely = heapq.nlargest(_CANDIDATES, known, key=itemgetter(0))
        return find_near(name, (each for _, each in likely), limit)

    def list_all(self) -> list[Tool]:
        """Return every tool."""
        return list(self._sort_tools().values())

    def list_names(self) -> list[str]:
        """Return every tool's name."""
        return list(self._sort_tools())

    def find_by_tag(self, tag: str) -> list[Tool]:
        """Return the tools with the tag `tag`."""
        return [tool for tool in self if tag in tool.tags]

    def find_by_tags(self, tags: Iterable[str]) -> list[Tool]:
        """Return the tools with all of `tags`; all tools for no tags."""
        wanted = set(check_names("tags", tags, "tag"))
        return [tool for tool in self if wanted.issubset(tool.tags)]

    def find_by_any_tag(self, tags: Iterable[str]) -> list[Tool]:
        """Return the tools with at least one of `tags`."""
        wanted = set(check_names("tags", tags, "tag"))
        return [tool for tool in self if not wanted.isdisjoint(tool.tags)]

    def find_by_category(self, category: ToolCategory | str) -> list[Tool]:
        """Return a category's tools, by member or value; [] if unknown."""
        return [tool for tool in self if tool.category == category]

    def search(self, keyword: str) -> list[Tool]:
        """Return the tools whose name or description contains `keyword`, in any case."""
        wanted = keyword.casefold()
        return [
            tool
            for tool in self
            if wanted in tool.name.casefold() or wanted in tool.description.casefold()
        ]

    def count_by_category(self) -> dict[str, int]:
        """Count the tools of each category that has any."""
        return dict(Counter(tool.category.value for tool in self))

    def with_tool(self, tool: Tool, *, replace: bool = False) -> ToolIndex:
        """Return a snapshot that also holds `tool`.

        Args:
            tool: The tool to add.
            replace: Takes the place of a tool of the same name.

        Raises:
            DuplicateToolError: The name is taken, and `replace` is false.
        """
        if not replace:
            self.check_free(tool)
        return self.with_changes({tool.name: tool})

    def check_free(self, tool: Tool) -> None:
        """Raise `DuplicateToolError` if the name of `tool` is taken."""
        present = self._tools.get(tool.name)
        if present is not None:
            raise DuplicateToolError(
                DefinitionProblem(
                    f"the tool {tool.name!r} is already defined in {present.source or '<code>'}; "
                    "rename one of the two",
                    tool.source or "<code>",
                    path="name",
                )
            )

    def without(self, name: str) -> ToolIndex:
        """Return a snapshot without the tool of this name."""
        return self.with_changes({name: None})

    def with_groups(self, groups: Mapping[str, ToolGroup]) -> ToolIndex:
        """Return a snapshot of the same tools with other groups."""
        index = self.with_changes({})
        index.groups = MappingProxyType({name: groups[name] for name in sorted(groups)})
        return index

    def with_changes(self, changes: Mapping[str, Tool | None]) -> ToolIndex:
        """Return a snapshot with these tools changed by name; None removes.

        Costs a copy; those of new names are sorted in when the tools are first listed.
        """
        index = ToolIndex()
        index.groups = self.groups
        index._is_sorted = self._is_sorted
        index._tools = tools = dict(self._tools)
        index.registered = registered = dict(self.registered)
        for name, tool in changes.items():
            if tool is None:
                tools.pop(name, None)
            else:
                index._is_sorted &= name in tools
                tools[name] = tool
            if tool is not None and tool.source is None:
                registered[name] = tool
            else:
                registered.pop(name, None)
        index.aliases = self.aliases.changed(self._tools, changes)
        if "buckets" in self.__dict__:
            index.buckets = buckets = self.buckets.copy()
            buckets.subtract(each.bucket for name in changes if (each := self._tools.get(name)))
            buckets.update(each.bucket for each in changes.values() if each is not None)
        if len(changes) <= _MOST_NOTED:
            index._parent = (self._mark, frozenset(changes))
        return index

    def note_difference(self, other: ToolIndex, names: Collection[str]) -> None:
        """Note that this snapshot differs from `other` in no other names."""
        if len(names) <= _MOST_NOTED:
            self._noted = (other._mark, frozenset(names))

    def new_since(self, before: ToolIndex) -> list[Tool]:
        """Return the tools that `before` does not hold as the same values.

        Quick among thousands: two snapshots that follow one another share nearly all their tools.
        """
        names = self._changed_names(before)
        if names is not None:
            mine, others = self._tools, before._tools
            there = sorted(name for name in names if name in mine)
            return [mine[name] for name in there if others.get(name) is not mine[name]]
        mine = self._sort_tools()
        found = map(before._tools.get, mine)
        return list(compress(mine.values(), map(is_not, mine.values(), found)))

    def _sort_tools(self) -> dict[str, Tool]:
        if not self._is_sorted:
            # Put in its place whole: another thread may be going through it.
            self._tools = {name: self._tools[name] for name in sorted(self._tools)}
            self._is_sorted = True
        return self._tools

    def _changed_names(self, other: ToolIndex) -> frozenset[str] | None:
        """Return the only names that may differ between snapshots; None: any."""
        mine = (self._mark, frozenset[str]()), self._parent, self._noted
        others = (other._mark, frozenset[str]()), other._parent, other._noted
        for mark, names in mine:
            for other_mark, other_names in others:
                if mark is other_mark:
                    return names | other_names
        return None

    @cached_property
    def registered(self) -> dict[str, Tool]:
        """The tools that no file defines, by name; read-only."""
        return {name: tool for name, tool in self._tools.items() if tool.source is None}

    @cached_property
    def buckets(self) -> Counter[str]:
        """How many tools count against each bucket; read-only."""
        return Counter(tool.bucket for tool in self._tools.values())

    @cached_property
    def _for_code_only(self) -> frozenset[str]:
        return frozenset(name for name, tool in self._tools.items() if not tool.is_for_models)

    @cached_property
    def _names_by_pair(self) -> dict[str, list[str]]:
        index: dict[str, list[str]] = {}
        for name in self._tools:
            for pair in _letter_pairs(name.casefold()):
                index.setdefault(pair, []).append(name)
        return index


def _letter_pairs(name: str) -> set[str]:
    return {name[at : at + 2] for at in range(max(len(name) - 1, 1))}


def _index_of(tools: list[Tool], groups: dict[str, ToolGroup]) -> ToolIndex:
    return ToolIndex(tools).with_groups(groups)
