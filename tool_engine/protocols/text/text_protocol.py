"""What do the protocols share in which a call is a part of the model's text?"""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any, ClassVar, Final, NamedTuple

from tool_engine.errors import ConfigurationError
from tool_engine.model.call import ToolCall
from tool_engine.model.checks.bounds import check_choice
from tool_engine.model.checks.setting_kinds import check_switch
from tool_engine.model.json.copying import refuse_copying
from tool_engine.model.reply import ParsedReply, ReplyFinding, StreamEvent
from tool_engine.model.tool import Tool
from tool_engine.protocols.chunks import read_field, split_chunks
from tool_engine.protocols.model_protocol import ModelProtocol
from tool_engine.protocols.object_arguments import make_readable
from tool_engine.protocols.reply_builder import CallInProgress, Ending, ReplyBuilder
from tool_engine.protocols.text.grammar import BlockReader, Grammar
from tool_engine.protocols.text.markdown import MARK, find_places, find_region_within
from tool_engine.protocols.text.scanner import Scanner
from tool_engine.protocols.tool_names import ANY_NAME, NameRule, ToolCatalog

_MESSAGE_KEYS: Final = frozenset({"content", "role", "reasoning_content", "reasoning"})
LANGUAGES: Final = ("en", "zh")
_HOW_TO_READ: Final = (
    "calls inside {region} are quoted, so they were not run; write a call outside of it, or read "
    "quoted calls too, with skip_quoted=False"
)
_BEFORE_THOUGHT: Final = (
    "the call stands before a </think> that nothing opened, so it is part of the model's thoughts, "
    "and was not run; say is_thinking=True if the prompt opens the tag"
)
_NO_UTF8: Final = "the reply holds bytes that are no UTF-8: each is read as U+FFFD"
_TOO_MANY_MARKS: Final = (
    "the reply has more than 10,000 backticks, tags and other marks, so what follows is read as "
    "text: no call in it was run"
)
_MOST_CALLS: Final = 1_000
"""The most calls of one reply, in however few blocks."""
_TOO_MANY_CALLS: Final = (
    "the reply has more than 1,000 calls: what comes after them was not read, and not run; write "
    "fewer calls in a reply"
)
_MOST_READINGS: Final = 8
"""The most passes that look for quoted calls; then all that are left count as such."""
_IN_MARKDOWN: Final = (
    "the call stands in {region}, so it is quoted and was not run; write a call outside of it, on "
    "a line of its own, or read quoted calls too, with skip_quoted=False"
)
_DAMAGED: Final = (
    "the call holds bytes that are no UTF-8, so it is not what was meant and was not run; write it "
    "again"
)


class Said(NamedTuple):
    text: str
    reasoning: str
    stop_reason: str | None = None


def find_text(chunk: Any) -> Said | None:
    """Return the text of a message, completion or chunk, else None."""
    choices = read_field(chunk, "choices")
    if not isinstance(choices, list | tuple):
        return _read_message(chunk)
    first = choices[0] if choices else {}
    stop_reason = read_field(first, "finish_reason")
    said = _read_message(read_field(first, "delta") or read_field(first, "message")) or Said("", "")
    return said._replace(stop_reason=stop_reason if isinstance(stop_reason, str) else None)


def _read_message(message: Any) -> Said | None:
    if isinstance(message, Mapping):
        is_message = bool(_MESSAGE_KEYS & message.keys())
    else:
        is_message = hasattr(message, "content")
    content = read_field(message, "content", "") if is_message else None
    text = content if isinstance(content, str) else _join_parts(content)
    if text is None:
        return None
    thoughts = read_field(message, "reasoning_content") or read_field(message, "reasoning")
    return Said(text, thoughts if isinstance(thoughts, str) else "")


def _join_parts(parts: Any) -> str | None:
    if not isinstance(parts, list | tuple):
        return None
    texts = [part if isinstance(part, str) else read_field(part, "text", "") for part in parts]
    return "".join(text for text in texts if isinstance(text, str))


