"""Which executor represents, in this process, one that runs elsewhere?"""

from __future__ import annotations

from typing import Any

from tool_engine.interfaces import ExecutionBackend, ToolExecutor
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool


class PlacedExecutor:
    """Runs tools with `executor` where `backend` runs them."""

    def __init__(self, executor: ToolExecutor, backend: ExecutionBackend) -> None:
        self._function = backend.function_for(executor)

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> Any:
        return await self._function(tool, params, context)
