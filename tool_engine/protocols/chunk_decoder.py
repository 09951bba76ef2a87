"""How is a reply read that comes in chunks, whole or as typed events?"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final, Protocol, TypeVar

from tool_engine.model.json.copying import refuse_copying
from tool_engine.model.json.returned_value import safe_repr
from tool_engine.model.reply import ParsedReply, StreamEvent
from tool_engine.protocols.chunks import ChunkReader, dump_object, read_field
from tool_engine.protocols.native_calls import find_owner
from tool_engine.protocols.reply_builder import Ending, ReplyBuilder

# Why a call that came in events is not run.
SENT_TWICE: Final = "its arguments were sent twice, and differ; write the call again"
NO_TEXT: Final = "a part of its arguments is no text; write the call again"
UNKNOWN_FORM: Final = "a part of it came in a form that is not known; write the call again"
NEVER_BEGUN: Final = "the reply ended before its arguments began; write the call again"
_TOO_DEEP: Final = "a part of the reply nests too deep to be read: write it flatter"


class Reader(Protocol):
    """A reader of chunks of any kind."""

    problems: list[str]
    """What could not be read since they were last reported, a sentence each."""

    def feed(self, chunk: Any) -> Iterable[Any]:
        """Return what a chunk holds, for `_take_payload`."""

    def close(self) -> Iterable[Any]:
        """Return what was held back."""


@refuse_copying("make another one with protocol.decoder()")
class ChunkDecoder(ABC):
    """A decoder of one reply from chunks; reports what is lost."""

    protocol: ClassVar[str]
    """The name of the protocol whose replies it reads."""

    def __init__(self, builder: ReplyBuilder, reader: Reader) -> None:
        self._builder = builder
        self._reader = reader
        self._is_known = False
        """Whether the first chunk was looked at: it says whose reply it is."""
        self._reply: ParsedReply | None = None

    @abstractmethod
    def _take_payload(self, payload: Any) -> list[StreamEvent]:
        """Read what the reader made of a chunk."""

    @abstractmethod
    def _end_stream(self) -> None:
        """Settle what is open when nothing more comes."""

    @abstractmethod
    def _finish_reply(self) -> ParsedReply:
        """Return the reply, once all was taken."""

    def feed(self, chunk: Any) -> list[StreamEvent]:
        """Take an SDK's object, a mapping, or the next bytes or text."""
        events = self._take_all(self._reader.feed(chunk))
        return events + self._report_problems() if self._reader.problems else events

    def close(self) -> ParsedReply:
        if self._reply is None:
            self._take_all(self._reader.close())
            self._report_problems()
            try:
                self._end_stream()
            except RecursionError:
                self._builder.report_lost(_TOO_DEEP)
            self._reply = self._finish_reply()
        return self._reply

    def _take_all(self, payloads: Iterable[Any]) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        for payload in payloads:
            # Problems are reported in their place among the payloads.
            if self._reader.problems:
                events += self._report_problems()
            try:
                events += self._take_own(payload)
            except RecursionError:
                events += self._builder.report_lost(_TOO_DEEP)
        return events

    def _take_own(self, payload: Any) -> list[StreamEvent]:
        """Read what the reader made of a chunk, if the reply is none of another protocol."""
        if not self._is_known:
            self._is_known = True
            owner = find_owner(getattr(payload, "value", payload))
            if owner not in (None, self.protocol):
                return self._builder.report_lost(
                    f"the reply is one of the protocol {owner!r}, not of {self.protocol!r}; read "
                    "it with that one"
                )
        return self._take_payload(payload)

    def _report_problems(self) -> list[StreamEvent]:
        problems, self._reader.problems = self._reader.problems, []
        return [event for problem in problems for event in self._builder.report_lost(problem)]


class EventDecoder(ChunkDecoder):
    """A decoder of one reply from typed events."""

    def __init__(self, builder: ReplyBuilder) -> None:
        super().__init__(builder, ChunkReader())
        self._is_begun = False
        self._is_ended = False
        self._is_late_reported = False
        self._events: Mapping[str, Callable[[Any], list[StreamEvent]]] = {}
        """Type of an event -> what reads it."""

    @abstractmethod
    def _take_other(self, payload: Any, kind: Any) -> list[StreamEvent]:
        """Read what is no event of a known type."""

    @abstractmethod
    def _settle_calls(self) -> None:
        """Settle the calls whose end did not come."""

    def _take_payload(self, payload: Any) -> list[StreamEvent]:
        if isinstance(payload, BaseException):
            return self._take_error({"error": payload})
        kind = read_field(payload, "type")
        take = self._events.get(kind) if isinstance(kind, str) else None
        return self._take_other(payload, kind) if take is None else take(payload)

    def _take_error(self, payload: Any) -> list[StreamEvent]:
        error = read_field(payload, "error", payload)
        words = read_field(error, "message", error)
        words = words if isinstance(words, str) else safe_repr(words)
        code = read_field(error, "code") or read_field(error, "type")
        what = f"{code}: {words}" if isinstance(code, str) and code != "error" else words
        events = self._builder.report_malformed(f"the provider reports an error: {what}")
        if self._is_ended:
            return events
        return events + self._fail_calls(
            f"the provider broke the reply off ({what}): this was not run"
        )

    def _fail_calls(self, why: str) -> list[StreamEvent]:
        """End the reply, and refuse each of its calls."""
        self._is_ended = True
        for call in self._builder.calls:
            self._builder.refuse(call, why)
        self._settle_calls()
        return self._builder.end(Ending.UNKNOWN)

    def _report_late(self, message: str) -> list[StreamEvent]:
        """Report once what came after the end."""
        if self._is_late_reported:
            return []
        self._is_late_reported = True
        return self._builder.report_malformed(message)


class Placed(Protocol):
    """A part of a reply that the provider numbers."""

    @property
    def index(self) -> Any:
        """Its number, if it has one."""


_Placed = TypeVar("_Placed", bound=Placed)


def sort_by_index(parts: list[_Placed]) -> list[_Placed]:
    """Sort parts by their numbers, if each has one of its own."""
    indexes = [part.index for part in parts]
    is_numbered = all(type(index) is int for index in indexes)
    if not is_numbered or len(set(indexes)) < len(indexes):
        return parts
    return sorted(parts, key=lambda part: part.index)


def read_usage(usage: Any) -> dict[str, Any]:
    """Return what a provider has counted, as plain values."""
    counted = None if usage is None else dump_object(usage)
    return counted if isinstance(counted, dict) else {}
