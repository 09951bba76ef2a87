"""How is a reply read that comes as typed events?"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Final

from tool_engine.model.json.copying import live
from tool_engine.model.reply import ParsedReply, StreamEvent
from tool_engine.protocols.chunks import ChunkReader
from tool_engine.protocols.reply_builder import ReplyBuilder

END: Final = "end of the stream"
"""The event type for the end of a stream that declares none."""


@live("make another one with protocol.decoder()")
class EventStreamDecoder(ABC):
    """A decoder of one reply from events; reports losses."""

    def __init__(self, builder: ReplyBuilder) -> None:
        self._chunks = ChunkReader()
        self._builder = builder
        self._reply: ParsedReply | None = None

    @abstractmethod
    def _take_payload(self, payload: Any) -> list[StreamEvent]:
        """Process one event."""

    @abstractmethod
    def _finish_reply(self) -> ParsedReply:
        """Return the reply, once all events were taken."""

    def feed(self, chunk: Any) -> list[StreamEvent]:
        """Take an event, a mapping, or the stream's next bytes or text."""
        return self._take_all(self._chunks.feed(chunk))

    def close(self) -> ParsedReply:
        if self._reply is None:
            self._take_all(self._chunks.close())
            self._take_all(({"type": END},))
            self._reply = self._finish_reply()
        return self._reply

    def _take_all(self, payloads: Iterable[Any]) -> list[StreamEvent]:
        told: list[StreamEvent] = []
        for payload in payloads:
            if self._chunks.problems:
                told += self._report_problems()
            try:
                told += self._take_payload(payload)
            except RecursionError:
                told += self._report_lost(
                    "a part of the reply nests too deep to be read: write it flatter"
                )
        return told + self._report_problems() if self._chunks.problems else told

    def _report_problems(self) -> list[StreamEvent]:
        problems, self._chunks.problems = self._chunks.problems, []
        return [event for problem in problems for event in self._report_lost(problem)]

    def _report_lost(self, problem: str) -> list[StreamEvent]:
        self._builder.spoil("a part of the reply could not be read")
        return self._report_fault(problem)

    def _report_fault(self, message: str) -> list[StreamEvent]:
        return [self._builder.find("malformed_reply", message, level="error")]
