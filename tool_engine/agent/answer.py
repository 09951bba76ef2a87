"""How did a turn of the conversation end?"""

from __future__ import annotations

from enum import Enum
from typing import Any

import msgspec

from tool_engine.model.reply import ReplyFinding
from tool_engine.session.bounds import Usage

__all__ = ["AgentAnswer", "StopReason"]


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


class AgentAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one turn."""

    text: str
    """What the model said last, for the user; perhaps nothing: see `stop_reason`."""
    stop_reason: StopReason
    usage: Usage
    """What the conversation has spent so far."""
    messages: list[Any] = []
    """What the turn added to the conversation, in the form of the model's protocol."""
    findings: list[ReplyFinding] = []
    """What is to be known about the replies of the turn."""

    @property
    def is_complete(self) -> bool:
        """Whether the model itself came to an end."""
        return self.stop_reason is StopReason.COMPLETED

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON values."""
        return dict(msgspec.to_builtins(self))
