"""How do the tools of several sources become one set, when some have the same name? U45."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self

from msgspec.structs import replace

from tool_engine.errors import (
    ConfigurationError,
    ToolConflictError,
    ToolEngineError,
    ToolNotFoundError,
)
from tool_engine.interfaces.source import Source, ToolSource
from tool_engine.model.call import Refusal, ToolExecutionContext, ToolExecutionResult
from tool_engine.model.checks.aliases import AliasTable
from tool_engine.model.checks.bounds import check_choice
from tool_engine.model.checks.called_name import find_called
from tool_engine.model.checks.nearness import find_near
from tool_engine.model.checks.setting_kinds import check_object
from tool_engine.model.context_check import is_of_own
from tool_engine.model.group import ToolGroup
from tool_engine.model.outcome import ErrorType
from tool_engine.model.reply import ReplyFinding
from tool_engine.model.tool import Tool
from tool_engine.sources.foreign import as_source, describe_kind, has_methods
from tool_engine.sources.naming import name_result
from tool_engine.sources.tool_view import describe_origin, is_own_tool, renamed_group

_LONGEST_NAME: Final = 80
"""The most characters of an unknown name that are compared and shown."""
_ON_CONFLICT: Final = ("rename", "refuse")


class _Entry(NamedTuple):
    source: str
    own: Tool
    """As the source knows it."""
    shown: Tool
    """As it is known here."""


class _Merged(NamedTuple):
    """What the sources came to, when their generations were these."""

    state: tuple[object, ...]
    number: int
    entries: dict[str, _Entry]
    refused: frozenset[str]
    """Names that several sources have, where that is refused."""
    aliases: AliasTable = AliasTable()
    inner: str | None = None
    """The message about a name that several tools have inside of one source."""


_NOTHING: Final = _Merged((), 0, {}, frozenset())


class CombinedTools(Source):
    """Many sources of tools as one: for `process_tool_calls`, `ToolSubAgent` and protocols.

    A name that only one source has stays. One that several have is no name here: each of those
    tools is called `{source}_{name}`, and its description begins with `[source]`, so that neither
    hides the other. `findings` names every such tool. A name depends only on which tools there
    are, not on their order: it is the same in every process and after a reload.

    Args:
        sources: Engines, by the names that stand before those of their tools.
        on_conflict: `rename`, or `refuse` to have an error instead.

    Raises:
        ConfigurationError: A source is none, there is no such mode, or two have a tool of one name
            and that is refused.
    """

    _error: type[ToolEngineError] = ConfigurationError
    """The kind of error for names that several sources have."""
    _kind: ErrorType = ErrorType.TOOL_NOT_FOUND
    """That of a call of such a name."""

    def __init__(self, sources: Mapping[str, ToolSource], *, on_conflict: str = "rename") -> None:
        check_choice("on_conflict", on_conflict, _ON_CONFLICT)
        check_object("sources", sources, Mapping, "{'NAME': engine}")
        for name, source in sources.items():
            if not name or not has_methods(source, ("get", "list_all", "execute")):
                raise ConfigurationError(
                    f"source {name!r} must have a name, and get, list_all and execute as a "
                    f"ToolEngine has, got {describe_kind(source)}"
                )
        self._given = dict(sources)
        self._sources = {name: as_source(source) for name, source in sources.items()}
        self._refuses = on_conflict == "refuse"
        self._merged: _Merged | None = None
        self._grouped: tuple[object, list[Any], dict[str, ToolGroup]] | None = None
        self.list_all()

    def __repr__(self) -> str:
        return (
            f"CombinedTools({', '.join(self._sources)}: {len(self._find_current().entries)} tools)"
        )

    def __len__(self) -> int:
        return len(self._find_current().entries)

    @property
    def sources(self) -> Mapping[str, ToolSource]:
        """The sources, by the names that stand before those of their tools."""
        return MappingProxyType(self._given)

    @property
    def on_conflict(self) -> str:
        """What becomes of names that several sources have: `rename` or `refuse`."""
        return _ON_CONFLICT[self._refuses]

    @property
    def generation(self) -> int:
        """The count of changes seen in any source, hidden ones included."""
        return self._find_current().number

    @property
    def store(self) -> Any:
        """The store with the records of the calls; None if there are several."""
        stores = [source.store for source in self._sources.values()] or [None]
        return stores[0] if all(each is stores[0] for each in stores) else None

    @property
    def controller(self) -> Any:
        """The controller of the calls; of several, that with fewest slots."""
        found = [source.controller for source in self._sources.values()]
        known = [each for each in found if each is not None]
        return min(known, key=lambda each: each.config.max_concurrent, default=None)

    @property
    def groups(self) -> Mapping[str, ToolGroup]:
        """The groups of all sources, each with its source's tools only."""
        merged = self._find_current()
        found = [source.groups for source in self._sources.values()]
        kept = self._grouped
        if kept is None or kept[0] is not merged or kept[1] != found:
            kept = self._grouped = (merged, found, self._all_groups(found))
        return kept[2]

    @property
    def findings(self) -> list[ReplyFinding]:
        """The tools with another name than their source's, and aliases that are not clear.

        Each is `renamed` or `alias_not_clear`. An alias that several sources have means none of
        their tools, as in one engine.
        """
        merged = self._find_current()
        renamed = [
            ReplyFinding(
                error_type="renamed",
                tool_name=name,
                message=f"{entry.own.name!r} of {entry.source!r} is {name!r} here: another source "
                "has a tool of that name, too",
            )
            for name, entry in merged.entries.items()
            if name != entry.own.name
        ]
        return renamed + list(_find_alias_clashes(merged))

    def get(self, tool_name: str) -> Tool | None:
        entry = self._find_entry(tool_name)
        return None if entry is None else entry.shown

    def get_or_raise(self, tool_name: str) -> Tool:
        tool = self.get(tool_name)
        if tool is None:
            raise ToolNotFoundError(self.explain_missing(tool_name).error)
        return tool

    def list_all(self) -> list[Tool]:
        """Return all tools, by name.

        Raises:
            ConfigurationError: Two sources have a tool of one name, and that is refused.
        """
        tools, conflict = self.list_unambiguous()
        if conflict is not None:
            raise self._error(conflict)
        return tools

    def list_unambiguous(self) -> tuple[list[Tool], str | None]:
        entries = self._find_current().entries
        return [entries[name].shown for name in sorted(entries)], next(
            self._explain_conflicts(), None
        )

    def find_shown_names(self, engine_tool: Tool, owner: Source | None = None) -> list[str]:
        inner = {
            name: each.find_shown_names(engine_tool, owner) for name, each in self._sources.items()
        }
        entries = self._find_current().entries
        return [name for name, each in entries.items() if each.own.name in inner[each.source]]

    def find_groups(
        self, engine_tool: Tool, owner: Source | None = None
    ) -> Mapping[str, ToolGroup]:
        counts = self._count_groups()
        return {
            _group_name(source, name, counts): group
            for source, tools in self._sources.items()
            for name, group in tools.find_groups(engine_tool, owner).items()
        }

    def find_near_names(self, tool_name: str) -> list[str]:
        inner = {name: each.find_near_names(tool_name) for name, each in self._sources.items()}
        entries = self._find_current().entries
        near = [name for name, each in entries.items() if each.own.name in inner[each.source]]
        return [*near, tool_name] if tool_name in entries else near

    def find_origin(self, tool_name: str) -> tuple[Source, str]:
        entry = self._find_entry(tool_name)
        if entry is None:
            return self, tool_name
        return self._sources[entry.source].find_origin(entry.own.name)

    def list_origins(self) -> list[Source]:
        found = [each for source in self._sources.values() for each in source.list_origins()]
        return list({id(each): each for each in found}.values())

    def bind_turn(self, turn: Callable[[], int]) -> Self:
        sources = {name: source.bind_turn(turn) for name, source in self._sources.items()}
        if all(sources[name] is source for name, source in self._sources.items()):
            return self
        return type(self)(sources, on_conflict=self.on_conflict)

    def has_room(self, tool_name: str) -> bool:
        sources = self._sources.values()
        return self.get(tool_name) is None and any(each.has_room(tool_name) for each in sources)

    def source_of(self, tool_name: str) -> tuple[str, str] | None:
        """Return a tool's source, and its name there; None: no such tool."""
        entry = self._find_entry(tool_name)
        return None if entry is None else (entry.source, entry.own.name)

    async def execute(
        self,
        tool_name: str,
        params: Mapping[str, Any] | None = None,
        context: ToolExecutionContext | None = None,
    ) -> ToolExecutionResult:
        if (is_of_own(context) or not isinstance(tool_name, str)) and self._sources:
            return await self._find_runner().execute(tool_name, params, context)
        entry = self._find_entry(tool_name)
        if entry is not None:
            result = await self._sources[entry.source].execute(entry.own.name, params, context)
            return name_result(result, entry.shown.name)
        if is_own_tool(context, tool_name):
            for source in self._sources.values():
                if source.has_room(tool_name):
                    return await source.execute(tool_name, params, context)
        return self.refuse(tool_name, params, context, self.explain_missing(tool_name))

    def refuse(
        self,
        tool_name: str,
        params: Mapping[str, Any] | None,
        context: ToolExecutionContext | None,
        refusal: Refusal,
    ) -> ToolExecutionResult:
        entry = None if is_of_own(context) else self._find_entry(tool_name)
        if entry is not None:
            source, own = self._sources[entry.source], entry.own.name
            is_there = refusal.error_type != ErrorType.TOOL_NOT_FOUND.value
            if is_there and entry.shown.is_for_models:
                tool_name = entry.shown.name
        elif self._sources:
            source, own = self._find_runner(), tool_name
        else:
            return super().refuse(tool_name, params, context, refusal)
        return name_result(source.refuse(own, params, context, refusal), tool_name)

    def _find_runner(self) -> Source:
        """Return what runs, and records, the calls of tools that only a conversation has."""
        sources = list(self._sources.values())
        with_engine = (
            each for each in sources if any(leaf.is_engine for leaf in each.list_origins())
        )
        return next(with_engine, sources[0])

    def explain_missing(self, tool_name: str) -> Refusal:
        if not isinstance(tool_name, str):
            return super().explain_missing(tool_name)
        if tool_name in self._find_current().refused:
            return Refusal(self._kind.value, self._explain_conflict(tool_name))
        name = tool_name[:_LONGEST_NAME]
        # Models read it: what is for code only is not there.
        shown = {
            known: entry
            for known, entry in self._find_current().entries.items()
            if entry.shown.is_for_models
        }
        near = [known for known, entry in shown.items() if entry.own.name == tool_name]
        near = near or find_near(name, shown)
        hint = f"did you mean {', '.join(map(repr, near))}?" if near else f"{len(shown)} are there"
        message = f"there is no tool named {name!r}; {hint}"
        return Refusal(ErrorType.TOOL_NOT_FOUND.value, message)

    def _explain_conflict(self, name: str) -> str:
        holders = [source for source, own in self._list_tools() if own.name == name]
        return (
            f"the sources {', '.join(map(repr, holders))} all have a tool named {name!r}: rename "
            "one in its definition, or pass on_conflict='rename'"
        )

    def _explain_conflicts(self) -> Iterator[str]:
        """Yield the messages about names that stand for no tool."""
        merged = self._find_current()
        yield from map(self._explain_conflict, sorted(merged.refused))
        if merged.inner is not None:
            yield merged.inner

    def _count_groups(self) -> Counter[str]:
        return Counter(name for source in self._sources.values() for name in source.groups)

    def _all_groups(self, found: list[Any]) -> dict[str, ToolGroup]:
        entries = self._find_current().entries
        all_groups: dict[str, ToolGroup] = {}
        counts = Counter(name for groups in found for name in groups)
        for (source, tools), groups in zip(self._sources.items(), found, strict=True):
            names = {each.own.name: name for name, each in entries.items() if each.source == source}
            own = tools.list_unambiguous()[0] if groups else []
            for group in groups.values():
                name = _group_name(source, group.name, counts)
                all_groups[name] = renamed_group(group, name, own, names)
        return all_groups

    def _find_entry(self, tool_name: str) -> _Entry | None:
        """Return the tool of a name or alias here; one of several tools is no alias."""
        merged = self._find_current()
        entry = find_called(merged.entries, tool_name)
        if entry is not None or tool_name in merged.refused:
            return entry
        entry = merged.entries.get(merged.aliases.find(tool_name, merged.refused) or "")
        if entry is None or any(each.own.name == tool_name for each in merged.entries.values()):
            return None
        meant = self._sources[entry.source].get(tool_name)
        return entry if meant is not None and meant.name == entry.own.name else None

    def _find_current(self) -> _Merged:
        state = tuple(source.generation for source in self._sources.values())
        merged = self._merged
        if merged is None or merged.state != state or None in state:
            listed = {name: each.list_unambiguous() for name, each in self._sources.items()}
            inner = next((message for _, message in listed.values() if message is not None), None)
            entries = _make_entries(
                [(name, tool) for name, each in listed.items() for tool in each[0]]
            )
            renamed = {name for name, entry in entries.items() if entry.shown is not entry.own}
            refused = {entries.pop(name).own.name for name in renamed if self._refuses}
            before = _NOTHING if merged is None else merged
            # A group may say something else of a tool that only other tools call.
            is_new = (before.state, before.entries) != (state, entries)
            is_new |= before.refused != refused
            number = before.number + is_new
            aliases = AliasTable(entry.shown for entry in entries.values())
            merged = self._merged = _Merged(
                state, number, entries, frozenset(refused), aliases, inner
            )
        return merged

    def _list_tools(self) -> Iterator[tuple[str, Tool]]:
        for name, source in self._sources.items():
            for tool in source.list_unambiguous()[0]:
                yield name, tool


