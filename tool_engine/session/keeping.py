"""What does a session remember of a call that has ended?

Its variables, and where all that its model reads of it came from: a result, and also what a failed
call says, which is in no variable and foreign text all the same.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.outcome import ErrorType
from tool_engine.model.tool import Tool
from tool_engine.output.shaping import is_quick
from tool_engine.session.formatting import data_of
from tool_engine.session.prompt.skills import READING
from tool_engine.session.variables.labels import labels_of_result
from tool_engine.session.variables.store import VariableStore
from tool_engine.session.variables.variable_definitions import WRITE_VAR
from tool_engine.session.variables.variable_tools import NamesOfCall, keep_call, keep_call_in_time

REFUSED: Final = frozenset(
    kind.value
    for kind in (
        ErrorType.TOOL_NOT_FOUND,
        ErrorType.EXECUTION_REJECTED,
        ErrorType.APPROVAL_REQUIRED,
        ErrorType.REJECTED,
        ErrorType.LIMIT_REACHED,
    )
)
"""Error types of refused calls: the refusal is all that there is to read."""
_NOT_ADMITTED: Final = frozenset(
    kind.value
    for kind in (
        ErrorType.QUEUE_FULL,
        ErrorType.QUEUE_TIMEOUT,
        ErrorType.RATE_LIMITED,
        ErrorType.CIRCUIT_OPEN,
        ErrorType.REJECTED,
    )
)
"""Error types whose messages may name an argument, as the key of its line."""
_ENGINES_WORDS: Final = (
    REFUSED
    | _NOT_ADMITTED
    | {
        kind.value
        for kind in (
            ErrorType.EXECUTOR_NOT_FOUND,
            ErrorType.TOOL_QUARANTINED,
            ErrorType.CANCELLED,
            ErrorType.ENGINE_CLOSED,
        )
    }
)
"""Error types whose messages hold nothing of a tool's content."""
_NOTHING: Final = frozenset[str]()


class Ended(NamedTuple):
    tool: Tool
    """The tool as the conversation shows it."""
    engine_name: str
    arguments: dict[str, Any]
    """The arguments, without references."""
    result: ToolExecutionResult
    put_in: frozenset[str]
    """Labels of the content that was put into the arguments."""
    source: str = ""
    """The source of the tool among several; see `source_of`."""


async def remember(
    store: VariableStore, call: Ended, names: NamesOfCall, labels: frozenset[str]
) -> None:
    """Keep the variables of a call.

    Args:
        store: The variables of the conversation.
        call: The call.
        names: Those of its variables.
        labels: Those of its result.
    """
    tool, arguments, result = call.tool, call.arguments, call.result
    if is_quick(result.output) and is_quick(arguments):
        keep_call(store, tool, names, arguments, result, labels, call.put_in)
    else:
        await keep_call_in_time(store, tool, names, arguments, result, labels, call.put_in)


def is_told_by_tool(result: ToolExecutionResult, *, has_begun: bool) -> bool:
    """Return True if the text of a result may hold what its tool has said.

    Args:
        result: How the call ended.
        has_begun: Whether it got further than its validation.
    """
    return has_begun and result.error_type not in _ENGINES_WORDS


def labels_read(
    call: Ended, labels: frozenset[str], *, has_begun: bool, is_formatted: bool
) -> frozenset[str]:
    """Return the labels of what a model reads of a call that has ended.

    Args:
        call: The call.
        labels: Those of its result.
        has_begun: Whether it got further than its validation, whose findings quote arguments.
        is_formatted: Whether a function made the text.
    """
    name, result = call.tool.name, call.result
    if has_begun and result.is_success and name not in READING:
        # Where there is nothing in it, there is nothing to read.
        is_empty = not is_formatted and data_of(result.output) is None
        return _NOTHING if is_empty else labels
    is_quoting = name in READING or not has_begun or result.error_type in _NOT_ADMITTED
    if name == WRITE_VAR or (not is_quoting and result.error_type in _ENGINES_WORDS):
        return _NOTHING
    return call.put_in if is_quoting else labels


def labels_of_call(call: Ended) -> frozenset[str]:
    """Return the labels of the result of a call."""
    ran = call.result
    if ran.tool_name != call.engine_name:
        ran = msgspec.structs.replace(ran, tool_name=call.engine_name)
    return labels_of_result(call.tool, call.arguments, ran, call.put_in, call.source)
