"""How do the tools of another framework become tools of an engine?"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple

from tool_engine.errors import ConfigurationError
from tool_engine.interfaces import CatalogSource, ListedTool, ToolExecutor
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool

Run = Callable[[dict[str, Any], ToolExecutionContext], Awaitable[Any]]
"""Runs a tool of a framework with the arguments and the context of a call."""


class BorrowedTool(NamedTuple):
    """A tool of a framework, as its module has read it."""

    name: str
    description: str
    schema: Mapping[str, Any]
    run: Run
    definition: Mapping[str, Any] = {}
    """What of its settings the engine keeps, as keys of a definition."""
    fault: str = ""
    """Why it is left out; empty: it is not."""


class BorrowedTools(CatalogSource):
    """The tools of another framework, for `ToolEngine.add_source`.

    Args:
        tools: The tools.
        origin: The `Tool.origin` of the tools.

    Raises:
        ConfigurationError: Two of them have one name.
    """

    def __init__(self, tools: Iterable[BorrowedTool], origin: str) -> None:
        self.origin = origin
        self.executor: ToolExecutor | None = self
        self._tools: dict[str, BorrowedTool] = {}
        for each in tools:
            if self._tools.setdefault(each.name, each) is not each:
                raise ConfigurationError(
                    f"two of the tools are named {each.name!r}: rename one, or give them in two "
                    "sources of another origin and prefix"
                )
        self._listed = [_list_tool(each) for each in self._tools.values()]

    async def read_tools(self) -> Iterable[ListedTool]:
        """Return the tools."""
        return self._listed

    def follow(self, notify: Callable[[], None]) -> None:
        """Keep nothing: the list stays as it is."""

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> Any:
        """Run the framework's tool of this name."""
        return await self._tools[tool.name].run(params, context)


def _list_tool(tool: BorrowedTool) -> ListedTool:
    entry = {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.schema),
    }
    return ListedTool(entry, tool.definition, fault=tool.fault)


def check_kind(tool: object, kind: type, words: str) -> None:
    """Raise ConfigurationError if a tool is not of a class of the framework."""
    if not isinstance(tool, kind):
        raise ConfigurationError(f"{words} takes {kind.__name__}, got {type(tool).__name__}")
