"""How is a reply of Chat Completions read, whole or in chunks?

https://platform.openai.com/docs/api-reference/chat-streaming and what servers make of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from tool_engine.model.reply import ParsedReply, StreamEvent
from tool_engine.protocols.chunk_decoder import ChunkDecoder, read_usage
from tool_engine.protocols.chunks import ChunkReader, dump_object, read_field
from tool_engine.protocols.object_arguments import find_fault
from tool_engine.protocols.openai.call_table import CallTable, Fragment
from tool_engine.protocols.openai.finish_reasons import asks_for_calls, find_meaning
from tool_engine.protocols.openai.kept_fields import KeptFields, copy_extra, get_undeclared
from tool_engine.protocols.openai.openai_messages import write_reply
from tool_engine.protocols.reply_builder import Ending, Refine, ReplyBuilder
from tool_engine.protocols.tool_names import KnownTools

_NO_OBJECT: Final = (str, bytes, int, float, list, tuple)
"""Types that servers send in place of an object."""
_PLAIN: Final = (str, bytes, int, float)
_HELPER_EVENTS: Final = ("content.", "refusal.", "tool_calls.", "logprobs.")
_LEGACY: Final = "function_call"
_NO_CALLS: Final[tuple[Any, ...]] = (None, "", [], ())
"""What servers send as the list of calls where there is none."""
_NO_CALL: Final[tuple[Any, ...]] = (None, "", {})
_BESIDE: Final = ("custom", "function_call", "name", "arguments", "input", "parameters")
"""Keys beside a call's `function` that mean another call, or other arguments."""