class Combination(CombinedTools):
    """What `combine` makes: sources of which no two share a name."""

    _error = ToolConflictError
    _kind = ErrorType.REJECTED

    def __init__(self, sources: Mapping[str, ToolSource], *, on_conflict: str = "refuse") -> None:
        super().__init__(sources, on_conflict=on_conflict)

    def __repr__(self) -> str:
        return f"combine({', '.join(map(repr, self._sources.values()))})"

    def _explain_conflicts(self) -> Iterator[str]:
        yield from super()._explain_conflicts()
        for name, count in sorted(self._count_groups().items()):
            if count > 1:
                yield f"two sources have a group named {name!r}: put prefix() around one"

    def _explain_conflict(self, name: str) -> str:
        first, second, *_ = (tool for _, tool in self._list_tools() if tool.name == name)
        return (
            f"two sources have a tool named {name!r}: {describe_origin(first)} and "
            f"{describe_origin(second)}; put prefix() or rename() around one, or leave one out "
            "with keep()"
        )


def _find_alias_clashes(merged: _Merged) -> Iterator[ReplyFinding]:
    """Yield what several sources claim; what is not clear inside of one is that one's to say."""
    named: dict[str, set[str]] = {}
    for name, entry in merged.entries.items():
        for each in (name, entry.own.name):
            named.setdefault(each, set()).add(name)
    for claim, holders in merged.aliases.items():
        names = {*holders, *(named.get(claim, ()) if isinstance(claim, str) else ())}
        if len({merged.entries[name].source for name in names}) < 2:
            continue
        said = f"alias {claim!r}" if isinstance(claim, str) else f"command {claim[1]!r}"
        for name in holders:
            others = " and ".join(
                f"{other!r} of {merged.entries[other].source!r}" for other in sorted(names - {name})
            )
            yield ReplyFinding(
                error_type="alias_not_clear",
                tool_name=name,
                message=f"the {said} of {name!r} also means {others}; give it another one, or put "
                "prefix() around its source",
            )


