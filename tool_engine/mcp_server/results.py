"""What does a client read of a finished call?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tool_engine.mcp_server.promised import PromisedOutputs, is_wrapped
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.content.blocks import find_structured
from tool_engine.model.json.returned_value import copy_plain
from tool_engine.model.outcome import ErrorType
from tool_engine.model.tool import Tool
from tool_engine.protocols.definition_formats import lists_output
from tool_engine.protocols.result_content import (
    parts_of,
    text_of,
    withhold_unreviewed,
)

ERROR_TYPE: Final = "tool-engine/error_type"
"""The key of `_meta` with the type of a failure."""
CALL_ID: Final = "tool-engine/call_id"
"""The key of `_meta` with the id that the call has in records and events."""
WARNINGS: Final = "tool-engine/warnings"
"""The key of `_meta` with what was not as it should be, and did not stop the call."""
RETRY_AFTER: Final = "tool-engine/retry_after"
"""The key of `_meta` with the seconds after which a refused call may be tried again."""


def write_result(
    result: ToolExecutionResult,
    tool: Tool | None,
    promised: PromisedOutputs | None,
    *,
    is_modern: bool,
    is_large: bool = False,
) -> dict[str, Any]:
    """Return the result of a `tools/call` request, as it stands on the wire.

    Args:
        result: How the call ended.
        tool: What ran.
        promised: Holds what is sent against the list; None: the list does not show the tool.
        is_modern: Whether the client takes structured content that is no object.
        is_large: Whether the output takes long to look at.
    """
    result = withhold_unreviewed(result, tool)
    meta: dict[str, Any] = {} if result.call_id is None else {CALL_ID: result.call_id}
    if not result.is_success:
        meta[ERROR_TYPE] = result.error_type
        wait = (result.metadata.get("error_details") or {}).get("retry_after")
        if wait is not None:
            meta[RETRY_AFTER] = wait
        content = [{"type": "text", "text": text_of(result)}]
        return {"content": content, "isError": True, "resultType": "complete", "_meta": meta}
    content = [part.to_dict() for part in parts_of(result)]
    # Such as an argument that was left out: who sent it must not believe that it had an effect.
    warnings = [each["message"] for each in result.validation_errors]
    if warnings:
        meta[WARNINGS] = warnings
        content += [{"type": "text", "text": f"warning: {each}"} for each in warnings]
    written: dict[str, Any] = {
        "content": content,
        "isError": False,
        "resultType": "complete",
        "_meta": meta,
    }
    if result.metadata.get("cut") is not None:
        # A part of it is no longer as declared, and no list declares it of such a tool.
        return written
    if promised is not None and tool is not None and lists_output(tool):
        value, misfits = promised.find_fitting(tool, result.output, is_large=is_large)
        if misfits:
            return _write_misfit(written, [each.message for each in misfits])
        is_inside = is_wrapped(tool.output or {}, is_modern=is_modern)
        written["structuredContent"] = {"result": value} if is_inside else value
        return written
    structured = find_structured(result.output)
    if structured is not None and (is_modern or isinstance(structured, Mapping)):
        written["structuredContent"] = copy_plain(structured)
    return written


def _write_misfit(written: dict[str, Any], misfits: list[str]) -> dict[str, Any]:
    """Return a result of which a client reads all, and sees that it is not what the list says."""
    kind = ErrorType.EXECUTION_ERROR.value
    words = (
        "the tool has run, and returned what follows, which is not what its definition declares: "
        f"{'; '.join(misfits)}"
    )
    return {
        **written,
        "content": [{"type": "text", "text": f"Error ({kind}): {words}"}, *written["content"]],
        "isError": True,
        "_meta": {**written["_meta"], ERROR_TYPE: kind},
    }
