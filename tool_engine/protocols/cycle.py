"""How does a model's reply become results that it can read? Parse, execute, format.

Text protocols and native ones go the same way; each call of a reply ends in exactly one result, and
no fault of a reply stops the conversation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from tool_engine.errors import ConfigurationError
from tool_engine.interfaces import CallsTools, ToolCallingProtocol
from tool_engine.interfaces.source import find_for_model
from tool_engine.logger import get_logger
from tool_engine.model.call import ToolCall, ToolExecutionResult
from tool_engine.model.foreign import ends_caller
from tool_engine.model.json.data import Data
from tool_engine.model.json.returned_value import to_text
from tool_engine.model.reply import ParsedReply, ReplyFinding
from tool_engine.protocols.arguments.coercion import coerce
from tool_engine.protocols.call_runner import CallRunner
from tool_engine.protocols.cycle_options import CycleOptions
from tool_engine.protocols.large_replies import read_in_time
from tool_engine.protocols.native_calls import find_form
from tool_engine.protocols.object_arguments import make_readable
from tool_engine.protocols.registry import PROTOCOLS, get_protocol
from tool_engine.protocols.result_content import REQUEST_ID, text_of
from tool_engine.protocols.unread_words import hide_unread
from tool_engine.redaction import redact_text, secrets_if_known, words_of
from tool_engine.sources.foreign import as_source

_log: Final = get_logger(__name__)


class ToolCallCycleResult(msgspec.Struct, Data, frozen=True, kw_only=True):
    """The calls and results of one reply. A48."""

    parsed_requests: list[ToolCall]
    """The calls in the model's order; also those that could not run."""
    execution_results: list[ToolExecutionResult]
    """One for each call, in the same order; `metadata["request_id"]` is the id of the call."""
    reply: ParsedReply
    """The whole reply as it was read."""
    formatted: Any = None
    """The results as the protocol formats them; None: there are none, or none wanted."""
    messages: list[Any] = []
    """The next messages of the conversation: the reply, then the results."""

    @property
    def has_tool_requests(self) -> bool:
        """True if the model called a tool, and so waits for results."""
        return bool(self.parsed_requests)

    @property
    def text(self) -> str:
        """The text for the user, without calls and reasoning."""
        return self.reply.text

    @property
    def findings(self) -> list[ReplyFinding]:
        """The findings about the reply."""
        return self.reply.findings

    @property
    def results_text(self) -> str:
        """Return the results as one text."""
        if isinstance(self.formatted, str):
            return self.formatted
        return "\n".join(text_of(result) for result in self.execution_results)


async def process_tool_calls(
    engine: CallsTools,
    reply: Any,
    protocol: ToolCallingProtocol | str,
    options: CycleOptions | None = None,
) -> ToolCallCycleResult:
    """Read a model's reply, run its calls, and format their results.

    Args:
        engine: What runs the tools: a `ToolEngine`, a `ToolSubAgent`, or anything with `get(name)`
            and `execute(name, params, context)`.
        reply: A whole reply in any form that the protocol parses, or the result of its `parse` or
            of a decoder's `close`.
        protocol: The one whose definitions or prompt the model got, or the name of one.
        options: How the calls are run.

    Returns:
        The calls and their results, and the messages with which the conversation goes on.

    Raises:
        ConfigurationError: There is no such protocol, or the engine cannot run calls.
        asyncio.CancelledError: The caller was cancelled; so were the calls that ran.

    Example:
        >>> cycle = await process_tool_calls(engine, reply, protocol)
        >>> messages += cycle.messages
    """
    chosen = CycleOptions() if options is None else options
    if not isinstance(chosen, CycleOptions):
        raise ConfigurationError(f"options must be CycleOptions, got {options!r}")
    speaks = await _choose_protocol(protocol, engine)
    is_text = bool(getattr(speaks, "writes_text", False))
    if is_text and isinstance(reply, Iterator):
        # Kept as a list, as it is read twice.
        reply = list(reply)
    if isinstance(reply, ParsedReply):
        parsed = reply
    else:
        parsed = await read_in_time(partial(parse_reply, speaks), reply)
    if is_text:
        parsed = _note_unread(parsed, reply, speaks)
    runner = CallRunner(engine, chosen, has_commands=is_text, fit=coerce if is_text else None)
    results = await runner.run(parsed.calls)
    parsed = hide_unread(parsed, partial(find_for_model, as_source(engine)))
    formatted = None
    if chosen.format_results and results:
        write = partial(_format_results, speaks, engine)
        parsed, formatted = await read_in_time(write, results, parsed, before=len(results) * 100)
    return ToolCallCycleResult(
        parsed_requests=parsed.calls,
        execution_results=results,
        reply=parsed,
        formatted=formatted,
        messages=[*_list_messages(parsed, reply), *_list_result_messages(formatted)],
    )


def parse_reply(protocol: ToolCallingProtocol, reply: Any) -> ParsedReply:
    """Read a whole reply; a protocol's error becomes a finding. A27."""
    try:
        parsed: object = protocol.parse(reply)
    except BaseException as error:  # a foreign protocol must not break the conversation
        if ends_caller(error):
            raise
        message = f"the reply could not be read: {words_of(error)}"
        return ParsedReply(findings=[_report_fault("reply_not_parsed", protocol, message)])
    if not isinstance(parsed, ParsedReply):
        message = f"{_protocol_name(protocol)!r} gave no ParsedReply, but {type(parsed).__name__}"
        return ParsedReply(findings=[_report_fault("reply_not_parsed", protocol, message)])
    return parsed


