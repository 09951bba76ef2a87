"""How do several sources give one conversation their tools, so that none hides another?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

from tool_engine.errors import ToolConflictError
from tool_engine.model.call import Refusal, ToolExecutionContext, ToolExecutionResult
from tool_engine.model.group import ToolGroup
from tool_engine.model.outcome import ErrorType
from tool_engine.model.tool import Tool
from tool_engine.protocols.sources import CombinedTools, ToolSource
from tool_engine.session.sources.identity import leaves_of, origin_of
from tool_engine.session.sources.memberships import memberships
from tool_engine.session.sources.naming import named
from tool_engine.session.sources.tool_view import (
    bound,
    described,
    groups_of,
    has_room,
    is_own_tool,
    listed,
    near_names,
    refused,
    renamed_group,
    shown_names,
)


class CombinedSource(CombinedTools):
    """Many sources as one, with their groups and with records of refused calls."""

    def __init__(self, sources: Mapping[str, ToolSource], *, on_conflict: str = "refuse") -> None:
        self._grouped: tuple[object, list[Any], dict[str, ToolGroup]] | None = None
        if isinstance(sources, Mapping):
            sources = {name: whole(each) for name, each in sources.items()}
        super().__init__(sources, on_conflict=on_conflict)

    @classmethod
    def around(cls, combined: CombinedTools) -> Self:
        """Return the same sources under the same names, for a conversation."""
        return cls(combined.sources, on_conflict=combined.on_conflict)

    def __repr__(self) -> str:
        return f"combine({', '.join(map(repr, self._sources.values()))})"

    @property
    def generation(self) -> Any:
        """A value that changes with every change of a source, also of hidden tools."""
        roof = self._current()
        # A group may say something else of a tool that only other tools call.
        return roof.number, roof.state

    @property
    def store(self) -> Any:
        """The store with the records of the calls; None if there are several."""
        stores = [getattr(source, "store", None) for source in self._sources.values()]
        return stores[0] if all(each is stores[0] for each in stores) else None

    @property
    def controller(self) -> Any:
        """The controller that admits the calls; of several, the one with the fewest slots."""
        found: list[Any] = [getattr(each, "controller", None) for each in self._sources.values()]
        known = [each for each in found if hasattr(each, "config")]
        return min(known, key=lambda each: each.config.max_concurrent, default=None)

    @property
    def groups(self) -> Mapping[str, ToolGroup]:
        """The groups of all sources, each with the tools of its own source only."""
        roof = self._current()
        found = [groups_of(source) for source in self._sources.values()]
        kept = self._grouped
        if kept is None or kept[0] is not roof or kept[1] != found:
            kept = self._grouped = (roof, found, self._all_groups(found))
        return kept[2]

    def list_all(self) -> list[Tool]:
        """Return all tools, by name.

        Raises:
            ToolConflictError: Two sources have a tool or a group of one name, and that is refused.
        """
        tools, conflict = self.listed()
        if conflict is not None:
            raise ToolConflictError(conflict)
        return tools

    def listed(self) -> tuple[list[Tool], str | None]:
        """Return the tools with unambiguous names, and the message about any other name."""
        roof = self._current()
        wrong = [self._conflict(name) for name in sorted(roof.refused)]
        wrong += [self._group_conflict(name) for name in self._refused_groups()]
        inner = [listed(source)[1] for source in self._sources.values()]
        wrong += [conflict for conflict in inner if conflict is not None]
        tools = [roof.entries[name].shown for name in sorted(roof.entries)]
        return tools, wrong[0] if wrong else None

    def shown_names(self, engine_tool: Tool, owner: ToolSource | None = None) -> list[str]:
        """Return the names under which an engine's tool is shown."""
        inner = {
            name: shown_names(each, engine_tool, owner) for name, each in self._sources.items()
        }
        entries = self._current().entries
        return [name for name, each in entries.items() if each.own.name in inner[each.source]]

    def memberships(
        self, engine_tool: Tool, owner: ToolSource | None = None
    ) -> dict[str, ToolGroup]:
        """Return the groups of an engine's tool, whether it is shown or not."""
        counts = Counter(name for each in self._sources.values() for name in groups_of(each))
        return {
            _group_name(source, name, counts): group
            for source, tools in self._sources.items()
            for name, group in memberships(tools, engine_tool, owner).items()
        }

    def near_names(self, tool_name: str) -> list[str]:
        """Return the shown names of tools that have this name in an inner source."""
        inner = {name: near_names(each, tool_name) for name, each in self._sources.items()}
        entries = self._current().entries
        return [name for name, each in entries.items() if each.own.name in inner[each.source]]

    def origin(self, tool_name: str) -> tuple[ToolSource, str]:
        """Return the innermost source of a tool, and its name there."""
        entry = self._current().entries.get(tool_name)
        return (
            (self, tool_name)
            if entry is None
            else origin_of(self._sources[entry.source], entry.own.name)
        )

    def leaves(self) -> list[ToolSource]:
        return [leaf for each in self._sources.values() for leaf in leaves_of(each)]

    def bound(self, turn: Callable[[], int]) -> Self:
        """Return the same view for one conversation, whose current turn `turn` returns."""
        sources = {name: bound(source, turn) for name, source in self._sources.items()}
        if all(sources[name] is source for name, source in self._sources.items()):
            return self
        return type(self)(sources, on_conflict=self.on_conflict)

    def has_room(self, tool_name: str) -> bool:
        """Return True if a conversation's own tool of this name replaces no other."""
        return any(has_room(source, tool_name) for source in self._sources.values())

    async def execute(
        self,
        tool_name: str,
        params: Mapping[str, Any] | None = None,
        context: ToolExecutionContext | None = None,
    ) -> ToolExecutionResult:
        """Run one tool in its source; the result has the name shown here."""
        if tool_name in self._current().entries:
            return await super().execute(tool_name, params, context)
        if is_own_tool(context, tool_name):
            for source in self._sources.values():
                if has_room(source, tool_name):
                    return await source.execute(tool_name, params, context)
        is_refused = tool_name in self._current().refused
        kind = ErrorType.REJECTED if is_refused else ErrorType.TOOL_NOT_FOUND
        refusal = Refusal(kind.value, self._missing(tool_name))
        return self.refuse(tool_name, params, context, refusal)

    def refuse(
        self,
        tool_name: str,
        params: Mapping[str, Any] | None,
        context: ToolExecutionContext | None,
        refusal: Refusal,
    ) -> ToolExecutionResult:
        """Record a call that its caller does not allow to run; see `ToolEngine.refuse`."""
        entry = self._current().entries.get(tool_name)
        if entry is None:
            source, own = next(iter(self._sources.values())), tool_name
        else:
            source, own = self._sources[entry.source], entry.own.name
        return named(refused(source, own, params, context, refusal), tool_name)

    def _conflict(self, name: str) -> str:
        first, second, *_ = (tool for _, tool in self._tools() if tool.name == name)
        return (
            f"two sources have a tool named {name!r}: {described(first)} and {described(second)}; "
            "put prefix() or rename() around one, or leave one out with keep()"
        )

    @staticmethod
    def _group_conflict(name: str) -> str:
        return f"two sources have a group named {name!r}: put prefix() around one"

    def _tools(self) -> Iterator[tuple[str, Tool]]:
        for name, source in self._sources.items():
            for tool in listed(source)[0]:
                yield name, tool

    def _refused_groups(self) -> list[str]:
        counts = Counter(name for each in self._sources.values() for name in groups_of(each))
        return sorted(name for name, count in counts.items() if count > 1 and self._refuses)

    def _all_groups(self, found: list[Any]) -> dict[str, ToolGroup]:
        entries = self._current().entries
        all_groups: dict[str, ToolGroup] = {}
        counts = Counter(name for groups in found for name in groups)
        for (source, tools), groups in zip(self._sources.items(), found, strict=True):
            names = {each.own.name: name for name, each in entries.items() if each.source == source}
            for group in groups.values():
                name = _group_name(source, group.name, counts)
                all_groups[name] = renamed_group(group, name, listed(tools)[0], names)
        return all_groups


def whole(source: ToolSource) -> ToolSource:
    """Return the source; extend a plain combination with what a conversation needs.

    Only the extended one knows which engine has a tool, and under which name.
    """
    if isinstance(source, CombinedTools) and not isinstance(source, CombinedSource):
        return CombinedSource.around(source)
    return source


def _group_name(source: str, name: str, counts: Mapping[str, int]) -> str:
    # Even if that is refused: a group's word about consent is never lost.
    return f"{source}_{name}" if counts[name] > 1 else name
