"""How does a call of a tool become a call of the server that has it?"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from tool_engine.errors import ToolEngineError
from tool_engine.executors.entry_reader import CompiledEntries
from tool_engine.executors.mcp.connection import Connection
from tool_engine.executors.mcp.failed_results import make_failure
from tool_engine.interfaces import ToolExecutor
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool


class _Plan(msgspec.Struct, frozen=True):
    name: str
    """The server's own name of the tool."""
    is_repeatable: bool


class MCPExecutor(ToolExecutor):
    """Calls the tools of one server.

    Args:
        connection: The connection to it.
    """

    # A scope of anyio, as each call through the gateway is in, cancels its caller again at each
    # await, and with it the word to the server that the call is given up.
    leaves_on_cancel = True

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._plans = CompiledEntries(_read_plan)

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> Any:
        """Call the tool and return what its server returned.

        Returns:
            `{"content": [...]}` with MCP's blocks, and `structuredContent` where there is some.

        Raises:
            ToolExecutionError: The tool failed, or its server is down or misbehaves.
            TimeoutError: There was no sign of progress for too long.
        """
        plan = self._plans.of(tool)

        async def report(progress: float, total: float | None, message: str | None) -> None:
            # What a server reports need not be an amount, and may come late.
            with suppress(ToolEngineError):
                context.report_progress(progress, total, message)

        result = await self._connection.call(
            plan.name, params, report, is_repeatable=plan.is_repeatable, deadline=context.deadline
        )
        if result.get("isError"):
            raise make_failure(self._connection.settings.name, result)
        output: dict[str, Any] = {"content": result.get("content") or []}
        if "structuredContent" in result:
            output["structuredContent"] = result["structuredContent"]
        return output


def _read_plan(tool: Tool) -> _Plan:
    name = tool.implementation_config["tool"]
    # Where there is a `retry`, that alone says how often it runs.
    return _Plan(name, (tool.idempotent or tool.effect == "read") and tool.retry is None)
