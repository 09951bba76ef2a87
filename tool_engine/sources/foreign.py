"""How does an object that derives from nothing of ours stand in as a `Source`?

It is adapted once, where it comes in. Of what a source may leave out it keeps what it has; all else
is the default.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Final
from weakref import WeakValueDictionary

from tool_engine.config import ToolEngineConfig
from tool_engine.errors import ConfigurationError
from tool_engine.interfaces.source import NO_GROUPS, CallsTools, Source, ToolSource
from tool_engine.model.call import Refusal, ToolExecutionContext, ToolExecutionResult
from tool_engine.model.group import ToolGroup
from tool_engine.model.tool import Tool
from tool_engine.sources.place import describe_engine

_NEEDED: Final = ("get", "list_all", "execute")


class ForeignSource(Source):
    """An object with `get` as a source.

    Args:
        found: The object. It may lack `execute` where no call is made.
    """

    def __init__(self, found: Any) -> None:
        self.found = found
        self.makes_contexts = _takes_timeout(getattr(found, "execute", None))

    def __repr__(self) -> str:
        return repr(self.found)

    # It may have others by the next question, so that each is looked up anew.

    @property
    def generation(self) -> Any:
        return getattr(self.found, "generation", None)

    @property
    def groups(self) -> Mapping[str, ToolGroup]:
        return getattr(self.found, "groups", None) or NO_GROUPS

    @property
    def findings(self) -> Sequence[Any]:
        return getattr(self.found, "findings", None) or ()

    @property
    def store(self) -> Any:
        return getattr(self.found, "store", None)

    @property
    def controller(self) -> Any:
        controller = getattr(self.found, "controller", None)
        return controller if hasattr(controller, "config") else None

    @property
    def index(self) -> Any:
        index = getattr(self.found, "index", None)
        return index if callable(getattr(index, "nearest", None)) else None

    def get(self, tool_name: str, /) -> Tool | None:
        tool: Tool | None = self.found.get(tool_name)
        return tool

    def list_all(self) -> list[Tool]:
        if isinstance(self.found, Mapping):
            return list(self.found.values())
        find = getattr(self.found, "list_all", None)
        return list(find()) if callable(find) else super().list_all()

    def list_unambiguous(self) -> tuple[list[Tool], str | None]:
        tools, first = self.list_all(), dict[str, Tool]()
        twice = {each.name for each in tools if first.setdefault(each.name, each) is not each}
        if not twice:
            return tools, None
        clear = [each for each in tools if each.name not in twice]
        return clear, f"a source has two tools named {min(twice)!r}: rename one in it"

    def get_or_raise(self, tool_name: str, /) -> Tool:
        find = getattr(self.found, "get_or_raise", None)
        tool: Tool = find(tool_name) if callable(find) else super().get_or_raise(tool_name)
        return tool

    async def execute(
        self,
        tool_name: str,
        params: Mapping[str, Any] | None = None,
        context: ToolExecutionContext | None = None,
        /,
    ) -> ToolExecutionResult:
        if self.makes_contexts:
            given = ToolExecutionContext() if context is None else context
            heard = {} if given.on_progress is None else {"on_progress": given.on_progress}
            takes = heard if _takes_argument(self.found.execute, "on_progress") else {}
            made = self.found.execute(tool_name, params, given.timeout, **takes)
        else:
            made = self.found.execute(tool_name, params, context)
        result: ToolExecutionResult = await made
        return result

    def refuse(
        self,
        tool_name: str,
        params: Mapping[str, Any] | None,
        context: ToolExecutionContext | None,
        refusal: Refusal,
        /,
    ) -> ToolExecutionResult:
        refuse = getattr(self.found, "refuse", None) or super().refuse
        result: ToolExecutionResult = refuse(tool_name, params, context, refusal)
        return result

    def explain_missing(self, tool_name: str, /) -> Refusal:
        explain = getattr(self.found, "explain_missing", None) or super().explain_missing
        refusal: Refusal = explain(tool_name)
        return refusal

    def describe_origin(self) -> object:
        config = getattr(self.found, "config", None)
        if isinstance(config, ToolEngineConfig):
            return describe_engine(config)
        return [type(self.found).__qualname__]


_adapted: Final[WeakValueDictionary[int, ForeignSource]] = WeakValueDictionary()
"""By the id of the object, which its adapter keeps alive."""


def as_source(found: object) -> Source:
    """Return the source itself, or the one adapter of another object.

    The same object has the same adapter everywhere: by that it is recognised.
    """
    # Not by isinstance: an object with names of all kinds is none.
    if Source in type(found).__mro__:
        return found  # type: ignore[return-value]
    known = _adapted.get(id(found))
    return _adapted.setdefault(id(found), ForeignSource(found)) if known is None else known


def check_source(found: ToolSource) -> Source:
    """Return an object that lists and runs tools as a source.

    Raises:
        ConfigurationError: It is none.
    """
    if not has_methods(found, _NEEDED):
        raise ConfigurationError(
            "a source must have get, list_all and execute as a ToolEngine has, got "
            f"{describe_kind(found)}"
        )
    return as_source(found)


def check_caller_of_tools(found: CallsTools) -> Source:
    """Return an object that runs tools as a source.

    Raises:
        ConfigurationError: It runs none.
    """
    if not has_methods(found, ("get", "execute")):
        raise ConfigurationError(
            f"engine must be a ToolEngine or something else with get(name) and execute(name, "
            f"params, context), got {describe_kind(found)}"
        )
    return as_source(found)


def has_methods(found: object, names: Sequence[str]) -> bool:
    """Return True if an object has all these methods; those of a class have no object yet."""
    are_there = all(callable(getattr(found, each, None)) for each in names)
    return are_there and not isinstance(found, type)


def describe_kind(found: object) -> str:
    if isinstance(found, type):
        return f"the class itself; write {found.__name__}(), with what it takes"
    return type(found).__name__


def _takes_timeout(execute: Any) -> bool:
    """Return True if `execute` makes the context itself, as a `ToolSubAgent`'s does."""
    return _takes_argument(execute, "timeout") and not _takes_argument(execute, "context")


def _takes_argument(execute: Any, name: str) -> bool:
    try:
        return name in inspect.signature(execute).parameters
    except (TypeError, ValueError):
        return False
