"""How does a part of a catalog, perhaps under other names, take the place of the catalog?"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from tool_engine.errors import ToolConflictError, ToolNotFoundError
from tool_engine.interfaces.source import Source, ToolSource, find_for_model
from tool_engine.model.call import Refusal, ToolExecutionContext, ToolExecutionResult
from tool_engine.model.checks.aliases import AliasTable
from tool_engine.model.checks.called_name import find_called
from tool_engine.model.checks.nearness import find_near
from tool_engine.model.context_check import check_context, is_of_own
from tool_engine.model.group import ToolGroup
from tool_engine.model.outcome import ErrorType
from tool_engine.model.tool import Tool
from tool_engine.sources.foreign import check_source
from tool_engine.sources.naming import name_result

_LONGEST_NAME: Final = 80
"""The most characters of an unknown name that are compared and shown."""
_CONDITION: Final = re.compile(r"\{\{if\s+([^{}\s]+)\s*\}\}")


class _Entry(NamedTuple):
    own: Tool
    shown: Tool


class _Seen(NamedTuple):
    """The shown tools for one state of the source."""

    state: tuple[Any, ...]
    entries: dict[str, _Entry]
    conflicts: dict[str, str]
    """Name -> the message about a name that several tools would have."""
    conflict: str | None
    """The message about any conflict of names, here or in the source."""
    groups: dict[str, ToolGroup]
    aliases: AliasTable

    def find(self, name: str) -> _Entry | None:
        """Return the tool of a name or alias here."""
        entry = find_called(self.entries, name)
        if entry is None and name not in self.conflicts:
            return self.entries.get(self.aliases.find(name, self.entries) or "")
        return entry


class ToolView(Source):
    """The tools of one source as shown: some, or renamed.

    Stands wherever an engine does: in a `ToolSession`, in `process_tool_calls`, in another view.
    Calls run in the source, under its names, which is what records and events bear; results bear
    the names that are shown. A tool that only a conversation has passes through as it is.

    Args:
        source: An engine, or another view.

    Raises:
        ConfigurationError: The source is invalid.
    """

    def __init__(self, source: ToolSource) -> None:
        self._source = check_source(source)
        self._seen: _Seen | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._source!r})"

    def __len__(self) -> int:
        return len(self._find_current().entries)

    @abstractmethod
    def _show_tool(self, tool: Tool) -> Tool | None:
        """Return the tool as it is known here, or None to hide it."""

    def _group_name(self, name: str) -> str:
        return name

    @property
    def generation(self) -> Any:
        return self._source.generation

    @property
    def store(self) -> Any:
        return self._source.store

    @property
    def controller(self) -> Any:
        return self._source.controller

    @property
    def groups(self) -> Mapping[str, ToolGroup]:
        """The groups of the source, with their tools under the shown names."""
        return self._find_current().groups

    @property
    def findings(self) -> list[Any]:
        """The source's findings about its names."""
        return list(self._source.findings)

    def get(self, tool_name: str) -> Tool | None:
        entry = self._find_current().find(tool_name)
        return None if entry is None else entry.shown

    def get_or_raise(self, tool_name: str) -> Tool:
        tool = self.get(tool_name)
        if tool is None:
            raise ToolNotFoundError(self.explain_missing(tool_name).error)
        return tool

    def list_all(self) -> list[Tool]:
        """Return all shown tools, by name.

        Raises:
            ToolConflictError: Two tools would have one name; the message names both and a remedy.
        """
        tools, conflict = self.list_unambiguous()
        if conflict is not None:
            raise ToolConflictError(conflict)
        return tools

    def list_unambiguous(self) -> tuple[list[Tool], str | None]:
        seen = self._find_current()
        return [seen.entries[name].shown for name in sorted(seen.entries)], seen.conflict

    def find_shown_names(self, engine_tool: Tool, owner: Source | None = None) -> list[str]:
        inner = self._source.find_shown_names(engine_tool, owner)
        return [
            name for name, each in self._find_current().entries.items() if each.own.name in inner
        ]

    def find_groups(
        self, engine_tool: Tool, owner: Source | None = None
    ) -> Mapping[str, ToolGroup]:
        inner = self._source.find_groups(engine_tool, owner)
        return {self._group_name(name): group for name, group in inner.items()}

    async def execute(
        self,
        tool_name: str,
        params: Mapping[str, Any] | None = None,
        context: ToolExecutionContext | None = None,
    ) -> ToolExecutionResult:
        if is_of_own(context) or not isinstance(tool_name, str):
            return await self._source.execute(tool_name, params, context)
        entry = self._find_current().find(tool_name)
        if entry is not None:
            result = await self._source.execute(entry.own.name, params, context)
            return name_result(result, entry.shown.name)
        if is_own_tool(context, tool_name) and self.has_room(tool_name):
            return await self._source.execute(tool_name, params, context)
        return self.refuse(tool_name, params, context, self.explain_missing(tool_name))

    def refuse(
        self,
        tool_name: str,
        params: Mapping[str, Any] | None,
        context: ToolExecutionContext | None,
        refusal: Refusal,
    ) -> ToolExecutionResult:
        entry = None if is_of_own(context) else self._find_current().find(tool_name)
        own = tool_name if entry is None else entry.own.name
        # An alias must not tell the name of a tool that is not there for its caller.
        is_there = entry is not None and entry.shown.is_for_models
        is_there = is_there and refusal.error_type != ErrorType.TOOL_NOT_FOUND.value
        shown = entry.shown.name if entry is not None and is_there else tool_name
        return name_result(self._source.refuse(own, params, context, refusal), shown)

    @abstractmethod
    def bind_turn(self, turn: Callable[[], int]) -> ToolView:
        """Return the same view for one conversation; `turn` returns its turn: see `prepare`."""

    def find_near_names(self, tool_name: str) -> list[str]:
        inner = self._source.find_near_names(tool_name)
        entries = self._find_current().entries
        near = [name for name, each in entries.items() if each.own.name in inner]
        return [*near, tool_name] if tool_name in entries else near

    def find_origin(self, tool_name: str) -> tuple[Source, str]:
        entry = self._find_current().find(tool_name)
        return self._source.find_origin(tool_name if entry is None else entry.own.name)

    def list_origins(self) -> list[Source]:
        return self._source.list_origins()

    def has_room(self, tool_name: str) -> bool:
        return self.get(tool_name) is None and self._source.has_room(tool_name)

    def explain_missing(self, tool_name: str) -> Refusal:
        if not isinstance(tool_name, str):
            return super().explain_missing(tool_name)
        seen = self._find_current()
        if tool_name in seen.conflicts:
            return Refusal(ErrorType.REJECTED.value, seen.conflicts[tool_name])
        name = tool_name[:_LONGEST_NAME]
        # Models read it: what is for code only is not there.
        shown = [known for known, each in seen.entries.items() if each.shown.is_for_models]
        inside = find_for_model(self._source, tool_name)
        meant = name if inside is None else inside.name
        near = [each for each in self.find_near_names(meant) if each in shown]
        near = near or find_near(meant, shown)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "call another one"
        if inside is not None and not near:
            message = f"the tool {name!r} is there, but may not be called here"
            return Refusal(ErrorType.REJECTED.value, message)
        message = f"there is no tool named {name!r}; {hint}"
        return Refusal(ErrorType.TOOL_NOT_FOUND.value, message)

    def _find_current(self) -> _Seen:
        generation = self.generation
        groups = self._source.groups
        seen = self._seen
        if seen is None or generation is None or seen.state != (generation, groups):
            seen = self._seen = self._look_at_source((generation, groups), groups)
        return seen

    def _look_at_source(self, state: tuple[Any, ...], groups: Mapping[str, ToolGroup]) -> _Seen:
        entries: dict[str, _Entry] = {}
        conflicts: dict[str, str] = {}
        tools, conflict = self._source.list_unambiguous()
        for tool in tools:
            shown = self._show_tool(tool)
            if shown is None:
                continue
            if tool.aliases and (aliases := self._list_aliases(tool)) != shown.aliases:
                shown = replace(shown, aliases=aliases)
            other = entries.setdefault(shown.name, _Entry(tool, shown))
            if other.own is not tool:
                conflicts[shown.name] = _explain_conflict(shown.name, other.own, tool)
        for name in conflicts:
            del entries[name]
        names = {each.own.name: name for name, each in entries.items()}
        shown_groups = {}
        for group in groups.values():
            name = self._group_name(group.name)
            shown_groups[name] = renamed_group(group, name, tools, names)
        conflict = conflicts[min(conflicts)] if conflicts else conflict
        table = AliasTable(each.shown for each in entries.values())
        return _Seen(state, entries, conflicts, conflict, shown_groups, table)

    def _list_aliases(self, tool: Tool) -> tuple[str, ...]:
        """Return the aliases of a tool of the source, as they are here."""
        found = ((each, self._source.get(each)) for each in tool.aliases)
        # One that means no tool, or another one, in the source means none here.
        return tuple(
            self._name_alias(alias)
            for alias, meant in found
            if meant is not None and meant.name == tool.name
        )

    def _name_alias(self, alias: str) -> str:
        return alias


