"""How are tools combined, renamed, left out and described differently, without changing them?

Each of these functions gives something that stands in the place of an engine; they nest in any
order. Nothing is hidden silently: where two tools would have one name, there is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from msgspec.structs import replace

from tool_engine.errors import ConfigurationError
from tool_engine.interfaces.source import Source, ToolSource
from tool_engine.model.checks.called_name import word_no_name
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.checks.unawaited import is_unawaited
from tool_engine.model.foreign import ends_caller
from tool_engine.model.schema import parameters_of
from tool_engine.model.tool import Tool
from tool_engine.sources.combined_tools import Combination
from tool_engine.sources.tool_view import ToolView

Keep = Callable[[Tool], bool]
"""Returns True if a tool is shown."""
Prepare = Callable[[Tool, int], Tool | None]
"""Returns how a model sees a tool in a turn, the first of which is 0; None: not at all."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}")
_PREFIX: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_CHANGEABLE: Final = (
    *("description", "parameters", "input_schema", "examples", "output", "status"),
)
"""The fields that a model sees of a tool, which `prepare` may change."""


def combine(*sources: ToolSource) -> Source:
    """Combine the tools and the groups of several sources into one.

    Raises:
        ToolConflictError: Two have a tool, or a group, of one name; so does a later question, when
            a reload made it so.
        ConfigurationError: There is no source, or one is none.
    """
    if not sources:
        raise ConfigurationError("combine needs at least one source of tools")
    return Combination({f"{place}": source for place, source in enumerate(sources, 1)})


def prefix(source: ToolSource, text: str) -> Source:
    """Put `text` before the names of a source's tools and groups.

    Raises:
        ConfigurationError: No name can begin so.
    """
    if not isinstance(text, str) or not _PREFIX.fullmatch(text):
        raise ConfigurationError(
            f"no tool's name can begin with {text!r}: write a letter or _ first, then letters, "
            "digits, _ . and -, such as 'web_'"
        )
    return _Prefixed(source, text)


def rename(source: ToolSource, names: Mapping[str, str]) -> Source:
    """Show some tools of a source under other names: old -> new.

    A name that no tool has yet is a finding, not an error.

    Raises:
        ToolConflictError: Two tools would have one name; so does a later question.
        ConfigurationError: The names are no mapping of texts, or a new one can be none.
    """
    if not isinstance(names, Mapping):
        raise ConfigurationError(
            f"rename takes a mapping of old names to new ones, got {type(names).__name__}"
        )
    for old, new in names.items():
        if not isinstance(old, str):
            raise ConfigurationError(word_no_name(old))
        if not isinstance(new, str) or not _NAME.fullmatch(new):
            raise ConfigurationError(
                f"{old!r} cannot be renamed {new!r}: a name has a letter or _ first, then letters, "
                "digits, _ . and -, at most 128 characters"
            )
    made = _Renamed(source, names)
    made.list_all()
    return made


def keep(source: ToolSource, tools: Keep | Collection[str]) -> Source:
    """Show only the tools that a function accepts, or that are named.

    Tools may still call the others from inside.

    Raises:
        ConfigurationError: It is neither a function nor a list of names; or, raised when the
            tools are listed, the function failed or is async.
    """
    if not callable(tools) and (isinstance(tools, str | bytes) or not _are_names(tools)):
        raise ConfigurationError(f"keep takes a function of a tool, or names, got {tools!r}")
    return _Kept(source, tools)


def prepare(source: ToolSource, tell: Prepare) -> Source:
    """Show the tools as a function changes them in each turn.

    It may change the description, the examples and the output, leave out parameters or change their
    schemas, or give None, so that the tool is hidden and calls of it are refused. Calls are
    validated and run by the definition as it is.

    Raises:
        ConfigurationError: It is no function. When the tools are listed: it failed, returned
            something else, or shows parameters for which calls would be refused.
    """
    if not callable(tell):
        raise ConfigurationError(f"prepare takes a function of a tool and a turn, got {tell!r}")
    return _Prepared(source, tell)


class _Prefixed(ToolView):
    def __init__(self, source: ToolSource, text: str) -> None:
        super().__init__(source)
        self._text = text

    def bind_turn(self, turn: Callable[[], int]) -> _Prefixed:
        source = self._source.bind_turn(turn)
        return self if source is self._source else _Prefixed(source, self._text)

    def _show_tool(self, tool: Tool) -> Tool:
        return replace(tool, name=f"{self._text}{tool.name}")

    def _name_alias(self, alias: str) -> str:
        return f"{self._text}{alias}"

    def _group_name(self, name: str) -> str:
        return f"{self._text}{name}"