def check_rendering(protocol: TextProtocol, text: str, call: ToolCall) -> str:
    """Return `text`, or raise `ConfigurationError` if it is another call."""
    reader = copy(protocol)
    reader.is_thinking = False
    found = reader.parse(text)
    read = found.calls[0] if len(found.calls) == 1 and not found.text else None
    if read is not None and read.is_runnable and _is_same(call, read):
        return text
    raise ConfigurationError(
        f"{protocol.name} cannot carry the call {call.call_id!r} of {call.tool_name!r} as it is: "
        f"its name, id and arguments must be what the protocol can write, and the tool must be "
        f"known, with tools=..., if arguments are no texts{_find_reason(read, found)}"
    )


def _find_reason(read: ToolCall | None, found: ParsedReply) -> str:
    if read is not None and read.error:
        return f" ({read.error})"
    lost = [finding.message for finding in found.findings]
    return f" ({lost[0]})" if lost else ""


def _is_same(one: ToolCall, other: ToolCall) -> bool:
    if (one.call_id, one.tool_name) != (other.call_id, other.tool_name):
        return False
    try:
        return _is_equal(one.arguments, other.arguments)
    except RecursionError:
        return False


def _is_equal(one: Any, other: Any) -> bool:
    # 1, 1.0 and True are equal in Python, but three different values to a tool.
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_is_equal(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_is_equal, one, other))
    return bool(one == other)


class TextProtocol(ModelProtocol):
    """A protocol with calls as text, so that it suits every model.

    `definitions`, `prompt` and `format_results` return text. A reply is text or UTF-8 bytes, whole
    or in parts, or the messages and chunks of Chat Completions that carry it.

    Args:
        tools: As of `ModelProtocol`.
        repair: As of `ModelProtocol`.
        language: Of the prompt: `en` or `zh`.
        skip_quoted: Whether calls inside `<think>` and code are ignored, each with a finding.
        is_thinking: Whether a reply begins inside `<think>`, because the prompt ends with it.
    """

    name_rule: ClassVar[NameRule] = ANY_NAME
    writes_text: ClassVar[bool] = True
    """Calls are text, in which a `tool_name` and a `command` may name a tool."""

    def __init__(
        self,
        *,
        tools: Iterable[Tool] | ToolCatalog | None = None,
        repair: bool = True,
        language: str = "en",
        skip_quoted: bool = True,
        is_thinking: bool = False,
    ) -> None:
        super().__init__(tools=tools, repair=repair)
        check_choice("language", language, LANGUAGES)
        self.language = language
        check_switch("skip_quoted", skip_quoted)
        check_switch("is_thinking", is_thinking)
        self.skip_quoted = skip_quoted
        self.is_thinking = is_thinking

    @abstractmethod
    def decoder(self) -> TextDecoder:
        """Return a decoder for a reply that comes in parts."""

    def definition_findings(self, tools: Iterable[Tool]) -> list[ReplyFinding]:
        """Return what the definitions leave out, or a call cannot carry."""
        listed = self.known.learn(tools)
        losses = (loss for tool in listed for loss in self._find_losses(tool))
        return [*super().definition_findings(listed), *losses]

    def _find_losses(self, tool: Tool) -> Iterable[ReplyFinding]:
        """Return what a tool's definition leaves out, or a call cannot carry."""
        return ()

    @abstractmethod
    def render_call(self, call: ToolCall) -> str:
        """Return the text of `call`, for an example or a replayed conversation.

        Raises:
            ConfigurationError: It would not be read as the same call.
        """

    def parse(self, reply: Any) -> ParsedReply:
        """Read a whole reply: text, bytes, a message, or chunks."""
        return self._decode_all(split_chunks(reply))


