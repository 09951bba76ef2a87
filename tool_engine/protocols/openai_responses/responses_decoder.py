"""How does a reply of OpenAI's Responses API become calls and text?

https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from tool_engine.model.json.returned_value import safe_repr
from tool_engine.model.reply import ParsedReply, StreamEvent
from tool_engine.protocols.chunk_decoder import EventDecoder, read_usage
from tool_engine.protocols.chunks import read_field
from tool_engine.protocols.openai_responses.response_output import ResponseOutput
from tool_engine.protocols.reply_builder import Ending, Refine, ReplyBuilder, describe_unknown_end
from tool_engine.protocols.tool_names import KnownTools, NameRule

_FAILED: Final = frozenset({"failed", "cancelled", "error"})
_UNFINISHED: Final = (None, "in_progress", "queued")
_TEXTS: Final = {
    "response.output_text.delta": ("content", "output_text", "content_index"),
    "response.refusal.delta": ("content", "refusal", "content_index"),
    "response.reasoning_text.delta": ("content", "reasoning_text", "content_index"),
    "response.reasoning_summary_text.delta": ("summary", "summary_text", "summary_index"),
}
"""Delta event of a text -> the text's field, its type, and the field of its index."""
_ITEMS: Final = ("message", "reasoning", "_call", "_output", "compaction")
_LATE: Final = "more came after the end of the response: it was not read"


