"""Which events report the steps of a turn while it runs? D15, D16."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

import msgspec

from tool_engine.agent.answer import AgentAnswer, hide_secrets
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.json.data import Data
from tool_engine.model.json.returned_value import to_text
from tool_engine.model.progress import ToolProgress
from tool_engine.model.reply import ReplyFinding
from tool_engine.redaction import HIDDEN, OwnSecrets, redact, redact_text
from tool_engine.session.bounds import Usage


class AgentEventType(str, Enum):
    ROUND_STARTED = "round_started"
    """The model is asked. What it said in earlier rounds was not its answer."""
    CONTENT_CHUNK = "content_chunk"
    TOOL_CALL_START = "tool_call_start"
    TOOL_CALL_CHUNK = "tool_call_chunk"
    TOOL_CALL_END = "tool_call_end"
    TOOL_PROGRESS = "tool_progress"
    """A running call says how far it has come; none comes after its `tool_result`."""
    TOOL_RESULT = "tool_result"
    """A call has ended, successful or not; once for each call."""
    APPROVAL_REQUESTED = "approval_requested"
    APPROVAL_ANSWERED = "approval_answered"
    FINDING = "finding"
    """A note about the reply, such as a repair or a loss."""
    USAGE = "usage"
    """A reply is over; carries what the conversation has used so far."""
    FINISHED = "finished"
    """The last event: the turn is over."""
    ERROR = "error"
    """The last event: the turn broke off, for example because the model cannot be reached."""


class AgentEvent(msgspec.Struct, Data, frozen=True, kw_only=True):
    """One step of a turn."""

    type: AgentEventType
    round: int = 0
    """The number of the request within the turn, from 1."""
    parent_call_id: str | None = None
    """In a sub-agent's event: the call that the sub-agent works for, as in records."""
    tool_call_id: str | None = None
    """The id by which the model matches the result."""
    tool_call_name: str | None = None
    tool_call_arguments_chunk: str | None = None
    """In a `tool_call_chunk`: the next part of the arguments, as the model writes them."""
    tool_call_arguments_complete: str | None = None
    """In a `tool_call_end`: all arguments as one JSON object."""
    content: str | None = None
    """In a `content_chunk`: text for the user."""
    progress: ToolProgress | None = None
    """In a `tool_progress`: how far the call has come."""
    result: ToolExecutionResult | None = None
    """In a `tool_result`: how the call ended."""
    request: ApprovalRequest | None = None
    """In an approval event: the question to the approver."""
    decision: ApprovalDecision | None = None
    """In an `approval_answered`: the answer; None: none came."""
    finding: ReplyFinding | None = None
    usage: Usage | None = None
    answer: AgentAnswer | None = None
    """In a `finished`: the result of the turn."""
    error: str | None = None
    """In an `error`: why the turn broke off, and what to do."""

    _names: frozenset[str] = frozenset()
    _secrets: tuple[OwnSecrets, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the event as JSON values, without secrets and empty fields.

        As in records, the values that a tool declares secret become `[hidden]`, in the arguments
        and wherever they stand in what follows. A `tool_call_chunk` shows nothing, as a part of a
        secret cannot be recognized; the whole arguments follow in `tool_call_end`. The token of an
        approval request is not hidden: the program that shows the question needs it for the answer.
        """
        fields = super().to_dict()
        if self.tool_call_arguments_chunk is not None:
            fields["tool_call_arguments_chunk"] = HIDDEN
        if self.tool_call_arguments_complete is not None:
            fields["tool_call_arguments_complete"] = self._shown_arguments()
        for field in _SPOKEN:
            fields[field] = hide_secrets(fields[field], self._secrets)
        if fields["result"] is not None:
            fields["result"] = hide_secrets(_without_secrets(fields["result"]), self._secrets)
        return {key: value for key, value in fields.items() if value is not None}

    @property
    def shown_result(self) -> ToolExecutionResult | None:
        """The result for people, without the secrets that calls of its turn ran with."""
        if self.result is None or not self._secrets:
            return self.result
        output, error = hide_secrets([self.result.output, self.result.error], self._secrets)
        return msgspec.structs.replace(self.result, output=output, error=error)

    def _shown_arguments(self) -> str:
        written = self.tool_call_arguments_complete or ""
        try:
            arguments = msgspec.json.decode(written)
        except (msgspec.DecodeError, ValueError):
            return HIDDEN if self._names else redact_text(written)
        if self._names and not isinstance(arguments, dict):
            # Only a mapping has names that mark its secret values.
            return HIDDEN
        return to_text(hide_secrets(redact(arguments, self._names, self._names), self._secrets))


_SPOKEN: Final = (
    *("tool_call_arguments_complete", "content", "progress"),
    *("decision", "finding", "error"),
)


def _without_secrets(values: dict[str, Any]) -> dict[str, Any]:
    """Hide secrets in each field of a result, but not field names."""
    return {name: redact(value) for name, value in values.items()}
