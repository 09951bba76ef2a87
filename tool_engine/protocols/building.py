"""How do the parts of a reply become its calls, its text and its findings?

Every decoder tells a `ReplyBuilder` what it reads. The builder keeps what holds for all protocols:
ids are unique, names are the tools' own, arguments are read once and strictly, a call that was cut
is never complete, and every change is written down.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final

from tool_engine.model.call import ToolCall
from tool_engine.model.json.output import to_text
from tool_engine.model.reply import ParsedReply, ReplyFinding, StreamEvent, StreamEventType
from tool_engine.protocols.arguments.text import ReadArguments, read_arguments
from tool_engine.protocols.names import KnownTools
from tool_engine.protocols.reading import joined

__all__ = ["CallInProgress", "Ending", "Refine", "ReplyBuilder", "unknown_end"]


class Ending(Enum):
    """How a reply ended, as far as that tells whether its last call is whole."""

    FINISHED = "finished"
    """The model said all that it wanted to say."""
    CUT = "cut"
    """A limit cut it: the last call may be half of what was meant, however it looks."""
    UNKNOWN = "unknown"
    """Nobody said: a call is whole if its arguments are a closed object."""


class CallInProgress:
    """One call while it is being written."""

    def __init__(self, call_id: str) -> None:
        self.call_id = call_id
        self.wire_id: str | None = None
        """The id that the provider gave it; another call may have it, too."""
        self.is_repeated = False
        """Whether it is the same call as one before, sent again: it is no call of the reply."""
        self.echo: dict[str, Any] = {}
        """What the provider wants back with the result."""
        self.name: str | None = None
        """The tool's own name, once it is known."""
        self.parts: list[str] = []
        """The arguments as text, in pieces."""
        self.value: Mapping[str, Any] | None = None
        """The arguments, where the provider sends them as an object."""
        self.repairs: list[str] = []
        self.sent_names: dict[str, str] = {}
        """How the model called the arguments that were read under other names."""
        self.raw: str | None = None
        """What the model wrote, where that is more than the arguments."""
        self.error: str | None = None
        """Why it cannot be run, where the decoder knows."""
        self.error_type = "malformed_arguments"
        """What kind of finding that makes."""
        self.is_finished = False
        """Whether the provider said that the call is whole."""
        self.is_cut = False
        """Whether the decoder knows that the call is not whole; `error` says why."""
        self.is_started = False
        self.is_told = False
        """Whether there is a finding about why it cannot be run."""
        self.is_compared = False
        """Whether it was compared with the other calls of its id."""
        self.is_id_told = False
        """Whether there is a finding about its id, where another call had it before."""
        self.read: ReadArguments | None = None
        """What the arguments came to, once the end of the call was told."""
        self.is_end_told = False
        """Whether somebody may be running it by now."""

    @property
    def text(self) -> str:
        """The arguments as the model wrote them."""
        return joined("".join(self.parts))


Refine = Callable[[str, ReadArguments], ReadArguments]

_NO_NAME: Final = "the call has no tool name; write the name of a tool"
_CUT: Final = "the reply ended inside this call, so it was not run; write it again, shorter"
_REFUSED: Final = "the reply was refused before its end, so this call was not run"
_LATE: Final = "more arguments came for this call after its end, so it was not run; write it again"
_SILENT: Final = (
    "the reply ended without a word on why: its calls are taken as whole where their arguments are "
    "a closed JSON object"
)

_SILENT_TEXT: Final = (
    "the reply ended without a word on why, as when a connection is lost: it may be half of what "
    "was meant"
)


