"""What does a model read of a finished call, and which call does a result answer?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.model.call import ToolCall, ToolExecutionResult
from tool_engine.model.content.blocks import read_content, write_text
from tool_engine.model.content.pieces import Content, TextContent
from tool_engine.model.json.returned_value import to_text
from tool_engine.model.outcome import ErrorType, Outcome
from tool_engine.model.permission import RESULTS_INSIDE, ResultPolicy
from tool_engine.model.tool import Tool
from tool_engine.protocols.result_media import as_media

REQUEST_ID: Final = "request_id"
"""The key of `result.metadata` for the id that the model awaits; set by the cycle."""


IMAGE_TYPES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")
"""The types of images that OpenAI and Anthropic take."""


def withhold_unreviewed(result: ToolExecutionResult, tool: Tool | None) -> ToolExecutionResult:
    """Return the result, or a refusal if it needs a review. S31.

    For callers without a session, where no reviewer can be asked.
    """
    permission = None if tool is None else tool.permission
    own = None if permission is None else permission.result
    policies = (own, result.metadata.get(RESULTS_INSIDE))
    is_asked_for = ResultPolicy.ALWAYS in policies or (
        ResultPolicy.ON_ERROR in policies and not result.is_success
    )
    if not is_asked_for or hasattr(result, "final_text") or result.outcome is Outcome.REJECTED:
        return result
    message = (
        f"the result of {result.tool_name!r} needs a person's consent, and there is no approver "
        "to ask: let a ToolSession with an approver process the reply"
    )
    kind = ErrorType.RESULT_REJECTED.value
    return msgspec.structs.replace(result, is_success=False, error=message, error_type=kind)


def text_of(result: ToolExecutionResult) -> str:
    """Return the text of a result, or advice after a failure. A37.

    Strings stay as they are, other data becomes JSON. Images and other bytes are named, not shown.
    For a call of a session it is its `final_text`. S15.
    """
    final = _find_final_text(result)
    return write_text(parts_of(result)) if final is None else final


def parts_of(result: ToolExecutionResult) -> list[Content]:
    """Return the pieces of a result, in order; at least one.

    An output of `{"content": [...]}`, as MCP's servers give it, is split, as `read_content` says;
    any other output is one text. For a call of a session the text is its `final_text`; images and
    other bytes stay beside a text that differs from the tool's own.
    """
    final = _find_final_text(result)
    is_hidden = getattr(result, "is_hidden", False)
    parts = read_content(result.output) if result.is_success and not is_hidden else []
    if final is not None and (not parts or write_text(parts) != final):
        return [TextContent(final), *(part for part in parts if as_media(part) is not None)]
    if parts:
        return parts
    if not result.is_success:
        return [TextContent(_write_failure(result, result.error))]
    return [TextContent(to_text(unwrap_output(result)))]


def unwrap_output(result: ToolExecutionResult) -> Any:
    """Return a result's output, without the wrapping of a lone value."""
    output = result.output
    return output["result"] if len(output) == 1 and "result" in output else output


def _find_final_text(result: ToolExecutionResult) -> str | None:
    final: str | None = getattr(result, "final_text", None)
    return final if final is None or result.is_success else _write_failure(result, final)


def _write_failure(result: ToolExecutionResult, text: str | None) -> str:
    return f"Error ({result.error_type}): {text}"


def request_ids(
    results: Sequence[ToolExecutionResult], calls: Sequence[ToolCall] | None
) -> list[str]:
    """Return the id that the model awaits, for each result.

    Raises:
        ConfigurationError: There are calls, but not as many as results; or neither the result nor
            a call says an id.
    """
    if calls is not None and len(calls) != len(results):
        raise ConfigurationError(
            f"{len(results)} results for {len(calls)} calls: pass the calls that were run, in the "
            "order of their results"
        )
    return [_find_request_id(place, result, calls) for place, result in enumerate(results)]


def _find_request_id(
    place: int, result: ToolExecutionResult, calls: Sequence[ToolCall] | None
) -> str:
    found = result.metadata.get(REQUEST_ID)
    if found is None and calls is not None:
        found = calls[place].call_id
    if found is None:
        raise ConfigurationError(
            f"result {place}, of {result.tool_name!r}, does not say which call it answers: pass "
            f"the calls too, or set metadata[{REQUEST_ID!r}] to {json.dumps('the id of the call')}"
        )
    return str(found)
