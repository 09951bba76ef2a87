"""What does a conversation remember of a call that has ended: its variables, and what was read?

What a model reads of a call that failed, or of one whose result nobody keeps, is in no variable. It
is somebody's text all the same, and a copy of it is found like one of a variable.
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

__all__ = ["REFUSED", "Ended", "labels_of_call", "remember", "remember_read"]

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
"""Of a call that was refused there is nothing to read that the refusal does not say."""
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
"""How calls end of which the engine alone says something."""


class Ended(NamedTuple):
    """A call that has ended, and may be read."""

    tool: Tool
    """As the conversation shows it."""
    engine_name: str
    """What the engine calls it."""
    arguments: dict[str, Any]
    """Without references."""
    result: ToolExecutionResult
    put_in: frozenset[str]
    """Where the content came from that was put into the arguments."""
    source: str = ""
    """Which of several sources has the tool; see `source_of`."""


async def remember(
    store: VariableStore, call: Ended, names: NamesOfCall | None, text: str, *, is_as_kept: bool
) -> frozenset[str]:
    """Keeps the variables of a call, and what tells of a text that is in none of them.

    Returns where the result came from.

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
    """Keeps what tells of a text that a model reads, and that no variable holds.

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
    """Where the result of a call came from."""
    ran = call.result
    if ran.tool_name != call.engine_name:
        ran = msgspec.structs.replace(ran, tool_name=call.engine_name)
    return labels_of_result(call.tool, call.arguments, ran, call.put_in, call.source)
