"""How is a handler in worker processes called without an engine?"""

from __future__ import annotations

from typing import Any

from tool_engine import Tool, ToolExecutionContext
from tool_engine.executors.python.process_backend import ProcessBackend

__all__ = ["Apart"]


class Apart:
    """An executor over a `ProcessBackend` of its own."""

    isolation = "process"

    def __init__(self) -> None:
        self.backend = ProcessBackend()

    def __repr__(self) -> str:
        return repr(self.backend)

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> Any:
        return await self.backend.execute(self, tool, params, context)

    async def close(self) -> None:
        assert await self.backend.close(5.0) == 0
