"""How does a reply of generateContent become calls and text?

https://ai.google.dev/api/generate-content#v1beta.GenerateContentResponse
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from tool_engine.model.json.returned_value import to_text
from tool_engine.model.reply import ParsedReply, StreamEvent
from tool_engine.protocols.chunk_decoder import ChunkDecoder
from tool_engine.protocols.gemini.gemini_reader import GeminiReader, Payload, camel_keys, get_field
from tool_engine.protocols.gemini.message_parts import MessageParts
from tool_engine.protocols.gemini.partial_arguments import PartialArguments
from tool_engine.protocols.object_arguments import find_fault, take_object
from tool_engine.protocols.reply_builder import (
    CallInProgress,
    Ending,
    ReplyBuilder,
    describe_unknown_end,
)
from tool_engine.protocols.tool_names import KnownTools

_ENDINGS: Final = {
    "STOP": Ending.FINISHED,
    "MAX_TOKENS": Ending.CUT,
    "CONTINUATION": Ending.CUT,
    # Compatible servers forget to translate these.
    "TOOL_CALLS": Ending.FINISHED,
    "LENGTH": Ending.CUT,
}
_UNSPECIFIED: Final = (
    "FINISH_REASON_UNSPECIFIED",
    "BLOCK_REASON_UNSPECIFIED",
    "BLOCKED_REASON_UNSPECIFIED",
)
_MALFORMED: Final = {
    "MALFORMED_FUNCTION_CALL": "the model wrote a call that cannot be read",
    "MALFORMED_RESPONSE": "the model wrote a reply that cannot be read",
    "UNEXPECTED_TOOL_CALL": "the model called a tool that the request did not tell of",
    "TOO_MANY_TOOL_CALLS": "the model made too many calls",
    "MISSING_THOUGHT_SIGNATURE": "a part of the history came back without its thoughtSignature",
}
_REFUSALS: Final = frozenset(
    {
        *("SAFETY", "RECITATION", "LANGUAGE", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"),
        *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "IMAGE_OTHER"),
        *("NO_IMAGE", "ESCALATION", "PUP_LIMITED_DISABLED", "MODEL_ARMOR"),
        # Compatible servers forget to translate these.
        *("CONTENT_FILTER", "REFUSAL"),
    }
)
_NUMBERS: Final = {1: "STOP", 2: "MAX_TOKENS", 3: "SAFETY", 4: "RECITATION", 5: "OTHER"}
"""The numbers of `FinishReason`, which some servers send."""
_ABOUT: Final = frozenset(
    {
        *("candidates", "promptFeedback", "usageMetadata", "modelVersion", "responseId"),
        *("createTime", "sdkHttpResponse", "modelStatus"),
    }
)
_PREFIXES: Final = ("default_api.", "default_api:")
"""Prefixes that Gemini's models copy from their prompt to a tool's name."""
_BROKEN_OFF: Final = "the provider broke the reply off, so this call was not run; ask again"
_UNFINISHED: Final = "the model did not finish the arguments of this call; write it again"


class GeminiDecoder(ChunkDecoder):
    """A decoder of one reply from SDK objects, mappings or bytes."""

    protocol = "gemini"

    def __init__(self, known: KnownTools, *, repair: bool = True) -> None:
        super().__init__(ReplyBuilder(known, repair=repair), GeminiReader())
        self._known = known
        self._parts = MessageParts(known)
        self._open: tuple[CallInProgress, PartialArguments] | None = None
        self._has_streamed = False
        """True if the call before was streamed: its end may be marked by an empty one."""
        self._reasons: set[str] = set()
        self._has_reported_others = False
        self._has_repeated_keys = False

    def _take_payload(self, payload: Payload) -> list[StreamEvent]:
        self._has_repeated_keys = payload.has_repeated_keys
        # A list holds chunks, contents or parts.
        listed = payload.value if isinstance(payload.value, list) else [payload.value]
        if not listed:
            return self._builder.report_lost("a chunk is nothing that Gemini says", listed)
        return [event for each in listed for event in self._take_response(each)]

    def _end_stream(self) -> None:
        self._refuse_unfinished()
        if not (self._parts or self._reasons or self._builder.findings):
            self._builder.report_malformed("the reply is empty")

    def _finish_reply(self) -> ParsedReply:
        read = self._builder.close()
        return replace(read, message=self._parts.contents(read.calls))

    def _take_response(self, payload: Any) -> list[StreamEvent]:
        if not isinstance(payload, Mapping):
            return self._builder.report_lost("a chunk is nothing that Gemini says", payload)
        inner = get_field(payload, "response")
        if isinstance(inner, Mapping) and "functionResponse" not in payload:
            # Google's code assistants wrap the reply so.
            payload = inner
        if get_field(payload, "error") is not None:
            return self._take_error(payload["error"])
        events = self._take_feedback(payload)
        usage = get_field(payload, "usageMetadata")
        if isinstance(usage, Mapping):
            self._builder.usage = dict(usage)
        return events + self._take_by_form(payload, is_known=bool(events))

    def _take_by_form(self, payload: Mapping[str, Any], *, is_known: bool) -> list[StreamEvent]:
        candidates = get_field(payload, "candidates")
        if candidates is not None:
            return self._take_candidates(candidates)
        if (
            get_field(payload, "content") is not None
            or get_field(payload, "finishReason") is not None
        ):
            return self._take_candidate(payload)
        if get_field(payload, "parts") is not None:
            return self._take_content(payload) + self._end_reply("STOP", "", is_stated=False)
        if get_field(payload, "functionCall") is not None or "text" in payload:
            return self._take_part(payload) + self._end_reply("STOP", "", is_stated=False)
        if is_known or not _ABOUT.isdisjoint(camel_keys(payload, keeps_none=True)):
            return []
        return self._builder.report_lost("a chunk is nothing that Gemini says", payload)

    def _take_error(self, error: Any) -> list[StreamEvent]:
        if not self._builder.is_ended:
            # A retry gets these calls again: they must not run twice.
            for call in self._builder.calls:
                self._builder.refuse(call, _BROKEN_OFF)
        kind = get_field(error, "status") or get_field(error, "code") or "error"
        words = get_field(error, "message") or str(error)[:200]
        return self._builder.report_malformed(f"the provider reports an error: {kind}: {words}")

    def _take_feedback(self, payload: Mapping[str, Any]) -> list[StreamEvent]:
        feedback = get_field(payload, "promptFeedback")
        reason = _read_reason(get_field(feedback, "blockReason"))
        if not reason or reason in _UNSPECIFIED or reason in self._reasons:
            return []
        self._reasons.add(reason)
        words = get_field(feedback, "blockReasonMessage")
        message = f"the prompt was blocked ({reason}){f': {words}' if words else ''}"
        self._builder.refusal.append(message)
        events = [self._builder.add_finding("refusal", message, level="error")]
        return events + self._builder.end(Ending.FINISHED, reason)

    def _take_candidates(self, candidates: Any) -> list[StreamEvent]:
        if not isinstance(candidates, list):
            return self._builder.report_lost("candidates must be a list", candidates)
        firsts = [each for each in candidates if get_field(each, "index", 0) == 0]
        events: list[StreamEvent] = []
        if len(firsts) > 1:
            # Without numbers, only their places identify candidates.
            firsts = firsts[:1]
        if len(candidates) > len(firsts) and not self._has_reported_others:
            self._has_reported_others = True
            message = "the reply has several candidates: only the first is read"
            events.append(self._builder.add_finding("skipped", message))
        return events + [event for each in firsts for event in self._take_candidate(each)]

    def _take_candidate(self, candidate: Any) -> list[StreamEvent]:
        if not isinstance(candidate, Mapping):
            return self._builder.report_lost("a candidate must be an object", candidate)
        content = get_field(candidate, "content")
        events = [] if content is None else self._take_content(content)
        reason = _read_reason(get_field(candidate, "finishReason"))
        return events + self._end_reply(
            reason, get_field(candidate, "finishMessage"), is_stated=True
        )

    def _take_content(self, content: Any) -> list[StreamEvent]:
        parts = get_field(content, "parts", [])
        if not isinstance(content, Mapping) or not isinstance(parts, list):
            return self._builder.report_lost("a content must be an object with parts", content)
        self._parts.enter(get_field(content, "role"))
        return [event for part in parts for event in self._take_part(part)]

    def _end_reply(self, reason: str, words: Any, *, is_stated: bool) -> list[StreamEvent]:
        """End the reply; `is_stated` means that the provider gave the reason."""
        if not reason or reason in _UNSPECIFIED:
            return []
        is_new = reason not in self._reasons
        self._reasons.add(reason)
        self._refuse_unfinished()
        ending = _ENDINGS.get(reason)
        events: list[StreamEvent] = []
        if ending is None and reason not in _MALFORMED and reason not in _REFUSALS:
            ending = Ending.UNKNOWN
            message = describe_unknown_end(reason) + (f": {words}" if words else "")
            events += [self._builder.add_finding("malformed_reply", message)] if is_new else []
        elif ending is None and is_new:
            events += self._report_trouble(reason, words)
        return events + self._builder.end(ending or Ending.CUT, reason if is_stated else None)

    def _report_trouble(self, reason: str, words: Any) -> list[StreamEvent]:
        more = f": {words}" if words else ""
        what = _MALFORMED.get(reason)
        if what is not None:
            return self._builder.report_malformed(f"{what} ({reason}){more}")
        message = f"the provider stopped the reply ({reason}){more}"
        self._builder.refusal.append(message)
        return [self._builder.add_finding("refusal", message, level="error")]

    # The parts of a content.

    def _take_part(self, part: Any) -> list[StreamEvent]:
        if not isinstance(part, Mapping):
            return self._builder.report_lost("a part must be an object", part)
        if part.get("functionCall") is not None and part.get("function_call") is not None:
            return self._builder.report_lost(
                "a part has 'functionCall' and 'function_call': neither was run"
            )
        part = camel_keys(part)
        call, text = part.get("functionCall"), part.get("text")
        events: list[StreamEvent] = []
        if isinstance(text, str) and part.get("thought"):
            self._builder.reasoning.append(text)
            events += self._builder.add_other() if text else []
        elif isinstance(text, str) and self._parts.role == "model":
            events += self._builder.add_text(text)
        elif text is not None and not isinstance(text, str):
            events += self._builder.report_lost("the text of a part must be a string", text)
            del part["text"]
        if call is None:
            self._parts.add(part)
            return events + ([] if isinstance(text, str) else self._builder.add_other())
        return events + self._take_call(part, call)

    def _take_call(self, part: dict[str, Any], call: Any) -> list[StreamEvent]:
        pieces = get_field(call, "partialArgs", [])
        if not isinstance(call, Mapping) or not isinstance(pieces, list):
            return self._builder.report_lost("a functionCall must be an object", call)
        if part.get("thought") or self._parts.role != "model":
            where = "a thought" if part.get("thought") else f"a content of {self._parts.role!r}"
            message = f"a call inside {where} is no call: it is not run"
            return [self._builder.add_finding("skipped", message, level="error")]
        if self._open is not None and self._goes_on(self._open[0], call):
            return self._extend_call(*self._open, part, call)
        if not call and self._has_streamed:
            self._has_streamed = False
            return []
        return self._begin_call(part, call)

    def _goes_on(self, known: CallInProgress, call: Mapping[str, Any]) -> bool:
        """Return True if this continues or ends the open call."""
        name, call_id = get_field(call, "name"), get_field(call, "id")
        # With a name, whole arguments or a beginning are another call of the same tool.
        is_new = get_field(call, "args") is not None or (
            not get_field(call, "partialArgs") and get_field(call, "willContinue") is True
        )
        is_same = name is None or (not is_new and self._find_own_name(name)[0] == known.name)
        return is_same and (call_id is None or call_id == known.call_id)

    def _begin_call(self, part: dict[str, Any], call: Mapping[str, Any]) -> list[StreamEvent]:
        self._refuse_unfinished()
        call_id, name = get_field(call, "id"), get_field(call, "name")
        own, note = self._find_own_name(name)
        begun, events = self._builder.begin(call_id, own if note else name)
        if note:
            begun.repairs.append(note)
        self._parts.add_call(part, begun, has_id=isinstance(call_id, str) and bool(call_id))
        if get_field(call, "partialArgs") or get_field(call, "willContinue") is True:
            self._open = begun, PartialArguments()
            return events + self._extend_call(*self._open, part, call)
        self._has_streamed = False
        return events + self._settle_call(begun, get_field(call, "args"))

    def _find_own_name(self, name: Any) -> tuple[Any, str | None]:
        if not isinstance(name, str) or self._known.get(self._known.meant_name(name)) is not None:
            return (self._known.meant_name(name) if isinstance(name, str) else name), None
        for prefix in _PREFIXES:
            rest = self._known.meant_name(name.removeprefix(prefix))
            if name.startswith(prefix) and self._known.get(rest) is not None:
                return rest, f"the tool was called {name!r}: {prefix!r} was taken away"
        return name, None

    def _extend_call(
        self,
        begun: CallInProgress,
        arguments: PartialArguments,
        part: Mapping[str, Any],
        call: Mapping[str, Any],
    ) -> list[StreamEvent]:
        pieces = get_field(call, "partialArgs", [])
        self._parts.sign(begun, part.get("thoughtSignature"))
        for piece in pieces:
            if isinstance(piece, Mapping):
                arguments.take(piece)
            else:
                self._builder.refuse(begun, "a part of the arguments cannot be read")
        whole = get_field(call, "args")
        if isinstance(whole, Mapping):
            arguments.update(whole)
        elif whole is not None:
            self._builder.refuse(begun, find_fault(whole) or "")
        if get_field(call, "willContinue") is True:
            return []
        self._open = None
        self._has_streamed = bool(call)
        fault = arguments.fault or (arguments.open_text and _UNFINISHED)
        if fault:
            self._builder.refuse(begun, fault)
        return self._settle_call(begun, arguments.value())

    def _settle_call(self, call: CallInProgress, arguments: Any) -> list[StreamEvent]:
        if self._has_repeated_keys:
            self._builder.refuse(call, "a key stands twice in one object; write the call again")
        take_object(self._builder, call, {} if arguments is None else arguments)
        events: list[StreamEvent] = []
        if call.parts:
            events = self._builder.add_arguments(call, call.parts.pop())
        elif call.raw is None:
            events = self._builder.add_arguments(call, to_text(call.value))
        self._builder.finish(call)
        return events

    def _refuse_unfinished(self) -> None:
        if self._open is None:
            return
        call, arguments = self._open
        self._open = None
        # Without its last brace it is what it is, a beginning: the builder refuses it as cut.
        self._builder.add_arguments(call, to_text(arguments.value())[:-1])


def _read_reason(reason: Any) -> str:
    reason = getattr(reason, "value", reason)
    if isinstance(reason, int):
        return _NUMBERS.get(reason, "" if reason == 0 else str(reason))
    return reason.upper() if isinstance(reason, str) else ""
