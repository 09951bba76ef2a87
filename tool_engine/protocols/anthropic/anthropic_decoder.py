"""How does a reply of Anthropic's Messages API become calls and text?

https://docs.claude.com/en/docs/build-with-claude/streaming
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from tool_engine.model.json.output import shown
from tool_engine.model.reply import ParsedReply, StreamEvent
from tool_engine.protocols.anthropic.message_content import MessageContent
from tool_engine.protocols.chunks import field, plain
from tool_engine.protocols.event_decoder import END, EventStreamDecoder
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
_REFUSALS: Final = frozenset({"refusal", "content_filter"})
_PAUSED: Final = (
    "the provider paused this reply while it ran tools of its own: send it back as it is, and the "
    "model goes on"
)


class AnthropicDecoder(EventStreamDecoder):
    """A decoder of one message from events, mappings or bytes."""

    def __init__(self, known: KnownTools, rule: NameRule, *, repair: bool = True) -> None:
        super().__init__(ReplyBuilder(known, repair=repair))
        self._rule = rule
        self._content = MessageContent(self._builder)
        self._held: Any = None
        """The content of `message_start`, for servers that send no more of it."""
        self._is_begun = False
        self._is_ended = False
        self._is_late_told = False
        self._events: Mapping[str, Callable[[Any], list[StreamEvent]]] = {
            "message_start": self._start_message,
            "content_block_start": self._start_block,
            "content_block_delta": self._add_delta,
            "content_block_stop": self._stop_block,
            "message_delta": self._add_message_delta,
            "message_stop": self._stop_message,
            "error": self._take_error,
            END: self._end_stream,
        }

    def _take_payload(self, payload: Any) -> list[StreamEvent]:
        if isinstance(payload, BaseException):
            return self._take_error({"error": payload})
        kind = field(payload, "type")
        handle = self._events.get(kind) if isinstance(kind, str) else None
        return self._take_other(payload, kind) if handle is None else handle(payload)

    def _take_other(self, payload: Any, kind: Any) -> list[StreamEvent]:
        if kind in (None, "message") and field(payload, "content") is not None:
            return self._take_message(payload)
        if field(payload, "error") is not None:
            return self._take_error(payload)
        if isinstance(payload, list | tuple):
            return self._take_several(payload)
        if isinstance(kind, str) and kind != "message":
            # `ping`, events that the SDK derives from others, and future ones.
            delta = field(payload, "delta")
            return [] if delta is None else self._take_unknown_delta(payload, delta)
        return self._report_lost(f"a chunk is no event of a message: {shown(payload)[:80]}")

    def _take_several(self, payloads: list[Any] | tuple[Any, ...]) -> list[StreamEvent]:
        if not payloads:
            return self._report_lost("a chunk is an empty list, and no event of a message")
        if all(_is_block(each) for each in payloads):
            return self._take_message({"content": payloads})
        if len(payloads) > 1 and all(field(each, "role") for each in payloads):
            message = f"of {len(payloads)} messages only the last one was read"
            return [self._builder.find("skipped", message), *self.feed(payloads[-1])]
        return [event for payload in payloads for event in self.feed(payload)]

    # Events of a stream

    def _start_message(self, payload: Any) -> list[StreamEvent]:
        if self._is_ended or self._content.blocks or self._held:
            return self._refuse_second()
        # A start that comes twice, before any content, loses nothing.
        self._is_begun = True
        message = field(payload, "message")
        self._count_usage(field(message, "usage"))
        self._held = field(message, "content")
        return []

    def _start_block(self, payload: Any) -> list[StreamEvent]:
        if self._is_ended:
            return self._report_late()
        return self._content.open(field(payload, "content_block"), field(payload, "index"))

    def _add_delta(self, payload: Any) -> list[StreamEvent]:
        if self._is_ended:
            return self._report_late()
        return self._content.add(field(payload, "index"), field(payload, "delta"))

    def _take_unknown_delta(self, payload: Any, delta: Any) -> list[StreamEvent]:
        return [] if self._is_ended else self._content.add_unknown(field(payload, "index"), delta)

    def _stop_block(self, payload: Any) -> list[StreamEvent]:
        self._content.stop(field(payload, "index"))
        return []

    def _add_message_delta(self, payload: Any) -> list[StreamEvent]:
        self._count_usage(field(payload, "usage"))
        delta = field(payload, "delta")
        return self._end_reply(field(delta, "stop_reason"), field(delta, "stop_details"))

    def _stop_message(self, _: Any) -> list[StreamEvent]:
        told = self._open_held()
        if self._is_ended or not self._content.is_stopped:
            return told
        self._content.settle(is_over=True)
        self._is_ended = True
        return told + self._builder.end(Ending.FINISHED)

    def _take_error(self, payload: Any) -> list[StreamEvent]:
        error = field(payload, "error")
        kind = field(error, "type")
        words = field(error, "message", error)
        words = words if isinstance(words, str) else shown(words)
        what = f"{kind}: {words}" if isinstance(kind, str) else words
        told = self._report_fault(f"the provider reports an error: {what}")
        if self._is_ended:
            return told
        return told + self._fail_calls(
            f"the provider broke the reply off ({what}): this was not run"
        )

    def _refuse_second(self) -> list[StreamEvent]:
        told = self._end_stream(None)
        self._is_ended = self._is_late_told = True
        return told + self._report_fault("a second message began in one reply: it was not read")

    def _report_late(self) -> list[StreamEvent]:
        if self._is_late_told:
            return []
        self._is_late_told = True
        return self._report_fault("more content came after the end of the message: it was not read")

    # Whole messages

    def _take_message(self, message: Any) -> list[StreamEvent]:
        role = field(message, "role", "assistant")
        if role != "assistant":
            return self._report_fault(f"a message of the role {role!r} is no reply of a model")
        if self._is_begun:
            return self._refuse_second()
        self._is_begun = True
        told = self._content.open_all(field(message, "content"))
        self._count_usage(field(message, "usage"))
        reason = field(message, "stop_reason")
        if reason is None and field(message, "type") is None:
            # A message of a conversation does not say why it ended, but it did end.
            self._is_ended = True
            return told + self._builder.end(Ending.FINISHED)
        return told + self._end_reply(reason, field(message, "stop_details"))

    # The end

    def _end_reply(self, reason: Any, details: Any) -> list[StreamEvent]:
        if reason is None:
            return []
        if self._is_ended:
            is_same = reason == self._builder.stop_reason
            return (
                []
                if is_same
                else self._report_fault(f"there is a second reason to stop: {reason!r}")
            )
        told = self._open_held()
        ending = _ENDINGS.get(reason, Ending.UNKNOWN) if isinstance(reason, str) else Ending.UNKNOWN
        self._content.settle(is_over=ending is Ending.FINISHED)
        self._is_ended = True
        reason = str(reason)
        if reason in _REFUSALS:
            return told + self._end_refused(reason, details)
        if reason == PAUSED:
            told.append(self._builder.find("truncated", _PAUSED))
        if ending is Ending.UNKNOWN:
            told.append(self._builder.find("malformed_reply", describe_unknown_end(reason)))
        return told + self._builder.end(ending, reason)

    def _end_refused(self, reason: str, details: Any) -> list[StreamEvent]:
        words = field(details, "explanation") or field(details, "category") or reason
        self._builder.refusal.append(str(words))
        message = f"the provider refused this reply ({words}): none of its calls is run"
        told = [self._builder.find("refusal", message, level="error")]
        self._builder.stop_reason = reason
        return told + self._fail_calls(
            f"the provider refused this reply ({words}): this was not run"
        )

    def _fail_calls(self, why: str) -> list[StreamEvent]:
        self._is_ended = True
        for call in self._builder.calls:
            self._builder.refuse(call, why)
        self._content.settle(is_over=False)
        return self._builder.end(Ending.UNKNOWN)

    def _open_held(self) -> list[StreamEvent]:
        held, self._held = self._held, None
        return self._content.open_all(held) if held and not self._content.blocks else []

    def _end_stream(self, _: Any) -> list[StreamEvent]:
        if self._is_ended:
            return []
        told = self._open_held()
        self._content.settle(is_over=False)
        if not self._content.blocks and not self._builder.findings:
            told += self._report_fault("there is no message in the reply")
        return told

    def _finish_reply(self) -> ParsedReply:
        reply = self._builder.close()
        message = self._content.as_message(reply, self._rule, self._builder.ending)
        is_paused = reply.stop_reason == PAUSED
        return msgspec.structs.replace(reply, message=message, is_paused=is_paused)

    def _count_usage(self, usage: Any) -> None:
        counted = plain(usage)
        if isinstance(counted, dict):
            new = {key: value for key, value in counted.items() if value is not None}
            self._builder.usage.update(new)


def _is_block(value: Any) -> bool:
    kind = field(value, "type")
    if not isinstance(kind, str) or field(value, "snapshot") is not None:
        return False
    return kind in ("text", "thinking", "redacted_thinking") or kind.endswith(
        ("tool_use", "tool_result")
    )
