"""What does somebody hear of a turn while it goes on? D15, D16."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

import msgspec

from tool_engine.agent.answer import AgentAnswer, hidden
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.json.data import Data
from tool_engine.model.json.output import to_text
from tool_engine.model.reply import ReplyFinding
from tool_engine.redaction import HIDDEN, OwnSecrets, redact, redact_text
from tool_engine.session.bounds import Usage

__all__ = ["AgentEvent", "AgentEventType"]


class AgentEventType(str, Enum):
    """Every type of `AgentEvent`."""

    ROUND_STARTED = "round_started"
    """The model is asked. What it said in the rounds before was not its answer."""
    CONTENT_CHUNK = "content_chunk"
    TOOL_CALL_START = "tool_call_start"
    TOOL_CALL_CHUNK = "tool_call_chunk"
    TOOL_CALL_END = "tool_call_end"
    TOOL_RESULT = "tool_result"
    """A call has ended, in whatever way; once for each call."""
    APPROVAL_REQUESTED = "approval_requested"
    APPROVAL_ANSWERED = "approval_answered"
    FINDING = "finding"
    """Something is to be known about the reply."""
    USAGE = "usage"
    """A reply is over, and this is what was spent so far."""
    FINISHED = "finished"
    """The turn is over: the last event."""
    ERROR = "error"
    """The turn broke off, as when the model cannot be reached: the last event."""


class AgentEvent(msgspec.Struct, Data, frozen=True, kw_only=True):
    """One step of a turn."""

    type: AgentEventType
    round: int = 0
    """Which request of the turn it belongs to, from 1."""
    parent_call_id: str | None = None
    """Of a sub-agent's event: the call that the sub-agent works for, as in records."""
    tool_call_id: str | None = None
    """The id under which the model awaits the result."""
    tool_call_name: str | None = None
    tool_call_arguments_chunk: str | None = None
    """A `tool_call_chunk`: the next part of the arguments, as the model writes them."""
    tool_call_arguments_complete: str | None = None
    """A `tool_call_end`: all arguments as one JSON object."""
    content: str | None = None
    """A `content_chunk`: text for the user."""
    result: ToolExecutionResult | None = None
    """A `tool_result`: how the call ended."""
    request: ApprovalRequest | None = None
    """Of an approval: what somebody is asked."""
    decision: ApprovalDecision | None = None
    """An `approval_answered`: what they said; None: nobody did."""
    finding: ReplyFinding | None = None
    usage: Usage | None = None
    answer: AgentAnswer | None = None
    """A `finished`: what came of the turn."""
    error: str | None = None
    """An `error`: why the turn broke off, and what to do."""

    _names: frozenset[str] = frozenset()
    """The arguments of its call that are secret."""
    _secrets: tuple[OwnSecrets, ...] = ()
    """The secrets that calls of its turn were sent."""

    def to_dict(self) -> dict[str, Any]:
        """The event as JSON values, with `[hidden]` in the place of secrets; empty fields left out.

        As in records, what a tool calls secret is hidden in the arguments and wherever its value
        stands in what follows. Of a `tool_call_chunk` nothing is shown, since no part of a secret
        can be told by itself; the whole arguments follow in `tool_call_end`. The token of a request
        is not hidden: whoever shows the question answers with it.
        """
        told = super().to_dict()
        if self.tool_call_arguments_chunk is not None:
            told["tool_call_arguments_chunk"] = HIDDEN
        if self.tool_call_arguments_complete is not None:
            told["tool_call_arguments_complete"] = self._shown_arguments()
        for field in _SPOKEN:
            told[field] = hidden(told[field], self._secrets)
        if told["result"] is not None:
            told["result"] = hidden(_without_secrets(told["result"]), self._secrets)
        return {key: value for key, value in told.items() if value is not None}

    def _shown_arguments(self) -> str:
        written = self.tool_call_arguments_complete or ""
        try:
            arguments = msgspec.json.decode(written)
        except (msgspec.DecodeError, ValueError):
            return HIDDEN if self._names else redact_text(written)
        if self._names and not isinstance(arguments, dict):
            # What is no mapping has no names by which its secrets could be told.
            return HIDDEN
        return to_text(hidden(redact(arguments, self._names, self._names), self._secrets))


_SPOKEN: Final = ("tool_call_arguments_complete", "content", "decision", "finding", "error")
"""The fields in which a secret that a call was sent may stand; an answer knows its own."""


def _without_secrets(values: dict[str, Any]) -> dict[str, Any]:
    """The fields of a result, each without secrets; their own names are none."""
    return {name: redact(value) for name, value in values.items()}
