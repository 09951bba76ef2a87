"""How does a reply of Anthropic's Messages API become calls and text?

https://docs.claude.com/en/docs/build-with-claude/streaming
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from tool_engine.model.reply import ParsedReply, StreamEvent
from tool_engine.protocols.anthropic.message_content import MessageContent
from tool_engine.protocols.chunk_decoder import EventDecoder, read_usage
from tool_engine.protocols.chunks import read_field
from tool_engine.protocols.reply_builder import Ending, ReplyBuilder, describe_unknown_end
from tool_engine.protocols.tool_names import KnownTools, NameRule

PAUSED: Final = "pause_turn"
"""The stop reason of a reply that the provider will continue."""
_ENDINGS: Final = {
    "end_turn": Ending.FINISHED,
    "tool_use": Ending.FINISHED,
    "stop_sequence": Ending.FINISHED,
    PAUSED: Ending.FINISHED,
    "compaction": Ending.FINISHED,
    "refusal": Ending.CUT,
    "max_tokens": Ending.CUT,
    "model_context_window_exceeded": Ending.CUT,
    # Compatible servers forget to translate these.
    "stop": Ending.FINISHED,
    "tool_calls": Ending.FINISHED,
    "length": Ending.CUT,
    "content_filter": Ending.CUT,
}
_IDS: Final = re.compile(r"[a-zA-Z0-9_-]+")
"""The ids of calls that the API takes; each request with another one is refused."""
_REFUSALS: Final = frozenset({"refusal", "content_filter"})
_PAUSED: Final = (
    "the provider paused this reply while it ran tools of its own: send it back as it is, and the "
    "model goes on"
)
_LATE: Final = "more content came after the end of the message: it was not read"


class AnthropicDecoder(EventDecoder):
    """A decoder of one message from events, mappings or bytes."""

    protocol = "anthropic"

    def __init__(self, known: KnownTools, rule: NameRule, *, repair: bool = True) -> None:
        super().__init__(ReplyBuilder(known, repair=repair, ids=_IDS))
        self._rule = rule
        self._content = MessageContent(self._builder)
        self._held: Any = None
        """The content of `message_start`, for servers that send no more of it."""
        self._events = {
            "message_start": self._start_message,
            "content_block_start": self._start_block,
            "content_block_delta": self._add_delta,
            "content_block_stop": self._stop_block,
            "message_delta": self._add_message_delta,
            "message_stop": self._stop_message,
            "error": self._take_error,
        }

    def _take_other(self, payload: Any, kind: Any) -> list[StreamEvent]:
        if kind in (None, "message") and read_field(payload, "content") is not None:
            return self._take_message(payload)
        if read_field(payload, "error") is not None:
            return self._take_error(payload)
        if isinstance(payload, list | tuple):
            return self._take_several(payload)
        if isinstance(kind, str) and kind != "message":
            # `ping`, events that the SDK derives from others, and future ones.
            delta = read_field(payload, "delta")
            return [] if delta is None else self._take_unknown_delta(payload, delta)
        return self._builder.report_lost("a chunk is no event of a message", payload)

    def _take_several(self, payloads: list[Any] | tuple[Any, ...]) -> list[StreamEvent]:
        if not payloads:
            return self._builder.report_lost("a chunk is an empty list, and no event of a message")
        if all(_is_block(each) for each in payloads):
            return self._take_message({"content": payloads})
        if len(payloads) > 1 and all(read_field(each, "role") for each in payloads):
            message = f"of {len(payloads)} messages only the last one was read"
            return [self._builder.add_finding("skipped", message), *self.feed(payloads[-1])]
        return [event for payload in payloads for event in self.feed(payload)]

    # Events of a stream

    def _start_message(self, payload: Any) -> list[StreamEvent]:
        if self._is_ended or self._content.blocks or self._held:
            return self._refuse_second()
        # A start that comes twice, before any content, loses nothing.
        self._is_begun = True
        message = read_field(payload, "message")
        self._count_usage(read_field(message, "usage"))
        self._held = read_field(message, "content")
        return []

    def _start_block(self, payload: Any) -> list[StreamEvent]:
        if self._is_ended:
            return self._report_late(_LATE)
        return self._content.open(
            read_field(payload, "content_block"), read_field(payload, "index")
        )

    def _add_delta(self, payload: Any) -> list[StreamEvent]:
        if self._is_ended:
            return self._report_late(_LATE)
        return self._content.add(read_field(payload, "index"), read_field(payload, "delta"))

    def _take_unknown_delta(self, payload: Any, delta: Any) -> list[StreamEvent]:
        return (
            [] if self._is_ended else self._content.add_unknown(read_field(payload, "index"), delta)
        )

    def _stop_block(self, payload: Any) -> list[StreamEvent]:
        self._content.stop(read_field(payload, "index"))
        return []

    def _add_message_delta(self, payload: Any) -> list[StreamEvent]:
        self._count_usage(read_field(payload, "usage"))
        delta = read_field(payload, "delta")
        return self._end_reply(read_field(delta, "stop_reason"), read_field(delta, "stop_details"))

    def _stop_message(self, _: Any) -> list[StreamEvent]:
        events = self._open_held()
        if self._is_ended or not self._content.is_stopped:
            return events
        self._content.settle(is_over=True)
        self._is_ended = True
        return events + self._builder.end(Ending.FINISHED)

    def _refuse_second(self) -> list[StreamEvent]:
        events = self._leave_off()
        self._is_ended = self._is_late_reported = True
        message = "a second message began in one reply: it was not read"
        return events + self._builder.report_malformed(message)

    # Whole messages

    def _take_message(self, message: Any) -> list[StreamEvent]:
        role = read_field(message, "role", "assistant")
        if role != "assistant":
            fault = f"a message of the role {role!r} is no reply of a model"
            return self._builder.report_malformed(fault)
        if self._is_begun:
            return self._refuse_second()
        self._is_begun = True
        events = self._content.open_all(read_field(message, "content"))
        self._count_usage(read_field(message, "usage"))
        reason = read_field(message, "stop_reason")
        if reason is None and read_field(message, "type") is None:
            # A message of a conversation does not say why it ended, but it did end.
            self._is_ended = True
            return events + self._builder.end(Ending.FINISHED)
        return events + self._end_reply(reason, read_field(message, "stop_details"))

    # The end

    def _end_reply(self, reason: Any, details: Any) -> list[StreamEvent]:
        if reason is None:
            return []
        if self._is_ended:
            is_same = reason == self._builder.stop_reason
            message = f"there is a second reason to stop: {reason!r}"
            return [] if is_same else self._builder.report_malformed(message)
        events = self._open_held()
        ending = _ENDINGS.get(reason, Ending.UNKNOWN) if isinstance(reason, str) else Ending.UNKNOWN
        self._content.settle(is_over=ending is Ending.FINISHED)
        self._is_ended = True
        reason = str(reason)
        if reason in _REFUSALS:
            return events + self._end_refused(reason, details)
        if reason == PAUSED:
            events.append(self._builder.add_finding("truncated", _PAUSED))
        if ending is Ending.UNKNOWN:
            events.append(
                self._builder.add_finding("malformed_reply", describe_unknown_end(reason))
            )
        return events + self._builder.end(ending, reason)

    def _end_refused(self, reason: str, details: Any) -> list[StreamEvent]:
        words = read_field(details, "explanation") or read_field(details, "category") or reason
        self._builder.refusal.append(str(words))
        message = f"the provider refused this reply ({words}): none of its calls is run"
        events = [self._builder.add_finding("refusal", message, level="error")]
        self._builder.stop_reason = reason
        return events + self._fail_calls(
            f"the provider refused this reply ({words}): this was not run"
        )

    def _open_held(self) -> list[StreamEvent]:
        held, self._held = self._held, None
        return self._content.open_all(held) if held and not self._content.blocks else []

    def _settle_calls(self) -> None:
        self._content.settle(is_over=False)

    def _end_stream(self) -> None:
        self._leave_off()

    def _leave_off(self) -> list[StreamEvent]:
        """End a message that the provider did not end."""
        if self._is_ended:
            return []
        events = self._open_held()
        self._settle_calls()
        if not self._content.blocks and not self._builder.findings:
            events += self._builder.report_malformed("there is no message in the reply")
        return events

    def _finish_reply(self) -> ParsedReply:
        reply = self._builder.close()
        message = self._content.write_message(reply, self._rule, self._builder.ending)
        is_paused = reply.stop_reason == PAUSED
        return msgspec.structs.replace(reply, message=message, is_paused=is_paused)

    def _count_usage(self, usage: Any) -> None:
        counted = read_usage(usage).items()
        self._builder.usage.update({key: value for key, value in counted if value is not None})


def _is_block(value: Any) -> bool:
    kind = read_field(value, "type")
    if not isinstance(kind, str) or read_field(value, "snapshot") is not None:
        return False
    return kind in ("text", "thinking", "redacted_thinking") or kind.endswith(
        ("tool_use", "tool_result")
    )
