"""How do the tools of another framework become tools of an engine?"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple

from tool_engine.errors import ConfigurationError
from tool_engine.integrations.recognized_tools import describe_value, is_hosted, list_tools
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


class Borrowing(NamedTuple):
    """How the tools of one framework are borrowed."""

    kind: type
    """The class of its tools."""
    read: Callable[[Any], BorrowedTool]
    words: str
    """The function that a program calls, as it is named."""
    cure: str
    """How a tool of the framework is made."""
    framework: str
    """What the framework is called."""


class BorrowedTools(CatalogSource):
    """The tools of another framework, for `ToolEngine.add_source`.

    Args:
        tools: The tools.
        borrow: What the framework's tools are, and how one is read.
        origin: The `Tool.origin` of the tools.

    Raises:
        ConfigurationError: It is no list of tools of the framework, or two have one name.
    """

    def __init__(self, tools: Iterable[Any], borrow: Borrowing, origin: str) -> None:
        self.origin = origin
        self.executor: ToolExecutor | None = self
        self._tools: dict[str, BorrowedTool] = {}
        for at, tool in enumerate(list_tools(tools, borrow.words)):
            if is_hosted(tool):
                each = _leave_out(tool, at, borrow)
            elif isinstance(tool, borrow.kind):
                each = _read_tool(tool, borrow)
            else:
                raise ConfigurationError(
                    f"{borrow.words} takes {borrow.kind.__name__}, got {describe_value(tool)} at "
                    f"position {at}: {borrow.cure}"
                )
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


def _read_tool(tool: Any, borrow: Borrowing) -> BorrowedTool:
    try:
        return borrow.read(tool)
    except Exception as error:  # noqa: BLE001 - the framework reads code of its user
        name = str(getattr(tool, "name", None) or getattr(tool.metadata, "name", None))
        words = str(error).partition("\n")[0] or type(error).__name__
        fault = f"{name!r} cannot be read: {words}"
        return BorrowedTool(name, name, {}, _run_nothing, fault=fault)


def _leave_out(tool: Any, at: int, borrow: Borrowing) -> BorrowedTool:
    kind, said = type(tool).__name__, getattr(tool, "name", None) or getattr(tool, "kind", None)
    if isinstance(tool, Mapping):
        kind, said = f"a tool of type {tool['type']!r}", tool.get("name") or tool["type"]
    # Several may have one name, also that of a function.
    name = f"{said or kind} (position {at})"
    fault = (
        f"{kind} is executed by the model's provider or a run of {borrow.framework}, which no call "
        "here has: leave it to the agent"
    )
    return BorrowedTool(name, name, {}, _run_nothing, fault=fault)


async def _run_nothing(arguments: dict[str, Any], context: ToolExecutionContext) -> Any:
    """Stand for a tool that is left out, which nothing calls."""


def _list_tool(tool: BorrowedTool) -> ListedTool:
    entry = {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.schema),
    }
    return ListedTool(entry, tool.definition, fault=tool.fault)