def as_tool_request(call: ToolCall) -> dict[str, Any]:
    """Return a call in the founding document's form, for front ends. A46.

    `requestId`, `toolName`, `rawBlock` and `args`, in which every value is a text: other values are
    written as JSON.
    """
    return {
        "requestId": call.call_id,
        "toolName": call.tool_name,
        "rawBlock": call.raw,
        "args": {key: to_text(value) for key, value in call.arguments.items()},
    }


def as_execution_result(result: ToolExecutionResult) -> dict[str, Any]:
    """Return a result in the founding document's form, for front ends. A47.

    `requestId`, `toolName`, `status` (`success` or `error`), `result` (a text) and `durationMs`.
    """
    return {
        "requestId": str(result.metadata.get(REQUEST_ID) or result.call_id or ""),
        "toolName": result.tool_name,
        "status": "success" if result.is_success else "error",
        "result": text_of(result) if result.is_success else result.error or "",
        "durationMs": round(result.execution_time * 1000),
    }


def as_cycle_result(cycle: ToolCallCycleResult) -> dict[str, Any]:
    """Return a cycle in the founding document's form, for front ends. A48.

    `hasToolRequests`, `parsedRequests` and `executionResults`.
    """
    return {
        "hasToolRequests": cycle.has_tool_requests,
        "parsedRequests": [as_tool_request(call) for call in cycle.parsed_requests],
        "executionResults": [as_execution_result(result) for result in cycle.execution_results],
    }


def _note_unread(parsed: ParsedReply, reply: Any, protocol: ToolCallingProtocol) -> ParsedReply:
    """Add a finding for native calls that a text protocol ignores."""
    has_read_them = reply is parsed and bool(parsed.calls)
    form = None if has_read_them else find_form(reply)
    if form is None:
        return parsed
    name = _protocol_name(protocol)
    message = (
        f"the reply holds calls in the form of {form!r}, which {name!r} does not read: none of "
        f"those was run. Pass {form!r} as the protocol, or leave tools out of the request where "
        f"the model is told of them by {name!r}"
    )
    finding = _report_fault("calls_not_read", protocol, message)
    return replace(parsed, findings=[*parsed.findings, finding])


async def _choose_protocol(protocol: object, engine: Any) -> ToolCallingProtocol:
    if isinstance(protocol, ToolCallingProtocol):
        return protocol
    if not isinstance(protocol, str):
        raise ConfigurationError(
            f"protocol must be a name or a ToolCallingProtocol, got {protocol!r}"
        )
    if protocol in PROTOCOLS:
        return get_protocol(protocol, tools=engine)
    # Looking among the installed packages reads files.
    return await asyncio.to_thread(get_protocol, protocol)


def _restore_names(
    results: list[ToolExecutionResult], calls: list[ToolCall]
) -> list[ToolExecutionResult]:
    """Return the results under the names that the model wrote."""
    return [
        replace(result, tool_name=call.tool_name)
        for result, call in zip(results, calls, strict=True)
    ]


def _format_results(
    protocol: ToolCallingProtocol,
    engine: CallsTools,
    results: list[ToolExecutionResult],
    parsed: ParsedReply,
) -> tuple[ParsedReply, Any]:
    """Format the results; a failure becomes a finding, and so does what cannot be shown."""
    try:
        named = _restore_names(results, parsed.calls)
        formatted = protocol.format_results(named, parsed.calls)
        find = getattr(protocol, "result_findings", None)
        dropped = [] if find is None else find(named)
        return replace(parsed, findings=[*parsed.findings, *dropped]), formatted
    except BaseException as error:  # a foreign protocol may raise anything
        if ends_caller(error):
            raise
        sent = zip(results, parsed.calls, strict=True)
        secrets = [
            secrets_if_known(engine.get(result.tool_name), call.arguments) for result, call in sent
        ]
        known = as_source(engine).secrets
        message = f"the results could not be written down: {words_of(error, *secrets, *known)}"
        finding = _report_fault("results_not_formatted", protocol, message)
        return replace(parsed, findings=[*parsed.findings, finding]), None


def _list_messages(parsed: ParsedReply, reply: Any) -> list[Any]:
    if isinstance(parsed.message, list):
        return list(parsed.message)
    if parsed.message is not None:
        return [parsed.message]
    return (
        [{"role": "assistant", "content": make_readable(reply)}] if isinstance(reply, str) else []
    )


def _list_result_messages(formatted: Any) -> list[Any]:
    if isinstance(formatted, str):
        return [{"role": "user", "content": formatted}]
    if isinstance(formatted, list | tuple):
        return list(formatted)
    return [] if formatted is None else [formatted]


def _report_fault(event: str, protocol: ToolCallingProtocol, message: str) -> ReplyFinding:
    shown = redact_text(message)
    _log.warning(event, protocol=_protocol_name(protocol), error=shown)
    return ReplyFinding(error_type="malformed_reply", level="error", message=shown)


def _protocol_name(protocol: ToolCallingProtocol) -> str:
    return str(getattr(protocol, "name", type(protocol).__name__))
