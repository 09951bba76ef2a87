"""How does a model find a tool that it has not been shown?"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final

from tool_engine.errors import ToolExecutionError
from tool_engine.interfaces import SearchTools
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool

__all__ = ["ToolSearchExecutor"]

_LIMIT: Final = 5
_HINT: Final = (
    "No tool fits these words. Say in other words what the tool does, not with what data."
)


class ToolSearchExecutor:
    """Runs `search_tools`: `{"query": "rain tomorrow"}` gives `{"tools": [...]}`, best first.

    Each tool is told with its name, description and parameters (JSON Schema), which is all that a
    model needs to call it. Whoever holds the conversation shows them to the model from then on:
    see `ToolSubAgent`. A search changes nothing by itself.

    Args:
        search_tools: Searches the catalog; None: there is none, and every call fails.
    """

    def __init__(self, search_tools: SearchTools | None = None) -> None:
        self._search_tools = search_tools

    def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> dict[str, Any]:
        """The tools that fit `params["query"]`, at most `params["limit"]` of them.

        Not a coroutine: it runs in a thread, since the first search reads the whole catalog.
        """
        if self._search_tools is None:
            raise ToolExecutionError("there is no catalog to search here; run it by a ToolEngine")
        limit = params.get("limit", _LIMIT)
        # The tool knows itself: one more, so that it need not count.
        matches = self._search_tools(params.get("query", ""), limit + 1)
        others = [match.tool for match in matches if match.name != tool.name]
        found = [_told(each) for each in others[:limit]]
        return {"tools": found} if found else {"tools": found, "hint": _HINT}


def _told(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": deepcopy(tool.parameters_schema),
    }
