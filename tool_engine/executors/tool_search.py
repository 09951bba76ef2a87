"""How does a model find a tool that is not among its definitions?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from copy import deepcopy
from typing import Any, Final

from tool_engine.errors import ToolExecutionError
from tool_engine.interfaces import SearchTools
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool

ShowTool = Callable[[Tool], Tool | None]
shown_here: Final[ContextVar[ShowTool | None]] = ContextVar("tools_shown_here", default=None)
"""Returns a tool as callers without a conversation know it, or None; None: they know all tools."""
SEARCH_TOOLS: Final = "search_tools"
_LIMIT: Final = 5
_HINT: Final = (
    "No tool fits these words. Say in other words what the tool does, not with what data."
)


class ToolSearchExecutor:
    """The executor of `search_tools`: `{"query": "rain tomorrow"}` gives `{"tools": [...]}`.

    The best match comes first. Each tool has its name, description and parameters (JSON Schema),
    which is all that a model needs to call it. The conversation shows them to the model from then
    on: see `ToolSubAgent`. A search changes nothing by itself.

    Args:
        search_tools: Searches the catalog; None: there is none, and every call fails.
    """

    def __init__(self, search_tools: SearchTools | None = None) -> None:
        self._search_tools = search_tools

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> dict[str, Any]:
        """Return the tools that fit `params["query"]`, at most `params["limit"]` of them.

        A conversation sees those that are on in it, under the names that they have there; other
        callers see those of `shown_here`.
        """
        if self._search_tools is None:
            raise ToolExecutionError("there is no catalog to search here; run it by a ToolEngine")
        limit, query = params.get("limit", _LIMIT), params.get("query", "")
        show: ShowTool = getattr(context.scope, "shown_tool", shown_here.get() or _show_offered)
        # The result excludes searches such as this one: ask for one more.
        most = limit + 1
        while True:
            # In a thread, since the first search reads the whole catalog.
            matches = await asyncio.to_thread(self._search_tools, query, most)
            others = [each.tool for each in matches if not _is_search(each.tool)]
            shown = [each for each in map(show, others) if each is not None]
            if len(shown) >= limit or len(matches) < most:
                break
            most *= 4
        found = [_describe_tool(each) for each in shown[:limit]]
        return {"tools": found} if found else {"tools": found, "hint": _HINT}


def _is_search(tool: Tool) -> bool:
    """Return True for a tool with this executor, and not for another one of its name."""
    config = tool.implementation_config
    return config.get("type") == "builtin" and tool.handler == SEARCH_TOOLS


def _show_offered(tool: Tool) -> Tool | None:
    return tool if tool.is_offered else None


def _describe_tool(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": deepcopy(tool.parameters_schema),
    }
