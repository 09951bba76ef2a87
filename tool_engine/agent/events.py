"""What does somebody hear of a turn while it goes on? D15, D16."""

from __future__ import annotations

from enum import Enum
from typing import Any

import msgspec

from tool_engine.agent.answer import AgentAnswer
from tool_engine.approval.describe import shown_params
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.reply import ReplyFinding
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


class AgentEvent(msgspec.Struct, frozen=True, kw_only=True):
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

    def to_dict(self) -> dict[str, Any]:
        """The event as JSON values; what it does not have is left out.

        What a tool calls secret is hidden in what somebody is asked. The token of the request is
        not: whoever shows the question answers with it.
        """
        told: dict[str, Any] = msgspec.to_builtins(self)
        if self.request is not None:
            told["request"]["params"] = shown_params(self.request)
        return {key: value for key, value in told.items() if value is not None}
