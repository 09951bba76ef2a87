"""What does a tool with the handler `echo` return?"""

from __future__ import annotations

from typing import Any

from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool


class EchoExecutor:
    """The executor of `echo`: it returns the parameters as they are."""

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> dict[str, Any]:
        """Return the parameters."""
        return params
