"""What does a model's reply contain, once a protocol has read it?"""

from __future__ import annotations

from enum import Enum
from typing import Any

import msgspec

from tool_engine.model.call import ToolCall
from tool_engine.model.json.data import Data


class StreamEventType(str, Enum):
    """Every type of `StreamEvent`."""

    TOOL_CALL_START = "tool_call_start"
    TOOL_CALL_CHUNK = "tool_call_chunk"
    TOOL_CALL_END = "tool_call_end"
    CONTENT_CHUNK = "content_chunk"
    ERROR = "error"


class ReplyFinding(msgspec.Struct, Data, frozen=True, kw_only=True, gc=False):
    """A remark about a reply, or about a definition that is sent, for the user.

    A value, never raised. The `error_type` of a reply's finding is `truncated`,
    `malformed_arguments`, `malformed_reply`, `missing_name`, `missing_id`, `repeated_id`,
    `refusal`, `skipped`, `repaired` or `no_usage`; of a definition's: `renamed`, `dropped`,
    `rewritten` or `limit`; of what a result holds and a model is not shown: `dropped`.
    """

    error_type: str
    message: str
    """What was found, and its consequence."""
    level: str = "warning"
    """`error`: something that the model wanted is not done; `warning`: all of it is."""
    call_id: str | None = None
    """The call that it is about."""
    tool_name: str | None = None
    """The tool that it is about."""
    position: int | None = None
    """Where it is in the text of the reply, in characters from its beginning."""


class StreamEvent(msgspec.Struct, Data, frozen=True, kw_only=True, gc=False):
    """One step of a reply that is still being written. D16.

    The events of one call are one `tool_call_start`, any number of `tool_call_chunk` and, if the
    call is whole, one `tool_call_end`; calls may overlap. Where a stream just stops, as when the
    connection is lost, the decoder's `close` shows which of the calls without an end are whole.
    """

    type: StreamEventType
    tool_call_id: str | None = None
    tool_call_name: str | None = None
    """The tool's own name; in every event of a call from its start on."""
    tool_call_arguments_chunk: str | None = None
    """A `tool_call_chunk`: the next part of the arguments, as the model writes them."""
    tool_call_arguments_complete: str | None = None
    """A `tool_call_end`: all arguments as one JSON object, after any repair."""
    content: str | None = None
    """A `content_chunk`: text that is for the user, without calls and reasoning."""
    error: ReplyFinding | None = None
    """An `error`: what is wrong."""


class ParsedReply(msgspec.Struct, Data, frozen=True, kw_only=True):
    """A whole reply: its calls, the text around them, and findings about it."""

    calls: list[ToolCall] = []
    """In the order in which the model began them; those that cannot be run included."""
    text: str = ""
    """What is for the user, without calls and reasoning."""
    findings: list[ReplyFinding] = []
    reasoning: str = ""
    """What the model thought before it answered, where the provider shows it."""
    refusal: str | None = None
    """Why the model, or its provider, would not answer."""
    stop_reason: str | None = None
    """Why the reply ended, in the provider's own words."""
    is_paused: bool = False
    """True if the provider paused the reply: it continues once `message` is sent back."""
    usage: dict[str, Any] = {}
    """The tokens that it cost, under the provider's own names."""
    message: Any = None
    """The reply as it goes back into the conversation, before the results of its calls: a list of
    the messages (Chat Completions, Messages), contents (generateContent) or items (Responses)."""