class OpenAIDecoder(ChunkDecoder):
    """A decoder of one reply of Chat Completions.

    `feed` takes chunks as the SDK's objects, mappings, and bytes or text of the stream of events; a
    whole completion, or a bare assistant message, is a chunk too.
    """

    protocol = "openai"

    def __init__(
        self, known: KnownTools, *, repair: bool = True, refine: Refine | None = None
    ) -> None:
        self._chunks = ChunkReader()
        super().__init__(ReplyBuilder(known, repair=repair, refine=refine), self._chunks)
        self._calls = CallTable(self._builder, known)
        self._has_read = False
        self._has_delta = False
        self._has_unknown = False
        self._has_calls = False
        self._has_repeated = False
        self._others: set[str] = set()
        self._has_lost_calls = False
        self._kept = KeptFields()

    def _take_all(self, payloads: Iterable[Any]) -> list[StreamEvent]:
        events = super()._take_all(payloads)
        if self._chunks.is_done:
            events += self._calls.settle() + self._end_at_done()
        return events

    def _finish_reply(self) -> ParsedReply:
        reply = self._builder.close()
        calls = [each for each in self._calls.calls if not each.call.is_repeated]
        return replace(reply, message=write_reply(reply, calls, self._kept.fields()))

    def _end_stream(self) -> None:
        self._calls.settle()
        if not self._has_read and not any(e.level == "error" for e in self._builder.findings):
            self._builder.report_malformed("there is no message in the reply")
        elif self._is_silent and not self._builder.is_ended:
            self._builder.report_malformed("the reply ended before it began")
        reason = self._builder.stop_reason
        if asks_for_calls(reason) and not self._calls.calls:
            message = f"the reply ended for its calls ({reason}), but there are none: ask again"
            self._builder.report_malformed(message)
        if self._others:
            # Alternative texts are there because the caller wanted them; without the first choice
            # all is lost, and there are servers that number the chunks of one choice.
            level = "warning" if self._has_read and not self._has_lost_calls else "error"
            message = f"only choice 0 is read, not {len(self._others)} more: ask for one"
            self._builder.add_finding("skipped", message, level=level)
        if self._builder.refusal:
            refusal = "".join(self._builder.refusal)
            self._builder.add_finding("refusal", f"the model refused: {refusal}", level="error")

    @property
    def _is_silent(self) -> bool:
        said = self._builder
        return not (said.calls or said.text or said.reasoning or said.refusal or said.findings)

    def _take_payload(self, payload: Any) -> list[StreamEvent]:
        choices = None if isinstance(payload, _PLAIN) else read_field(payload, "choices")
        if choices is None:
            is_list = isinstance(payload, list | tuple)
            return self._take_list(payload) if is_list else self._take_other(payload)
        usage = read_field(payload, "usage")
        self._builder.usage = read_usage(usage) or self._builder.usage
        error = get_undeclared(payload, "error")
        events = self._fail_reply(error) if error else []
        if not isinstance(choices, list | tuple):
            return events + self._report_odd("the choices of a chunk are", choices, "a list")
        for place, choice in enumerate(choices):
            events += self._take_choice(payload, choice, place)
        return events

    def _take_other(self, payload: Any) -> list[StreamEvent]:
        """Read an error, a bare message, or an event of the SDK."""
        if payload is None or isinstance(payload, _PLAIN):
            return self._report_odd("a chunk of the reply is", payload, "an object")
        usage = read_field(payload, "usage")
        self._builder.usage = read_usage(usage) or self._builder.usage
        kind, message = read_field(payload, "type"), read_field(payload, "message")
        error = read_field(payload, "error") or read_field(payload, "detail")
        if error or isinstance(message, str) or "error" in (kind, read_field(payload, "object")):
            return self._fail_reply(error or payload)
        if read_field(payload, "chunk") is not None:
            return self._take_payload(read_field(payload, "chunk"))
        if message is not None:
            return self._take_lone_choice(payload, message)
        if read_field(payload, "role") is not None or read_field(payload, "tool_calls") is not None:
            return self._take_message(payload)
        is_known = isinstance(kind, str) and kind.startswith(_HELPER_EVENTS)
        return [] if is_known or usage is not None or payload == {} else self._skip_payload(payload)

    def _take_lone_choice(self, choice: Any, message: Any) -> list[StreamEvent]:
        """Read a bare choice, or Ollama's own format, whole or by line."""
        is_done = read_field(choice, "done")
        if is_done is None:
            return self._take_choice(choice, choice, 0)
        events = self._take_delta(message)
        return (
            events + self._end_reply(str(read_field(choice, "done_reason", "stop")))
            if is_done
            else events
        )

    def _skip_payload(self, payload: Any) -> list[StreamEvent]:
        if self._has_unknown:
            return []
        self._has_unknown = True
        message = f"a chunk of the reply has no choices, so it was not read: {payload!r:.80}"
        return [self._builder.add_finding("malformed_reply", message)]

    def _take_list(self, payloads: Sequence[Any]) -> list[StreamEvent]:
        if not payloads:
            return self._builder.report_lost("a chunk of the reply is an empty list, not an object")
        roles = [read_field(each, "role") for each in payloads]
        if len(payloads) < 2 or not any(roles):
            return [event for each in payloads for event in self._take_payload(each)]
        message = f"of {len(payloads)} messages only the last one was read"
        return [self._builder.add_finding("skipped", message), *self._take_payload(payloads[-1])]

    def _take_choice(self, payload: Any, choice: Any, place: int) -> list[StreamEvent]:
        if choice is None or isinstance(choice, _NO_OBJECT):
            return self._report_odd("a choice of the reply is", choice, "an object")
        delta = read_field(choice, "delta")
        message = read_field(choice, "message") if not delta else None
        index = read_field(choice, "index", place)
        if index not in (0, "0") and (message is None or place > 0):
            if not _is_number(index):
                return self._report_odd("the index of a choice is", index, "a number")
            self._others.add(str(index))
            calls = read_field(delta or read_field(choice, "message"), "tool_calls")
            self._has_lost_calls = self._has_lost_calls or bool(calls)
            return []
        reason, error = read_field(choice, "finish_reason"), get_undeclared(choice, "error")
        if message is not None:
            is_chunk = read_field(payload, "object") == "chat.completion.chunk" and not reason
            events = self._take_whole(message, is_chunk=is_chunk)
        else:
            events = self._take_delta(delta)
            self._has_delta = self._has_delta or bool(events or self._calls.calls)
        if error:
            events += self._fail_reply(error)
        if reason:
            events += self._end_reply(str(reason))
        elif message is not None and not is_chunk:
            events += self._end_silently()
        return events

    def _take_message(self, message: Any) -> list[StreamEvent]:
        role = read_field(message, "role", "assistant")
        if role != "assistant":
            text = f"a message of the role {role!r} is no reply: it was not read"
            return [self._builder.add_finding("skipped", text)]
        return self._take_whole(message, is_chunk=False) + self._end_silently()

    def _take_whole(self, message: Any, *, is_chunk: bool) -> list[StreamEvent]:
        """Read a whole message; after deltas it repeats the same calls."""
        if is_chunk:
            return self._take_delta(message)
        if self._has_delta:
            return [
                self._builder.add_finding(
                    "skipped", "a whole message came after its parts: skipped"
                )
            ]
        self._has_delta = True
        return self._take_delta(message, is_whole=True)

    def _take_delta(self, delta: Any, *, is_whole: bool = False) -> list[StreamEvent]:
        if delta is None:
            return []
        if isinstance(delta, _NO_OBJECT):
            return self._report_odd("a delta of the reply is", delta, "an object")
        self._has_read = True
        events: list[StreamEvent] = []
        thought = self._kept.take(delta)
        if thought:
            self._builder.reasoning.append(thought)
        content = read_field(delta, "content")
        if content:
            events += self._take_content(content)
        refusal = read_field(delta, "refusal")
        if refusal:
            self._builder.refusal.append(str(refusal))
        calls = read_field(delta, "tool_calls")
        if calls not in _NO_CALLS:
            events += self._take_calls(calls, is_whole=is_whole)
            self._has_calls = self._has_calls or bool(calls)
        legacy = read_field(delta, "function_call")
        if legacy not in _NO_CALL:
            events += self._take_legacy(legacy, is_whole=is_whole)
        return events

    def _take_content(self, content: Any) -> list[StreamEvent]:
        if isinstance(content, bytes | int | float):
            return self._report_odd("the content of the reply is", content, "a text")
        events: list[StreamEvent] = []
        for kind, text in _find_parts(content):
            if kind == "text":
                events += self._builder.add_text(text)
            elif kind == "other":
                message = f"a part of the reply is no text, so it was not read: {text}"
                events.append(self._builder.add_finding("skipped", message))
            else:
                thoughts = kind == "reasoning"
                (self._builder.reasoning if thoughts else self._builder.refusal).append(text)
        return events

    def _take_calls(self, calls: Any, *, is_whole: bool) -> list[StreamEvent]:
        if isinstance(calls, Mapping) and any(key in calls for key in ("function", *_BESIDE)):
            # Some servers leave the list around a single call out.
            calls = [calls]
        if not isinstance(calls, list | tuple):
            return self._report_odd("tool_calls is", calls, "a list")
        events: list[StreamEvent] = []
        for each in calls:
            if each is None and (is_whole or all(call.is_closed() for call in self._calls.calls)):
                # It stands for no part of a call: the parts that came before are whole.
                continue
            events += [] if each == {} else self._take_call(each, is_whole=is_whole)
        return events

    def _take_legacy(self, legacy: Any, *, is_whole: bool) -> list[StreamEvent]:
        """Read the legacy `function_call`; some servers write each call in both forms."""
        if not self._has_calls:
            return self._take_call({"index": _LEGACY, "function": legacy}, is_whole=is_whole)
        if self._has_repeated:
            return []
        self._has_repeated = True
        name = read_field(legacy, "name")
        if name and all(each.name != name for each in self._calls.calls):
            message = f"function_call calls {name!r:.80}, which tool_calls does not: it was not run"
            return self._builder.report_malformed(message)
        message = "function_call beside tool_calls says the same again: it was not read"
        return [self._builder.add_finding("skipped", message)]

    def _take_call(self, entry: Any, *, is_whole: bool) -> list[StreamEvent]:
        function = None if isinstance(entry, _NO_OBJECT) else read_field(entry, "function")
        custom = read_field(entry, "custom") if function is None else None
        # Some servers leave the level of `function` out.
        said = entry if custom in _NO_CALL else custom
        said = said if function in _NO_CALL else function
        if said is None or isinstance(said, _NO_OBJECT):
            return self._report_odd("an entry of tool_calls is", said, "a call")
        is_custom = custom is not None or read_field(entry, "type") == "custom"
        call_id = read_field(entry, "id")
        arguments = _find_arguments(said, "input" if is_custom else "arguments")
        fault = find_fault(arguments) if isinstance(arguments, Mapping) else None
        fragment = Fragment(
            read_field(entry, "index"),
            str(call_id) if isinstance(call_id, int) else call_id,
            read_field(said, "name"),
            _write_arguments(arguments),
            is_custom=is_custom,
            extra=copy_extra(entry),
            fault=fault or (_find_second(entry, function) if function else None),
        )
        return self._calls.begin(fragment) if is_whole else self._calls.add(fragment)

    def _end_reply(self, reason: str) -> list[StreamEvent]:
        events, meaning = self._calls.settle(), find_meaning(reason)
        if meaning.stops_calls:
            self._builder.spoil(meaning.message)
        if meaning.finding is not None:
            level = "error" if meaning.stops_calls else "warning"
            events.append(self._builder.add_finding(meaning.finding, meaning.message, level=level))
        return events + self._builder.end(meaning.ending, reason)

    def _fail_reply(self, error: Any) -> list[StreamEvent]:
        said = error if isinstance(error, str) else read_field(error, "message", dump_object(error))
        message = f"the server reports an error: {said!s:.500}"
        self._builder.spoil(message)
        return self._builder.report_malformed(message) + self._builder.end(Ending.CUT)

    def _report_odd(self, what: str, found: Any, wanted: str) -> list[StreamEvent]:
        return self._builder.report_lost(f"{what} {found!r:.80}, not {wanted}")

    def _end_silently(self) -> list[StreamEvent]:
        """End a message that seems whole without a stated reason."""
        calls = self._calls.calls
        for each in calls:
            # With a name and no arguments the last one may have been cut.
            if each.has_arguments or each is not calls[-1]:
                self._builder.finish(each.call)
        return self._calls.settle() + self._builder.end(Ending.UNKNOWN)

    def _end_at_done(self) -> list[StreamEvent]:
        """End at `[DONE]`: the text is whole, a call perhaps not."""
        if self._has_read and not self._calls.calls and not self._builder.is_ended:
            return self._builder.end(Ending.FINISHED)
        return self._builder.stop()


