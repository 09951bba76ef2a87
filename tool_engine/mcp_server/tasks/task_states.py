"""What does a client read of a task?"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, Final

from msgspec.structs import replace

from tool_engine.mcp_server.asking import LACKS, make_lack_error, write_wire
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.outcome import ErrorType
from tool_engine.model.task import INPUT_REQUIRED, QUEUED, TaskState
from tool_engine.model.tool import Tool
from tool_engine.protocols.result_content import withhold_unreviewed

_POLL_INTERVAL: Final = 1_000
"""Milliseconds after which it is worth while to ask again."""


def describe_task(state: TaskState, *, is_asking: bool) -> dict[str, Any]:
    """Return a task without its result, as it stands on the wire.

    Args:
        state: The task.
        is_asking: Whether its client has something to answer.
    """
    changed = max(filter(None, (state.created_at, state.started_at, state.ended_at)))
    described = {
        "taskId": state.id,
        "status": _find_status(state, is_asking=is_asking),
        "createdAt": _write_time(state.created_at),
        "lastUpdatedAt": _write_time(changed),
        "ttlMs": round((state.expires_at - state.created_at).total_seconds() * 1_000),
        "pollIntervalMs": _POLL_INTERVAL,
    }
    message = _find_message(state, is_asking=is_asking)
    return described if message is None else {**described, "statusMessage": message}


def withhold_result(state: TaskState, tool: Tool | None) -> TaskState:
    """Return a task as a client may read it: without a result that a person must see first.

    Args:
        state: The task.
        tool: Its tool; None: it is gone, and with it what its definition said about that.
    """
    if state.result is None:
        return state
    result = withhold_unreviewed(state.result, tool)
    if tool is None and state.started_at is not None:
        result = replace(
            result,
            is_success=False,
            error=f"the tool {state.tool_name!r} is gone, and with it what its definition says "
            "about who may read its results; ask the operator for the record of the call",
            error_type=ErrorType.RESULT_REJECTED.value,
        )
    is_of_tool = state.message == state.result.error
    return replace(state, result=result, message=result.error if is_of_tool else state.message)


async def describe_whole_task(
    state: TaskState,
    questions: Mapping[str, Any],
    write: Callable[[ToolExecutionResult], Awaitable[dict[str, Any]]],
) -> dict[str, Any]:
    """Return a task with what it asks or how it ended, as it stands on the wire.

    Args:
        state: The task.
        questions: What its client has to answer, by key.
        write: Writes a result as a `tools/call` request would have had it.
    """
    described = describe_task(state, is_asking=bool(questions))
    if described["status"] == "input_required":
        described["inputRequests"] = {key: write_wire(each) for key, each in questions.items()}
    elif described["status"] == "completed":
        assert state.result is not None  # noqa: S101 - it has ended
        described["result"] = await write(state.result)
    elif described["status"] == "failed":
        described["error"] = write_wire(make_lack_error(_find_lack(state) or "").error)
    return described


def _find_status(state: TaskState, *, is_asking: bool) -> str:
    if not state.is_final:
        # For an operator's consent a client can do nothing.
        return "input_required" if is_asking else "working"
    if state.status == "cancelled":
        return "cancelled"
    # Only what would have been an error of the protocol; other faults are results.
    return "completed" if _find_lack(state) is None else "failed"


def _find_lack(state: TaskState) -> str | None:
    """Return what the client could not do for the tool; None: that is not why it ended."""
    if state.result is None or state.result.is_success:
        return None
    lack = (state.result.metadata.get("error_details") or {}).get(LACKS)
    return lack if isinstance(lack, str) else None


def _find_message(state: TaskState, *, is_asking: bool) -> str | None:
    if state.is_final or state.status == QUEUED:
        return state.message
    if is_asking:
        return "waits for the client's answer"
    if state.status == INPUT_REQUIRED:
        return "waits for a person's consent"
    if state.progress is None:
        return "runs"
    done, total, message = state.progress.done, state.progress.total, state.progress.message
    how_far = f"{done:g}" if total is None else f"{done:g} of {total:g}"
    return how_far if message is None else f"{how_far}: {message}"


def _write_time(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
