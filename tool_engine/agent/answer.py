"""What does a finished turn of the conversation return, and why did it end?"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any, Final

import msgspec

from tool_engine.model.json.data import Data
from tool_engine.model.reply import ReplyFinding
from tool_engine.redaction import OwnSecrets
from tool_engine.session.bounds import Usage


class StopReason(str, Enum):
    """The reason why a turn ended."""

    COMPLETED = "completed"
    """The model answered without asking for a call."""
    TRUNCATED = "truncated"
    """The reply was cut off, and the second try as well."""
    REFUSED = "refused"
    """The model, its provider or a filter refused to answer."""
    EMPTY = "empty"
    """The reply had no text."""
    UNREADABLE = "unreadable"
    """The reply could not be read, and the second try neither."""
    REPEATING = "repeating"
    """The model repeated the same calls with the same results. U47."""
    MAX_ROUNDS = "max_rounds_reached"
    MAX_CALLS = "max_calls_reached"
    MAX_TOKENS = "max_tokens_reached"
    MAX_SECONDS = "max_seconds_reached"


class AgentAnswer(msgspec.Struct, Data, frozen=True, kw_only=True):
    """The result of one turn."""

    text: str
    """The model's last text for the user; may be empty: see `stop_reason`."""
    stop_reason: StopReason
    usage: Usage
    """What the conversation has used so far."""
    tool_usage_summary: dict[str, Any] = {}
    """Totals of the calls that this conversation's model asked for, as from
    `ToolCallSummary.to_brief()`: `total_calls`, `success_rate`, `tool_usage`, `has_errors`. K45.
    """
    messages: list[Any] = []
    """The messages that the turn added, in the form of the model's protocol."""
    findings: list[ReplyFinding] = []
    """Notes about the replies of the turn, such as repairs and losses."""
    _secrets: tuple[OwnSecrets, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Return True if the model ended its answer by itself."""
        return self.stop_reason is StopReason.COMPLETED

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values, with `[hidden]` in place of secrets.

        Secrets are hidden as in records, also where their values stand in other fields. To go on
        with the conversation, use `messages` itself.
        """
        fields = super().to_dict()
        return fields | {name: hide_secrets(fields[name], self._secrets) for name in _SPOKEN}


_SPOKEN: Final = ("text", "messages", "findings")


def hide_secrets(value: Any, secrets: Iterable[OwnSecrets]) -> Any:
    for each in secrets:
        value = each.hide(value)
    return value