class _Renamed(ToolView):
    def __init__(self, source: ToolSource, names: Mapping[str, str]) -> None:
        super().__init__(source)
        self._names = dict(names)

    def bind_turn(self, turn: Callable[[], int]) -> _Renamed:
        source = self._source.bind_turn(turn)
        return self if source is self._source else _Renamed(source, self._names)

    @property
    def findings(self) -> list[Any]:
        """Include the names of tools to rename that do not exist."""
        known = [tool.name for tool in self._source.list_all()]
        return super().findings + [
            f"rename: there is no tool {old!r} to be called {new!r}{suggest_near(old, known)}"
            for old, new in self._names.items()
            if old not in known
        ]

    def _show_tool(self, tool: Tool) -> Tool:
        new = self._names.get(tool.name, tool.name)
        return tool if new == tool.name else replace(tool, name=new)


class _Kept(ToolView):
    def __init__(self, source: ToolSource, tools: Keep | Collection[str]) -> None:
        super().__init__(source)
        self._keeps = tools if callable(tools) else frozenset(tools)

    def bind_turn(self, turn: Callable[[], int]) -> _Kept:
        source = self._source.bind_turn(turn)
        # The function may decide differently in the next conversation.
        is_shared = source is self._source and not callable(self._keeps)
        return self if is_shared else _Kept(source, self._keeps)

    @property
    def findings(self) -> list[Any]:
        """Include the names of tools to keep that do not exist."""
        if callable(self._keeps):
            return super().findings
        known = [tool.name for tool in self._source.list_all()]
        return super().findings + [
            f"keep: there is no tool {name!r}{suggest_near(name, known)}"
            for name in sorted(set(self._keeps).difference(known))
        ]

    def _show_tool(self, tool: Tool) -> Tool | None:
        keeps = self._keeps
        if not callable(keeps):
            return tool if tool.name in keeps else None
        try:
            is_kept: object = keeps(tool)
        except BaseException as error:
            if ends_caller(error):
                raise
            raise ConfigurationError(
                f"keep failed for the tool {tool.name!r}: {type(error).__name__}: {error}"
            ) from error
        if is_unawaited(is_kept):
            # A coroutine would count as True.
            raise ConfigurationError(
                f"keep gave {type(is_kept).__name__} for the tool {tool.name!r}: pass a plain "
                "function that gives True or False"
            )
        return tool if is_kept else None


class _Prepared(ToolView):
    def __init__(
        self, source: ToolSource, change: Prepare, turn: Callable[[], int] | None = None
    ) -> None:
        super().__init__(source)
        self._change = change
        self._turn = turn

    def bind_turn(self, turn: Callable[[], int]) -> _Prepared:
        return _Prepared(self._source.bind_turn(turn), self._change, turn)

    @property
    def generation(self) -> Any:
        """A value for the source and the turn; None outside a conversation."""
        inner = super().generation
        return None if inner is None or self._turn is None else (inner, self._turn())

    def _show_tool(self, tool: Tool) -> Tool | None:
        turn = 0 if self._turn is None else self._turn()
        try:
            given: object = self._change(tool, turn)
        except BaseException as error:
            if ends_caller(error):
                raise
            raise ConfigurationError(
                f"prepare failed for the tool {tool.name!r} in turn {turn}: "
                f"{type(error).__name__}: {error}"
            ) from error
        if given is None or given is tool:
            return tool if given is tool else None
        if not isinstance(given, Tool):
            is_unawaited(given)
            raise ConfigurationError(
                f"prepare gave {type(given).__name__} for the tool {tool.name!r}: give a Tool, or "
                "None to leave it out"
            )
        return _apply_changes(tool, given)


def _are_names(tools: object) -> bool:
    return isinstance(tools, Collection) and all(isinstance(name, str) for name in tools)


def _apply_changes(tool: Tool, changed: Tool) -> Tool:
    """Return the tool with only the fields changed that models see."""
    if changed.name != tool.name:
        raise ConfigurationError(
            f"prepare gave the tool {tool.name!r} the name {changed.name!r}: use rename() for that"
        )
    if changed.input_schema != tool.input_schema and changed.input_schema is not None:
        changed = replace(changed, parameters=parameters_of(changed.input_schema))
    elif tool.input_schema is not None and changed.parameters != tool.parameters:
        raise ConfigurationError(
            f"prepare changes the parameters of {tool.name!r}, which are a JSON Schema: change its "
            "input_schema, which they follow"
        )
    own = {each.name for each in tool.parameters}
    new = [each.name for each in changed.parameters]
    unknown = sorted(set(new) - own)
    if unknown:
        raise ConfigurationError(
            f"prepare tells of a parameter {unknown[0]!r} of {tool.name!r}, which has none of that "
            f"name{suggest_near(unknown[0], own)}"
        )
    needed = [each.name for each in tool.parameters if each.required and each.name not in new]
    if needed:
        raise ConfigurationError(
            f"prepare leaves out the parameter {needed[0]!r} of {tool.name!r}, without which every "
            "call of it is refused: leave out optional ones only, or the whole tool"
        )
    return replace(tool, **{name: getattr(changed, name) for name in _CHANGEABLE})
