"""How do the tools of several sources stand under one roof, when some have the same name? U45."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol, cast

from msgspec.structs import replace

from tool_engine.errors import ConfigurationError, ToolNotFoundError
from tool_engine.model.call import ToolExecutionContext, ToolExecutionResult
from tool_engine.model.checks.bounds import check_choice
from tool_engine.model.checks.nearness import find_near
from tool_engine.model.outcome import ErrorType
from tool_engine.model.reply import ReplyFinding
from tool_engine.model.tool import Tool

_LONGEST_NAME: Final = 80
"""More of a name that nobody has is not looked at, nor told."""
_ON_CONFLICT: Final = ("rename", "refuse")


class ToolSource(Protocol):
    """Where tools come from, such as a `ToolEngine`.

    One whose tools change has a `generation`, which is another one after each change.
    """

    def get(self, tool_name: str, /) -> Tool | None:
        """The tool of this name, or None."""

    def list_all(self) -> list[Tool]:
        """All tools."""

    async def execute(
        self,
        tool_name: str,
        params: Mapping[str, Any] | None,
        context: ToolExecutionContext | None,
        /,
    ) -> ToolExecutionResult:
        """Runs one tool."""


def checked_source(source: object) -> ToolSource:
    """The source.

    Raises:
        ConfigurationError: It is none.
    """
    if not all(callable(getattr(source, each, None)) for each in ("get", "list_all", "execute")):
        raise ConfigurationError(
            "a source must have get, list_all and execute as a ToolEngine has, got "
            f"{type(source).__name__}"
        )
    return cast("ToolSource", source)


class _Entry(NamedTuple):
    source: str
    own: Tool
    """As the source knows it."""
    shown: Tool
    """As it is known here."""


class _Roof(NamedTuple):
    """What the sources came to, when their generations were these."""

    state: tuple[object, ...]
    number: int
    entries: dict[str, _Entry]
    refused: frozenset[str]
    """Names that several sources have, where that is refused."""


class CombinedTools:
    """Many sources of tools as one: for `process_tool_calls`, `ToolSubAgent` and protocols.

    A name that only one source has stays. One that several have is no name here: each of those
    tools is called `{source}_{name}`, and its description begins with `[source]`, so that neither
    hides the other. `findings` tells of every such tool. A name depends only on which tools there
    are, not on their order: it is the same in every process and after a reload.

    Args:
        sources: Engines, by the names that stand before those of their tools.
        on_conflict: `rename`, or `refuse` to have an error instead.

    Raises:
        ConfigurationError: A source is none, there is no such mode, or two have a tool of one name
            and that is refused.
    """

    def __init__(self, sources: Mapping[str, ToolSource], *, on_conflict: str = "rename") -> None:
        check_choice("on_conflict", on_conflict, _ON_CONFLICT)
        for name, source in sources.items():
            if not name or not all(hasattr(source, each) for each in ("list_all", "execute")):
                raise ConfigurationError(
                    f"source {name!r} must have a name, and get, list_all and execute as a "
                    f"ToolEngine has, got {type(source).__name__}"
                )
        self._sources = dict(sources)
        self._refuses = on_conflict == "refuse"
        self._roof: _Roof | None = None
        self.list_all()

    def __repr__(self) -> str:
        return f"CombinedTools({', '.join(self._sources)}: {len(self._current().entries)} tools)"

    def __len__(self) -> int:
        return len(self._current().entries)

    @property
    def sources(self) -> Mapping[str, ToolSource]:
        """The sources, by the names that stand before those of their tools."""
        return MappingProxyType(self._sources)

    @property
    def on_conflict(self) -> str:
        """What becomes of names that several sources have: `rename` or `refuse`."""
        return _ON_CONFLICT[self._refuses]

    @property
    def generation(self) -> int:
        """Counts how often the tools of any source were seen to have changed."""
        return self._current().number

    @property
    def findings(self) -> list[ReplyFinding]:
        """One `renamed` for each tool that has another name here than in its source."""
        return [
            ReplyFinding(
                error_type="renamed",
                tool_name=name,
                message=f"{entry.own.name!r} of {entry.source!r} is {name!r} here: another source "
                "has a tool of that name, too",
            )
            for name, entry in self._current().entries.items()
            if name != entry.own.name
        ]

    def get(self, tool_name: str) -> Tool | None:
        """The tool of this name, as it is known here; or None."""
        entry = self._current().entries.get(tool_name)
        return None if entry is None else entry.shown

    def get_or_raise(self, tool_name: str) -> Tool:
        """The tool of this name.

        Raises:
            ToolNotFoundError: There is none; the message names the nearest.
        """
        tool = self.get(tool_name)
        if tool is None:
            raise ToolNotFoundError(self._missing(tool_name))
        return tool

    def list_all(self) -> list[Tool]:
        """All tools, by name.

        Raises:
            ConfigurationError: Two sources have a tool of one name, and that is refused.
        """
        roof = self._current()
        entries = roof.entries
        if roof.refused:
            raise ConfigurationError(self._conflict(min(roof.refused)))
        return [entries[name].shown for name in sorted(entries)]

    def source_of(self, tool_name: str) -> tuple[str, str] | None:
        """The source of a tool, and the tool's name there; None for a name that nobody has."""
        entry = self._current().entries.get(tool_name)
        return None if entry is None else (entry.source, entry.own.name)

    async def execute(
        self,
        tool_name: str,
        params: Mapping[str, Any] | None = None,
        context: ToolExecutionContext | None = None,
    ) -> ToolExecutionResult:
        """Runs one tool in its source; the result bears the name that it has here.

        Args:
            tool_name: The tool.
            params: Its arguments.
            context: Who calls, and within which limits.
        """
        entry = self._current().entries.get(tool_name)
        if entry is None:
            return ToolExecutionResult(
                is_success=False,
                tool_name=tool_name,
                error=self._missing(tool_name),
                error_type=ErrorType.TOOL_NOT_FOUND.value,
            )
        result = await self._sources[entry.source].execute(entry.own.name, params, context)
        return result if result.tool_name == tool_name else replace(result, tool_name=tool_name)

    def _missing(self, tool_name: str) -> str:
        if tool_name in self._current().refused:
            return self._conflict(tool_name)
        name = tool_name[:_LONGEST_NAME]
        entries = self._current().entries
        near = [known for known, entry in entries.items() if entry.own.name == tool_name]
        near = near or find_near(name, entries)
        hint = f"did you mean {', '.join(map(repr, near))}?" if near else f"{len(self)} are there"
        return f"there is no tool named {name!r}; {hint}"

    def _conflict(self, name: str) -> str:
        holders = [source for source, own in self._tools() if own.name == name]
        return (
            f"the sources {', '.join(map(repr, holders))} all have a tool named {name!r}: rename "
            "one in its definition, or pass on_conflict='rename'"
        )

    def _current(self) -> _Roof:
        state = tuple(getattr(source, "generation", None) for source in self._sources.values())
        roof = self._roof
        if roof is None or roof.state != state or None in state:
            entries = _entries(list(self._tools()))
            renamed = {name for name, entry in entries.items() if entry.shown is not entry.own}
            refused = {entries.pop(name).own.name for name in renamed if self._refuses}
            is_new = roof is None or roof.entries != entries or roof.refused != refused
            number = 0 if roof is None else roof.number
            roof = self._roof = _Roof(state, number + is_new, entries, frozenset(refused))
        return roof

    def _tools(self) -> Iterator[tuple[str, Tool]]:
        for source, engine in self._sources.items():
            for tool in engine.list_all():
                yield source, tool


def _entries(tools: list[tuple[str, Tool]]) -> dict[str, _Entry]:
    """Every tool under its name here, one to one."""
    holders = Counter(tool.name for _, tool in tools)
    renamed = Counter(f"{source}_{tool.name}" for source, tool in tools if holders[tool.name] > 1)
    entries = {}
    for source, tool in tools:
        if holders[tool.name] == 1:
            entries[tool.name] = _Entry(source, tool, tool)
            continue
        name = f"{source}_{tool.name}"
        if renamed[name] > 1 or name in holders:
            name = _told_apart(name, source, tool.name, holders)
        entries[name] = _Entry(source, tool, _renamed(tool, name, source))
    return entries


def _told_apart(name: str, source: str, own: str, taken: Mapping[str, int]) -> str:
    """`a` + `b_c` and `a_b` + `c` read alike: such names end in a hash of both parts."""
    whole = f"{len(source)} {source} {own}".encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(whole).hexdigest()
    ends = (f"{name}_{digest[:length]}" for length in range(12, 65))
    return next(each for each in ends if each not in taken)


def _renamed(tool: Tool, name: str, source: str) -> Tool:
    return replace(tool, name=name, description=f"[{source}] {tool.description}")