class ReplyBuilder:
    """Takes the parts of one reply in order, gives the stream events, and the reply in the end.

    Args:
        known: The tools, for their own names.
        repair: Whether finished but malformed arguments may be repaired.
        refine: Given a tool's own name and what was read of the arguments, gives what they mean.
    """

    def __init__(
        self, known: KnownTools, *, repair: bool = True, refine: Refine | None = None
    ) -> None:
        self._known = known
        self._repair = repair
        self._refine = refine
        self._ids: set[str] = set()
        self._repeats: dict[str, int] = {}
        """How often an id was given so far, where that is more than once."""
        self._namesakes: dict[str, deque[CallInProgress]] = {}
        """The id that the provider gave -> its calls that are not in `_known_calls` yet."""
        self._known_calls: dict[tuple[str, str | None, str], CallInProgress] = {}
        """Id, name and arguments -> the call, of those whose id another call has, too."""
        self.calls: list[CallInProgress] = []
        self.findings: list[ReplyFinding] = []
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self.refusal: list[str] = []
        self.stop_reason: str | None = None
        self.usage: dict[str, Any] = {}
        self.ending = Ending.UNKNOWN
        self.has_begun = False
        """Whether anything of the reply has come, be it the beginning of an empty block."""
        self._is_ended = False
        self._pending: list[CallInProgress] = []
        """Finished calls of which nobody was told yet: whether a limit cut the last call of a reply
        is known only by what comes after it."""
        self._last: CallInProgress | None = None
        """The call that is the last thing in the reply so far."""
        self._cut: CallInProgress | None = None
        """The call that a limit cut."""

    def add_text(self, text: str) -> list[StreamEvent]:
        """Text for the user."""
        if not text:
            return []
        self.text.append(text)
        told = self._tell_ends() if self._pending else []
        self._last = None
        told.append(StreamEvent(type=StreamEventType.CONTENT_CHUNK, content=text))
        return told

    def add_other(self) -> list[StreamEvent]:
        """Something begins that is neither text nor a call: what came before it is whole."""
        told = self._tell_ends()
        self._last = None
        return told

    def find(self, error_type: str, message: str, **fields: Any) -> StreamEvent:
        """Writes down a finding, and makes the event of it."""
        finding = ReplyFinding(error_type=error_type, message=to_text(message), **fields)
        self.findings.append(finding)
        return StreamEvent(
            type=StreamEventType.ERROR,
            error=finding,
            tool_call_id=finding.call_id,
            tool_call_name=finding.tool_name,
        )

    def begin(
        self, call_id: object, name: object = None
    ) -> tuple[CallInProgress, list[StreamEvent]]:
        """A call begins; without an id, or with one that is taken, it gets one of its place."""
        call_id = _as_id(call_id)
        events = self._tell_ends()
        call = self._last = CallInProgress(self._free_id(call_id))
        self.calls.append(call)
        self._note_id(call, call_id)
        return call, events + self.name(call, name)

    def identify(self, call: CallInProgress, call_id: object) -> None:
        """The id of a call comes late; one that was told of already keeps the one it got."""
        call_id = _as_id(call_id)
        if call.is_started or not isinstance(call_id, str):
            return
        self._note_id(call, call_id)
        if call_id not in self._ids:
            self._ids.discard(call.call_id)
            self._ids.add(call_id)
            call.call_id = call_id

    def name(self, call: CallInProgress, name: object) -> list[StreamEvent]:
        """The name of a call is known; the first one counts."""
        if call.name is not None or not isinstance(name, str) or not name:
            return []
        call.name = to_text(self._known.meant_name(name))
        call.is_started = True
        started = [self._event(StreamEventType.TOOL_CALL_START, call)]
        return started + [self._chunk(call, part) for part in call.parts]

    def add_arguments(self, call: CallInProgress, text: str) -> list[StreamEvent]:
        """The next part of a call's arguments; told once the call has a name."""
        if not text:
            return []
        call.parts.append(text)
        self._last = call
        if call.read is not None:
            if text.strip():
                self.refuse(call, _LATE)
            return []
        return [self._chunk(call, text)] if call.is_started else []

    def withdraw(self, call: CallInProgress) -> None:
        """What was begun turns out to be another call, or several: its events have no end."""
        self.calls.remove(call)
        self._ids.discard(call.call_id)
        self._last = None

    def refuse(self, call: CallInProgress, error: str) -> None:
        """The decoder knows why a call must not be run; the first reason counts."""
        call.error = call.error or error

    def spoil(self, why: str) -> None:
        """A part of the reply is lost: no call that was begun and not ended may be run."""
        for call in self.calls:
            if not call.is_finished and call.error is None:
                self.refuse(call, f"{why}, so this call was not run; write it again")
                call.error_type = "malformed_reply"

    def finish(self, call: CallInProgress) -> None:
        """The provider says that the call is whole; its end is told with what comes next."""
        if not call.is_finished:
            call.is_finished = True
            self._pending.append(call)

    def end(self, ending: Ending, stop_reason: str | None = None) -> list[StreamEvent]:
        """The provider says that, and why, the reply is over.

        A server may say so more than once: what was cut stays cut.
        """
        was_cut = self._is_ended and self.ending is Ending.CUT
        self._is_ended = True
        if was_cut:
            return []
        self.stop_reason = stop_reason or self.stop_reason
        self.ending = ending
        for call in self.calls:
            if ending is Ending.FINISHED or self._is_whole(call, ending):
                self.finish(call)
        if ending is not Ending.CUT:
            return self._tell_ends()
        cut = None if self._last is None or self._last.is_end_told else self._last
        self._cut = cut
        if cut in self._pending:
            self._pending.remove(cut)
        events = self._tell_ends()
        if cut is not None:
            if not cut.is_told:
                events.append(self._tell_fault(cut, "truncated", self._why_cut(cut)))
        else:
            reason = f" ({stop_reason})" if stop_reason else ""
            message = f"the reply was cut{reason}: it may be half of what was meant"
            events.append(self.find("truncated", message))
        return events

    def stop(self) -> list[StreamEvent]:
        """The stream is over; if nobody said that the reply is, that is told."""
        if self._is_ended or not (self.has_begun or self.calls or self.text or any(self.reasoning)):
            return []
        told = self.find("truncated", _SILENT if self.calls else _SILENT_TEXT)
        return [told, *self.end(Ending.UNKNOWN)]

    @property
    def is_ended(self) -> bool:
        """Whether it was said that the reply is over."""
        return self._is_ended

    def close(self, message: Any = None) -> ParsedReply:
        """The reply as it is, at its end; `message` is how it goes back into the conversation."""
        self.stop()
        built = [self._built(call) for call in self.calls]
        return ParsedReply(
            calls=[call for call in built if call is not None],
            text=joined("".join(self.text)),
            findings=list(self.findings),
            reasoning=to_text(joined("".join(self.reasoning))),
            refusal=to_text(joined("".join(self.refusal))) or None,
            stop_reason=self.stop_reason and to_text(self.stop_reason),
            usage=self.usage,
            message=message,
        )

    def _tell_ends(self) -> list[StreamEvent]:
        pending, self._pending = self._pending, []
        return [event for call in pending for event in self._told_end(call)]

    def _told_end(self, call: CallInProgress) -> list[StreamEvent]:
        read = call.read = self._read(call)
        told = self._tell_id(call, read)
        if call.is_repeated:
            return told
        kind, error = self._fault(call, read, is_cut=read.is_truncated or call.is_cut)
        if error is not None:
            return [*told, self._tell_fault(call, kind, error)]
        call.is_end_told = True
        return [
            *told,
            StreamEvent(
                type=StreamEventType.TOOL_CALL_END,
                tool_call_id=call.call_id,
                tool_call_name=call.name,
                tool_call_arguments_complete=_json(read.value),
            ),
        ]

    def _built(self, call: CallInProgress) -> ToolCall | None:
        """The call; None: it is another one that was sent again."""
        read = call.read = call.read or self._read(call)
        self._tell_id(call, read)
        if call.is_repeated:
            return None
        is_cut = read.is_truncated or self._is_cut(call, read)
        kind, error = self._fault(call, read, is_cut=is_cut)
        if error is not None and not call.is_told:
            self._tell_fault(call, kind, error)
        return ToolCall(
            call_id=call.call_id,
            tool_name=call.name or "",
            arguments=(read.value or {}) if error is None else {},
            raw=call.raw if call.raw is not None else call.text or _json(call.value),
            complete=not is_cut,
            repairs=(*call.repairs, *(read.repairs if error is None else ())),
            error=error,
            has_own_id=call.wire_id is None,
            echo=call.echo,
            sent_names=call.sent_names,
        )

    def _note_id(self, call: CallInProgress, wire_id: object) -> None:
        if isinstance(wire_id, str) and wire_id:
            call.wire_id = wire_id
            self._namesakes.setdefault(wire_id, deque()).append(call)

    def _tell_id(self, call: CallInProgress, read: ReadArguments) -> list[StreamEvent]:
        """Tells of an id that stands twice, once: for one call that was sent again, or for two.

        To run a call twice that was meant once is the dear mistake; under one id, with one name
        and the same arguments, it can only be one.
        """
        if call.wire_id in (None, call.call_id) or call.is_id_told:
            return []
        call.is_id_told = True
        other = self._sent_before(call, call.wire_id or "")
        if other is not None:
            call.is_repeated = True
            message = f"the call {other.call_id!r} was sent twice: it is run once"
            return [self.find("repeated_id", message, call_id=other.call_id)]
        message = (
            f"the id {call.wire_id!r} stands for two calls: the second is {call.call_id!r} here"
        )
        return [self.find("repeated_id", message, call_id=call.call_id)]

    def _sent_before(self, call: CallInProgress, wire_id: str) -> CallInProgress | None:
        """The same call as it was sent before. Each call is looked at once."""
        waiting = self._namesakes[wire_id]
        while not call.is_compared:
            each = waiting.popleft()
            each.is_compared = True
            written = None if each is self._cut else _written(each.read or self._read(each))
            if written is None:
                continue
            known = self._known_calls.setdefault((wire_id, each.name, written), each)
            if each is call and known is not call:
                return known
        return None

    def _tell_fault(self, call: CallInProgress, kind: str, error: str) -> StreamEvent:
        call.is_told = True
        return self.find(kind, error, level="error", call_id=call.call_id, tool_name=call.name)

    def _is_cut(self, call: CallInProgress, read: ReadArguments) -> bool:
        if call.is_cut:
            return True
        if self.ending is Ending.CUT:
            return call is self._cut or not call.is_finished
        # Where nobody said that the reply is over, only a closed object shows that it is whole.
        is_silent = self.ending is Ending.UNKNOWN and not call.is_finished
        return is_silent and not self._is_closed(call, read)

    def _is_whole(self, call: CallInProgress, ending: Ending) -> bool:
        """Whether a call that the provider has not ended is whole in spite of how the reply did."""
        if ending is Ending.CUT:
            return call is not self._last
        return ending is Ending.UNKNOWN and self._is_closed(call, self._read(call))

    def _is_closed(self, call: CallInProgress, read: ReadArguments) -> bool:
        if read.value is None:
            return False
        if call.value is None and not call.text.strip():
            # Nothing was written yet: that is all there can be only where there are no parameters.
            tool = self._known.get(call.name or "")
            return tool is not None and not tool.parameters
        return not read.repairs or not self._plainly(call).repairs

    def _fault(
        self, call: CallInProgress, read: ReadArguments, *, is_cut: bool
    ) -> tuple[str, str | None]:
        if is_cut:
            return "truncated", self._why_cut(call)
        if call.name is None:
            return "missing_name", _NO_NAME
        return call.error_type, call.error or read.error

    def _why_cut(self, call: CallInProgress) -> str:
        if call.is_cut and call.error:
            return call.error
        # To write it again is no cure where a filter stopped it.
        is_refused = any(each.error_type == "refusal" for each in self.findings)
        return _REFUSED if is_refused else _CUT

    def _read(self, call: CallInProgress) -> ReadArguments:
        read = self._plainly(call)
        if self._refine is None or read.value is None or call.name is None:
            return read
        return self._refine(call.name, read)

    def _plainly(self, call: CallInProgress) -> ReadArguments:
        if call.value is not None:
            return ReadArguments(dict(call.value))
        return read_arguments(call.text, repair=self._repair)

    def _free_id(self, wanted: object) -> str:
        base = wanted if isinstance(wanted, str) and wanted else f"call_{len(self.calls) + 1}"
        free = base
        while free in self._ids:
            number = self._repeats[base] = self._repeats.get(base, 1) + 1
            free = f"{base}_{number}"
        self._ids.add(free)
        return free

    def _chunk(self, call: CallInProgress, text: str) -> StreamEvent:
        return StreamEvent(
            type=StreamEventType.TOOL_CALL_CHUNK,
            tool_call_id=call.call_id,
            tool_call_name=call.name,
            tool_call_arguments_chunk=text,
        )

    def _event(self, kind: StreamEventType, call: CallInProgress) -> StreamEvent:
        return StreamEvent(type=kind, tool_call_id=call.call_id, tool_call_name=call.name)


def unknown_end(reason: object) -> str:
    """What is said of a reply that ended for a reason that is in no documentation we know."""
    return (
        f"the reply ended for a reason that is not known ({reason!s:.80}): its calls are taken as "
        "whole where their arguments are a closed JSON object"
    )


def _written(read: ReadArguments) -> str | None:
    """One text for the same arguments, in whatever order of keys; None: they are not whole."""
    if read.value is None or read.is_truncated:
        return None
    try:
        return json.dumps(read.value, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return None


def _as_id(value: object) -> object:
    """An id that can be sent back; with half of a surrogate pair in it there is none."""
    return value if isinstance(value, str) and to_text(value) == value else None


def _json(value: Any) -> str:
    if value is None:
        return ""
    try:
        return to_text(json.dumps(value, ensure_ascii=False, default=str))
    except (TypeError, ValueError, RecursionError):
        # A mapping that was made in code may hold anything.
        return to_text(value)