def _is_number(index: Any) -> bool:
    return type(index) is int or (isinstance(index, str) and index.isdecimal())


def _find_second(entry: Any, function: Any) -> str | None:
    """Return why an entry may hold more than this one call."""
    for key in _BESIDE:
        said = read_field(entry, key)
        if said and said != read_field(function, key):
            return f"{key!r} stands beside the function: which call is meant is not certain"
    return None


def _find_arguments(said: Any, key: str) -> Any:
    found = read_field(said, key)
    return get_undeclared(said, "parameters") if found is None else found


def _write_arguments(arguments: Any) -> str:
    if isinstance(arguments, str):
        return arguments
    if arguments is None:
        return ""
    try:
        return json.dumps(dump_object(arguments), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return repr(arguments)


class _Part(NamedTuple):
    """One piece of content, of `kind` `text`, `reasoning`, `refusal`, or `other`."""

    kind: str
    text: str


def _find_parts(content: Any) -> Iterator[_Part]:
    """Yield the pieces of content: a text, a part or a list."""
    if isinstance(content, str):
        yield _Part("text", content)
    elif isinstance(content, list | tuple):
        for each in content:
            yield from _find_parts(each)
    elif content is not None:
        yield from _read_part(content)


def _read_part(part: Any) -> Iterator[_Part]:
    text, thought = read_field(part, "text"), read_field(part, "thinking")
    if thought is not None:
        # Mistral's: a list of parts, or a text.
        yield from (_Part("reasoning", each.text) for each in _find_parts(thought))
    elif read_field(part, "type") == "refusal":
        yield _Part("refusal", str(read_field(part, "refusal", "")))
    elif isinstance(text, str):
        yield _Part("text", text)
    else:
        yield _Part("other", f"{dump_object(part)!r:.80}")
