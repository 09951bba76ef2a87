"""How does the request of a client become a call of the engine?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tool_engine.mcp_server.asking import ClientRequest, answering
from tool_engine.model.call import ToolExecutionContext, ToolExecutionResult

CALLER_TYPE: Final = "mcp"
"""The `caller_type` of calls that clients make."""


async def run_call(
    execute: Callable[..., Any],
    tool_name: str,
    arguments: Mapping[str, Any],
    context: ToolExecutionContext,
    request: ClientRequest,
) -> ToolExecutionResult:
    """Run one call; what cancels this cancels the call.

    Args:
        execute: The engine's.
        tool_name: The tool.
        arguments: What the client sent.
        context: Who calls.
        request: What is answered.
    """
    is_heard = False
    try:
        with answering(request):
            result: ToolExecutionResult = await execute(
                tool_name, arguments, context, on_progress=request.notices.note_progress
            )
        is_heard = True
    finally:
        await request.notices.end(is_heard=is_heard)
    return result
