"""What does a session remember of a call that has ended?

The text of a failed call, or of one whose result is not kept, is in no variable. It is still
foreign text, and a copy of it is found like one of a variable.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.json.output import to_text
from tool_engine.model.outcome import ErrorType
from tool_engine.model.tool import Tool
from tool_engine.output.shaping import is_quick
from tool_engine.session.prompt.skills import READING
from tool_engine.session.variables.labels import labels_of_result
from tool_engine.session.variables.store import VariableStore
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
_OWN_WORDS: Final = REFUSED | frozenset(
    kind.value
    for kind in (
        ErrorType.VALIDATION_ERROR,
        ErrorType.EXECUTOR_NOT_FOUND,
        ErrorType.TOOL_QUARANTINED,
        ErrorType.TIMEOUT,
        ErrorType.QUEUE_FULL,
        ErrorType.QUEUE_TIMEOUT,
        ErrorType.RATE_LIMITED,
        ErrorType.CANCELLED,
        ErrorType.ENGINE_CLOSED,
    )
)
"""Error types whose messages are the engine's own words only."""


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
    store: VariableStore, call: Ended, names: NamesOfCall | None, text: str, *, is_as_kept: bool
) -> frozenset[str]:
    """Keep the variables of a call, and traces of text that is in none.

    Returns the labels of the result.

    Args:
        store: The variables of the conversation.
        call: The call.
        names: Those of its variables; None: none are kept.
        text: What the model reads.
        is_as_kept: Whether that is the text of the variable, or a part of it.
    """
    labels = labels_of_call(call)
    if names is not None:
        tool, arguments, result = call.tool, call.arguments, call.result
        if is_quick(result.output) and is_quick(arguments):
            keep_call(store, tool, names, arguments, result, labels, call.put_in)
        else:
            await keep_call_in_time(store, tool, names, arguments, result, labels, call.put_in)
        if result.is_success and is_as_kept:
            return labels
    remember_read(store, call, text, has_args=names is not None)
    return labels


def remember_read(store: VariableStore, call: Ended, text: str, *, has_args: bool = False) -> None:
    """Keep traces of a text that a model reads and no variable holds.

    Args:
        store: The variables of the conversation.
        call: The call.
        text: What the model reads.
        has_args: Whether a variable has the arguments: what they say is not the tool's own text.
    """
    name, result = call.tool.name, call.result
    if name in READING or result.error_type in _OWN_WORDS:
        return
    if not has_args:
        sent = to_text(call.arguments)
        store.note_read(f"the arguments of a call of {name!r}", call.put_in | {"model"}, sent)
    store.note_read(f"a result of {name!r}", labels_of_call(call), text)


def labels_of_call(call: Ended) -> frozenset[str]:
    """Return the labels of the result of a call."""
    ran = call.result
    if ran.tool_name != call.engine_name:
        ran = msgspec.structs.replace(ran, tool_name=call.engine_name)
    return labels_of_result(call.tool, call.arguments, ran, call.put_in, call.source)
