"""How did a turn of the conversation end?"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any, Final

import msgspec

from tool_engine.model.json.data import Data
from tool_engine.model.reply import ReplyFinding
from tool_engine.redaction import OwnSecrets
from tool_engine.session.bounds import Usage

__all__ = ["AgentAnswer", "StopReason", "hidden"]


class StopReason(str, Enum):
    """Why a turn ended."""

    COMPLETED = "completed"
    """The model answered, and wanted no call."""
    TRUNCATED = "truncated"
    """The model's reply was cut, and so was the one that it was asked for in its place."""
    REFUSED = "refused"
    """The model, or its provider, would not answer; or a filter took the answer away."""
    EMPTY = "empty"
    """The model said nothing."""
    UNREADABLE = "unreadable"
    """The reply could not be read, and neither could the one that was asked for in its place."""
    REPEATING = "repeating"
    """The model made the same calls with the same results again and again. U47."""
    MAX_ROUNDS = "max_rounds_reached"
    MAX_CALLS = "max_calls_reached"
    MAX_TOKENS = "max_tokens_reached"
    MAX_SECONDS = "max_seconds_reached"


class AgentAnswer(msgspec.Struct, Data, frozen=True, kw_only=True):
    """What came of one turn."""

    text: str
    """What the model said last, for the user; perhaps nothing: see `stop_reason`."""
    stop_reason: StopReason
    usage: Usage
    """What the conversation has spent so far."""
    tool_usage_summary: dict[str, Any] = {}
    """What the calls of the conversation add up to, as `ToolCallSummary.to_brief()`: `total_calls`,
    `success_rate`, `tool_usage` and `has_errors`; those that its model asked for. K45."""
    messages: list[Any] = []
    """What the turn added to the conversation, in the form of the model's protocol."""
    findings: list[ReplyFinding] = []
    """What is to be known about the replies of the turn."""
    _secrets: tuple[OwnSecrets, ...] = ()
    """The secrets that its calls were sent."""

    @property
    def is_complete(self) -> bool:
        """Whether the model itself came to an end."""
        return self.stop_reason is StopReason.COMPLETED

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values, with `[hidden]` in the place of secrets.

        As in records, also where the value stands of what a tool calls secret. Whoever goes on with
        the conversation takes `messages` itself.
        """
        told = super().to_dict()
        return told | {name: hidden(told[name], self._secrets) for name in _SPOKEN}


_SPOKEN: Final = ("text", "messages", "findings")
"""The fields in which a secret that a call was sent may stand."""


def hidden(value: Any, secrets: Iterable[OwnSecrets]) -> Any:
    """A JSON value without the values of secrets."""
    for each in secrets:
        value = each.hide(value)
    return value