@refuse_copying("make another one with protocol.decoder()")
class TextDecoder(ABC):
    """The base of all text decoders; subclasses read single calls."""

    def __init__(
        self, protocol: TextProtocol, grammar: Grammar, *, reads_whole: bool = False
    ) -> None:
        self.protocol = protocol
        self.builder = ReplyBuilder(protocol.known, repair=protocol.repair)
        self._scanner = Scanner(
            grammar,
            self,
            skip_quoted=protocol.skip_quoted,
            is_thinking=protocol.is_thinking,
            reads_whole=reads_whole,
        )
        self._bytes = codecs.getincrementaldecoder("utf-8")("strict")
        self._has_bad_bytes = False
        self._calls = 0
        self._has_reported_full = False
        self._events: list[StreamEvent] = []
        self._said: list[str] = []
        self._ending: tuple[Ending, str | None] = (Ending.UNKNOWN, None)
        self._has_cut = False
        self._judged = 0
        """The number of calls before the last `</think>` that nothing opened."""
        self._blocks: list[tuple[int, Sequence[CallInProgress]]] = []
        self._reply: ParsedReply | None = None

    @property
    def is_finished(self) -> bool:
        """True if the server said that the model ended by itself."""
        return self._ending[0] is Ending.FINISHED

    def feed(self, chunk: Any) -> list[StreamEvent]:
        events = self._events = []
        if isinstance(chunk, str):
            self._scanner.feed(chunk)
        elif isinstance(chunk, bytes | bytearray | memoryview):
            self._scanner.feed(self._decode_bytes(bytes(chunk)))
        else:
            self._feed_message(chunk)
        return events

    def close(self) -> ParsedReply:
        if self._reply is None:
            self._scanner.feed(self._decode_bytes(b"", is_end=True))
            self._has_cut = False
            self._scanner.close()
            if self._has_bad_bytes:
                self._report_bad_bytes()
            if self.protocol.skip_quoted:
                self._refuse_quoted()
            if self._scanner.is_in_thought:
                message = "a think tag was never closed: all that follows it is taken as thoughts"
                self.add_finding("malformed_reply", message)
            self._end_reply()
            said = make_readable("".join(self._said))
            # Many providers refuse a message without text.
            messages = [{"role": "assistant", "content": said}] if said.strip() else []
            self._reply = self.builder.close(messages)
        return self._reply

    @property
    def is_full(self) -> bool:
        return self._calls >= _MOST_CALLS

    def count_call(self) -> bool:
        """Count a call; beyond the bound report it once, return False."""
        if not self.is_full:
            self._calls += 1
            return True
        if not self._has_reported_full:
            self._has_reported_full = True
            self.add_finding("malformed_reply", _TOO_MANY_CALLS, level="error")
        return False

    def add_finding(self, error_type: str, message: str, **fields: Any) -> None:
        self._events.append(self.builder.add_finding(error_type, message, **fields))

    def begin_call(self, call_id: str | None, name: str | None) -> CallInProgress:
        call, events = self.builder.begin(call_id, name)
        self._events += events
        return call

    def add_arguments(self, call: CallInProgress, text: str) -> None:
        self._events += self.builder.add_arguments(call, text)

    def end_call(self, call: CallInProgress) -> None:
        """Finish a call by its own end mark, whatever ends the reply."""
        self.builder.finish(call)
        self._events += self.builder.add_other()

    def cut_call(self, call: CallInProgress, error: str) -> None:
        call.is_cut, call.error = True, error
        self._has_cut = True
        self.end_call(call)

    def keep_raw(self, text: str, calls: Sequence[CallInProgress]) -> None:
        self._blocks.append((len(self._said), calls))
        self._said.append(text)

    def add_text(self, text: str) -> None:
        self._said.append(text)
        self._events += self.builder.add_text(text)

    def add_reasoning(self, text: str) -> None:
        self.builder.reasoning.append(text)

    def skip(self, region: str, position: int) -> None:
        self.add_finding("skipped", _HOW_TO_READ.format(region=region), position=position)

    def give_up(self, position: int) -> None:
        """Note that all further text is read without calls."""
        self.add_finding("malformed_reply", _TOO_MANY_MARKS, level="error", position=position)

    def end_unbegun_thought(self, position: int) -> None:
        """Take a `</think>` without a start: the thought began before the reply."""
        message = "</think> closes what nothing opened: no call before it is run"
        self.add_finding("malformed_reply", message, position=position)
        calls, self._judged = self.builder.calls[self._judged :], len(self.builder.calls)
        self._refuse_calls(calls, _BEFORE_THOUGHT)

    def _refuse_quoted(self) -> None:
        """Refuse quoted calls last, as later backticks may quote earlier text."""
        if not self._blocks or self._is_one_object():
            return
        plain = [text.replace(MARK, "\N{REPLACEMENT CHARACTER}") for text in self._said]
        written = list(plain)
        for index, _ in self._blocks:
            # A call counts as one unit of its line: its content begins no code after it.
            written[index] = plain[index][: -len(plain[index].lstrip())] + MARK
        left, calls_at = self._blocks, dict(self._blocks)
        for _ in range(_MOST_READINGS):
            quoted = self._find_quoted("".join(written), left)
            # A call that is not run is plain text, so the others are judged again.
            for index, region in quoted.items():
                written[index] = plain[index]
                self._refuse_calls(calls_at[index], _IN_MARKDOWN.format(region=region))
            left = [block for block in left if block[0] not in quoted]
            if not quoted or not left:
                return
        for _, calls in left:
            self._refuse_calls(calls, _IN_MARKDOWN.format(region="what may be code"))

    def _find_quoted(
        self, text: str, blocks: Sequence[tuple[int, Sequence[CallInProgress]]]
    ) -> dict[int, str]:
        found = zip(blocks, find_places(text), strict=True)
        regions = {
            index: place.region or find_region_within(self._said[index], place)
            for (index, _), place in found
        }
        return {index: region for index, region in regions.items() if region is not None}

    def _is_one_object(self) -> bool:
        """Return True if the reply is only one JSON text."""
        said = "".join(self._said).strip()
        return said[:1] != "<" and said == self._said[self._blocks[0][0]].strip()

    def _refuse_calls(
        self, calls: Iterable[CallInProgress], error: str, kind: str = "skipped"
    ) -> None:
        for call in calls:
            if call.error is None:
                call.error, call.is_fault_reported = error, True
                ids = {"call_id": call.call_id, "tool_name": call.name}
                self.add_finding(kind, error, level="error", **ids)

    @abstractmethod
    def open(self, marker: str, text: str, position: int) -> BlockReader:
        """Return a reader for the call that begins with this marker."""

    def open_reply(self) -> BlockReader | None:
        return None

    def _decode_bytes(self, data: bytes, *, is_end: bool = False) -> str:
        try:
            return self._bytes.decode(data, is_end)
        except UnicodeDecodeError:
            self._has_bad_bytes = True
            held, _ = self._bytes.getstate()
            self._bytes = codecs.getincrementaldecoder("utf-8")("replace")
            return self._bytes.decode(held + data, is_end)

    def _report_bad_bytes(self) -> None:
        self.add_finding("malformed_reply", _NO_UTF8)
        mark = "\N{REPLACEMENT CHARACTER}"
        damaged = [call for call in self.builder.calls if mark in (call.raw or "")]
        self._refuse_calls(damaged, _DAMAGED, "malformed_arguments")

    def _feed_message(self, chunk: Any) -> None:
        said = find_text(chunk)
        if said is None:
            message = f"a part of the reply is neither text nor a message: {type(chunk).__name__}"
            self.add_finding("malformed_reply", message, level="error")
            return
        if said.reasoning:
            self.builder.reasoning.append(said.reasoning)
        self._scanner.feed(said.text)
        if said.stop_reason:
            is_cut = said.stop_reason in ("length", "max_tokens", "incomplete", "content_filter")
            self._ending = Ending.CUT if is_cut else Ending.FINISHED, said.stop_reason

    def _end_reply(self) -> None:
        ending, stop_reason = self._ending
        # Each call has its own end mark: a text without a stated end leaves no doubt.
        is_whole = ending is not Ending.CUT or self._has_cut
        self.builder.end(Ending.FINISHED if is_whole else ending, stop_reason)
