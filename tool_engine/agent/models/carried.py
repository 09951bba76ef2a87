"""How does a text protocol work in the messages of a provider that has tools of its own?

The provider's own protocol reads the reply: its text, its usage, why it ended. The text protocol
reads the calls in that text. The request declares no tools.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from tool_engine.interfaces import ReplyDecoder, ToolCallingProtocol
from tool_engine.model.call import ToolCall, ToolExecutionResult
from tool_engine.model.json.copying import refuse_copying
from tool_engine.model.reply import ParsedReply, ReplyFinding, StreamEvent, StreamEventType
from tool_engine.model.tool import Tool

_CUT: Final = frozenset({"truncated", "refusal"})
"""Findings of the provider's protocol on a reply cut from outside."""
_NATIVE: Final = (
    "the model asked for a tool in its provider's way, although it was told to write calls as "
    "text: this was not run"
)


class CarriedProtocol:
    """A text protocol inside the messages of a provider."""

    def __init__(self, text: ToolCallingProtocol, native: ToolCallingProtocol) -> None:
        self.text = text
        self.writes_text = bool(getattr(text, "writes_text", False))
        self.native = native

    def __repr__(self) -> str:
        return f"CarriedProtocol({self.text!r}, in messages of {self.native.name})"

    @property
    def name(self) -> str:
        return self.text.name

    def definitions(self, tools: Iterable[Tool]) -> Any:
        return self.text.definitions(tools)

    def prompt(self, tools: Iterable[Tool]) -> str:
        make = getattr(self.text, "prompt", self.text.definitions)
        return str(make(tools))

    def definition_findings(self, tools: Iterable[Tool]) -> list[ReplyFinding]:
        find: Callable[[Iterable[Tool]], list[ReplyFinding]] | None
        find = getattr(self.text, "definition_findings", None)
        return [] if find is None else find(tools)

    def parse(self, reply: Any) -> ParsedReply:
        decoder = CarriedDecoder(self)
        return decoder.finish_reply(self.native.parse(reply))

    def decoder(self) -> CarriedDecoder:
        return CarriedDecoder(self)

    def format_results(
        self, results: Sequence[ToolExecutionResult], calls: Sequence[ToolCall] | None = None
    ) -> list[Any]:
        made = self.text.format_results(results, calls)
        return (
            [make_message(self.native.name, "user", made)] if isinstance(made, str) else list(made)
        )

    def result_findings(self, results: Sequence[ToolExecutionResult]) -> list[ReplyFinding]:
        find: Callable[[Sequence[ToolExecutionResult]], list[ReplyFinding]] | None
        find = getattr(self.text, "result_findings", None)
        return [] if find is None else find(results)

    def history(self, native: ParsedReply) -> list[Any]:
        if native.calls or not isinstance(native.message, list):
            # An unanswered call would make the conversation invalid.
            said = make_message(self.native.name, "assistant", native.text)
            return [said] if native.text.strip() else []
        return native.message


def wire_of(protocol: ToolCallingProtocol) -> str:
    """Return the name of the protocol that shapes the conversation's messages."""
    return protocol.native.name if isinstance(protocol, CarriedProtocol) else protocol.name


def make_message(wire: str, role: str, text: str) -> dict[str, Any]:
    """Return a message of protocol `wire`; roles are `user` and `assistant`."""
    if wire == "gemini":
        return {"role": "model" if role == "assistant" else role, "parts": [{"text": text}]}
    return {"role": role, "content": text}


@refuse_copying("make another one with protocol.decoder()")
class CarriedDecoder:
    """A decoder of one reply, made by `CarriedProtocol.decoder`."""

    def __init__(self, protocol: CarriedProtocol) -> None:
        self._protocol = protocol
        self._native: ReplyDecoder = protocol.native.decoder()
        self._text: ReplyDecoder = protocol.text.decoder()
        self._fed: list[str] = []
        self._reply: ParsedReply | None = None

    def feed(self, chunk: Any) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        for event in self._native.feed(chunk):
            if event.type is StreamEventType.CONTENT_CHUNK and event.content:
                events += self._read_text(event.content)
            elif event.type is StreamEventType.ERROR:
                events.append(event)
        return events

    def close(self) -> ParsedReply:
        if self._reply is None:
            self._reply = self.finish_reply(self._native.close())
        return self._reply

    def finish_reply(self, native: ParsedReply) -> ParsedReply:
        fed = "".join(self._fed)
        if native.text.startswith(fed):
            self._read_text(native.text[len(fed) :])
        reason = _find_ending(native)
        if reason is not None:
            self._text.feed({"choices": [{"delta": {}, "finish_reason": reason}]})
        read = self._text.close()
        return replace(
            native,
            calls=read.calls,
            text=read.text,
            reasoning=native.reasoning + read.reasoning,
            findings=[*_list_findings(native), *read.findings],
            message=self._protocol.history(native),
        )

    def _read_text(self, text: str) -> list[StreamEvent]:
        if not text:
            return []
        self._fed.append(text)
        return self._text.feed(text)


def _find_ending(native: ParsedReply) -> str | None:
    if native.stop_reason is None:
        return None
    if any(each.error_type in _CUT or each.level == "error" for each in native.findings):
        return "length"
    is_known = all(each.error_type != "malformed_reply" for each in native.findings)
    return "stop" if is_known else None


def _list_findings(native: ParsedReply) -> list[ReplyFinding]:
    asked = {call.call_id: call for call in native.calls}
    kept = [each for each in native.findings if each.call_id not in asked]
    refused = [
        ReplyFinding(error_type="skipped", level="error", message=_NATIVE, tool_name=call.tool_name)
        for call in asked.values()
    ]
    return [*kept, *refused]