def _make_entries(tools: list[tuple[str, Tool]]) -> dict[str, _Entry]:
    """Return every tool under its name here, one to one."""
    holders = Counter(tool.name for _, tool in tools)
    renamed = Counter(f"{source}_{tool.name}" for source, tool in tools if holders[tool.name] > 1)
    entries = {}
    for source, tool in tools:
        if holders[tool.name] == 1:
            entries[tool.name] = _Entry(source, tool, tool)
            continue
        name = f"{source}_{tool.name}"
        if renamed[name] > 1 or name in holders:
            name = _make_distinct(name, source, tool.name, holders)
        entries[name] = _Entry(source, tool, _rename_tool(tool, name, source))
    return entries


def _make_distinct(name: str, source: str, own: str, taken: Mapping[str, int]) -> str:
    """Return a name that ends in a hash of both parts: `a` + `b_c` and `a_b` + `c` read alike."""
    whole = f"{len(source)} {source} {own}".encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(whole).hexdigest()
    ends = (f"{name}_{digest[:length]}" for length in range(12, 65))
    return next(each for each in ends if each not in taken)


def _rename_tool(tool: Tool, name: str, source: str) -> Tool:
    return replace(tool, name=name, description=f"[{source}] {tool.description}")


def _group_name(source: str, name: str, counts: Mapping[str, int]) -> str:
    # Even if that is refused: a group's word about consent is never lost.
    return f"{source}_{name}" if counts[name] > 1 else name
