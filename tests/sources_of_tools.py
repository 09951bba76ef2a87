"""A source of tools whose list a test changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tool_engine import Tool
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.interfaces import CatalogSource, ToolExecutor
from tool_engine.model.call import ToolExecutionContext


def definition(name: str, **keys: Any) -> dict[str, Any]:
    return {"name": name, "description": "Says which tool ran", **keys}


def tool(name: str, **keys: Any) -> Tool:
    return ToolConfigLoader().from_mapping(definition(name, **keys))


class ListSource(CatalogSource):
    """Gives `items`; its tools return their own name and version."""

    def __init__(self, origin: str, items: Iterable[Any] = ()) -> None:
        self.origin = origin
        self.items: Any = list(items)
        self.executor: ToolExecutor | None = self
        self.notify: Callable[[], None] = lambda: None
        self.readings = 0

    async def read_tools(self) -> Iterable[Tool | Mapping[str, Any]]:
        self.readings += 1
        found: Iterable[Tool | Mapping[str, Any]] = self.items
        return found

    def follow(self, notify: Callable[[], None]) -> None:
        self.notify = notify

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> Any:
        return f"{self.origin} {tool.name} {tool.version}"
