"""Makes the entries of finished calls as the pipeline does, from what a test cares about."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from tool_engine.knowledge.snapshot import take_snapshot
from tool_engine.model.call import ToolExecutionContext, ToolExecutionResult
from tool_engine.model.record import CallEntry, serials
from tool_engine.model.tool import Tool


def entry_of(
    result: ToolExecutionResult,
    params: Any = MappingProxyType({}),
    context: ToolExecutionContext | None = None,
    tool: Tool | None = None,
    **fields: Any,
) -> CallEntry:
    """The entry of a call that ended with `result`; `fields` are those of the entry itself."""
    context = ToolExecutionContext() if context is None else context
    values: dict[str, Any] = {
        "tool_name": result.tool_name,
        "params": take_snapshot(params),
        "result": take_snapshot(result.output),
        "execution_time": result.execution_time,
        "is_success": result.is_success,
        "error": result.error,
        "caller_id": context.caller_id,
        "caller_type": context.caller_type,
        "conversation_id": context.conversation_id,
        "workflow_id": context.workflow_id,
        "date": fields.pop("created_at", result.executed_at),
        "after": 0.0,
        "call_id": None,
        "parent_call_id": context.parent_call_id,
        "error_type": result.error_type,
        "reached_executor": True,
        "facts": {"bucket": fields.pop("bucket", None), "generation": fields.pop("generation", 1)},
        "queue_wait": 0.0,
        "attempts": 1,
        "tool": tool,
        "priority": 5,
        "key": None,
        "serial": next(serials),
        "session_id": context.session_id,
        "task_id": context.task_id,
    }
    return CallEntry(**{**values, **fields})