class OpenAIResponsesDecoder(EventDecoder):
    """A decoder of one response from events, mappings or bytes."""

    protocol = "openai_responses"

    def __init__(
        self,
        known: KnownTools,
        rule: NameRule,
        *,
        repair: bool = True,
        refine: Refine | None = None,
    ) -> None:
        super().__init__(ReplyBuilder(known, repair=repair, refine=refine))
        self._rule = rule
        self._output = ResponseOutput(self._builder)
        self._id: str | None = None
        self._is_stored = True
        self._events = {
            "response.created": self._begin_response,
            "response.output_item.added": self._begin_item,
            "response.output_item.done": self._finish_item,
            "response.function_call_arguments.delta": self._add_arguments,
            "response.function_call_arguments.done": self._end_arguments,
            **dict.fromkeys(_TEXTS, self._add_text),
            "response.completed": self._end_response,
            "response.done": self._end_response,
            "response.incomplete": self._end_response,
            "response.failed": self._end_response,
            "response.cancelled": self._end_response,
            "error": self._take_error,
        }

    def _take_payload(self, payload: Any) -> list[StreamEvent]:
        return self._take_late(payload) if self._is_ended else super()._take_payload(payload)

    def _take_late(self, payload: Any) -> list[StreamEvent]:
        kind = read_field(payload, "type")
        if not isinstance(kind, str) or kind == "error" or kind not in self._events:
            return super()._take_payload(payload)
        return [] if kind == "response.created" else self._report_late(_LATE)

    def _take_other(self, payload: Any, kind: Any) -> list[StreamEvent]:
        if read_field(payload, "output") is not None and kind in (None, "response"):
            return self._end_response({"response": payload})
        if read_field(payload, "error") is not None and kind is None:
            return self._take_error(payload)
        if isinstance(payload, list | tuple):
            return self._take_several(payload)
        if _is_item(payload):
            return self._take_items([payload])
        if isinstance(kind, str):
            # Signs of life, and future events.
            return self._output.add_unknown(payload)
        return self._builder.report_lost("a chunk is no part of a response", payload)

    def _take_several(self, payloads: list[Any] | tuple[Any, ...]) -> list[StreamEvent]:
        if not payloads:
            return self._builder.report_lost("a chunk is an empty list, and no part of a response")
        if all(_is_item(each) or _is_asked(each) for each in payloads):
            return self._take_last_turn(payloads)
        return [event for payload in payloads for event in self.feed(payload)]

    def _take_last_turn(self, items: list[Any] | tuple[Any, ...]) -> list[StreamEvent]:
        asked = [place for place, item in enumerate(items) if _is_asked(item)]
        if not asked:
            return self._take_items(items)
        message = f"of {len(items)} items only those after the last question were read"
        events = [self._builder.add_finding("skipped", message)]
        return events + self._take_items(items[asked[-1] + 1 :])

    def _take_items(self, items: Iterable[Any]) -> list[StreamEvent]:
        if self._is_begun or self._is_ended:
            return self._report_late(_LATE)
        self._is_begun = self._is_ended = True
        return self._output.finish_all(items) + self._builder.end(Ending.FINISHED)

    # Events of a stream

    def _begin_response(self, payload: Any) -> list[StreamEvent]:
        response = read_field(payload, "response")
        known, self._id = self._id, read_field(response, "id") or self._id
        self._is_begun = True
        # Before any item nothing is lost; and some servers give each event another id.
        if not self._output.items or known in (None, self._id):
            return []
        self._output.settle()
        self._is_ended = self._is_late_reported = True
        message = "a second response began in one reply: it was not read"
        return self._builder.report_malformed(message)

    def _begin_item(self, payload: Any) -> list[StreamEvent]:
        item = read_field(payload, "item")
        return [] if item is None else self._output.begin(item, read_field(payload, "output_index"))

    def _finish_item(self, payload: Any) -> list[StreamEvent]:
        return self._output.finish(read_field(payload, "item"), read_field(payload, "output_index"))

    def _add_arguments(self, payload: Any) -> list[StreamEvent]:
        return self._output.add_arguments(payload, read_field(payload, "delta"))

    def _end_arguments(self, payload: Any) -> list[StreamEvent]:
        return self._output.end_arguments(payload)

    def _add_text(self, payload: Any) -> list[StreamEvent]:
        name, kind, place = _TEXTS[read_field(payload, "type")]
        return self._output.add_text(payload, name, kind, read_field(payload, place))

    # The end

    def _end_response(self, payload: Any) -> list[StreamEvent]:
        response = read_field(payload, "response")
        kind = read_field(payload, "type", "")
        if self._is_ended:
            return self._report_late(_LATE)
        self._is_begun = True
        self._is_stored = read_field(response, "store") is not False
        output = read_field(response, "output")
        events: list[StreamEvent] = []
        if isinstance(output, list | tuple):
            events += self._output.finish_all(output)
        elif output is not None:
            message = f"the output is no list of items: {safe_repr(output)[:80]}"
            events += self._builder.report_malformed(message)
        self._builder.usage = read_usage(read_field(response, "usage")) or self._builder.usage
        status = read_field(response, "status") or kind.removeprefix("response.") or None
        return events + self._end_reply("completed" if status == "done" else status, response)

    def _end_reply(self, status: Any, response: Any) -> list[StreamEvent]:
        self._is_ended = True
        self._output.settle()
        if status == "completed":
            return self._builder.end(Ending.FINISHED, "completed")
        if status == "incomplete":
            reason = read_field(read_field(response, "incomplete_details"), "reason")
            return self._end_incomplete(reason if isinstance(reason, str) else "incomplete")
        if (isinstance(status, str) and status in _FAILED) or read_field(
            response, "error"
        ) is not None:
            error = read_field(response, "error")
            words = read_field(error, "message") or read_field(error, "code") or status
            self._builder.stop_reason = str(status)
            events = self._builder.report_malformed(f"the response {status}: {words}")
            return events + self._fail_calls(f"the response {status} ({words}): this was not run")
        kind = "truncated" if status in _UNFINISHED else "malformed_reply"
        events = [self._builder.add_finding(kind, describe_unknown_end(status))]
        return events + self._builder.end(
            Ending.UNKNOWN, status if isinstance(status, str) else None
        )

    def _end_incomplete(self, reason: str) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        self._output.cut()
        if reason == "content_filter":
            why = "a content filter stopped the reply"
            self._builder.spoil(why)
            events.append(self._builder.add_finding("refusal", why, level="error"))
        return events + self._builder.end(Ending.CUT, reason)

    def _settle_calls(self) -> None:
        self._output.settle()

    def _end_stream(self) -> None:
        if self._is_ended:
            return
        self._settle_calls()
        if not self._output.items and not self._builder.findings:
            self._builder.report_malformed("there is no response in the reply")

    def _finish_reply(self) -> ParsedReply:
        refusal = "".join(self._builder.refusal)
        if refusal:
            self._builder.add_finding("refusal", f"the model refused: {refusal}", level="error")
        self._builder.reasoning[:] = [self._output.join_reasoning()]
        reply = self._builder.close()
        message = self._output.write_input(reply, self._rule, is_stored=self._is_stored)
        return msgspec.structs.replace(reply, message=message)


def _is_asked(value: Any) -> bool:
    """Return True for an input item, which the model did not say."""
    role = read_field(value, "role")
    is_answer = read_field(value, "type") in ("function_call_output", "custom_tool_call_output")
    return is_answer or (isinstance(role, str) and role != "assistant")


def _is_item(value: Any) -> bool:
    kind = read_field(value, "type")
    if kind is None or read_field(value, "role") is not None:
        return bool(read_field(value, "role") == "assistant")
    return isinstance(kind, str) and kind.endswith(_ITEMS) and not kind.startswith("response.")