def is_own_tool(context: ToolExecutionContext | None, tool_name: str) -> bool:
    """Return True if only the calling conversation has a tool of this name."""
    scope = context.scope if context is not None and check_context(context) else None
    return scope is not None and scope.own(tool_name) is not None


def renamed_group(
    group: ToolGroup, name: str, tools: Iterable[Tool], names: Mapping[str, str]
) -> ToolGroup:
    """Return a source's group as it is shown, with exactly its tools.

    Args:
        group: As the source has it.
        name: Its name here.
        tools: The tools of the source.
        names: Name in the source -> name here, of the tools that are shown.
    """
    members = [names[tool.name] for tool in group.members(tools) if tool.name in names]
    return replace(
        group,
        name=name,
        tools=tuple(members),
        tags=(),
        categories=(),
        rules=_CONDITION.sub(lambda found: _rename_condition(found, names), group.rules),
        disabled_tools=tuple(names[each] for each in group.disabled_tools if each in names),
    )


def _rename_condition(found: re.Match[str], names: Mapping[str, str]) -> str:
    return f"{{{{if {names.get(found[1], found[1])}}}}}"


def _explain_conflict(name: str, first: Tool, second: Tool) -> str:
    return (
        f"two tools would be named {name!r}: {describe_origin(first)} and "
        f"{describe_origin(second)}; give one of them another name with rename() or "
        "prefix(), or leave one out with keep()"
    )


def describe_origin(tool: Tool) -> str:
    """Return a tool's name and origin, for people."""
    return f"{tool.name!r} of {'code' if tool.source is None else tool.source}"
