"""How do parts of a reply become calls, text and findings; which was cut, or sent twice?

Every decoder passes what it reads to a `ReplyBuilder`, which keeps the rules of all protocols: ids
are unique, names are the tools' own, arguments are read once and strictly, a call that was cut is
never complete, and every change is noted.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final

from tool_engine.model.call import ToolCall
from tool_engine.model.json.returned_value import safe_repr, to_text
from tool_engine.model.reply import ParsedReply, ReplyFinding, StreamEvent, StreamEventType
from tool_engine.protocols.arguments.argument_text import ReadArguments, read_arguments
from tool_engine.protocols.chunks import join_surrogates
from tool_engine.protocols.tool_names import KnownTools


class Ending(Enum):
    FINISHED = "finished"
    """The model ended the reply by itself."""
    CUT = "cut"
    """A limit cut it: the last call may be incomplete, however it looks."""
    UNKNOWN = "unknown"
    """The provider gave no reason: a call with a closed object is whole."""


class CallInProgress:
    def __init__(self, call_id: str) -> None:
        self.call_id = call_id
        self.wire_id: str | None = None
        """The provider's id; another call may have it, too."""
        self.is_repeated = False
        """True if it repeats an earlier call, and so is none itself."""
        self.echo: dict[str, Any] = {}
        """Fields that the provider wants back with the result."""
        self.name: str | None = None
        self.parts: list[str] = []
        self.value: Mapping[str, Any] | None = None
        self.repairs: list[str] = []
        self.sent_names: dict[str, str] = {}
        """Parameter name -> the name that the model wrote instead."""
        self.raw: str | None = None
        """The model's text of the call, where it is more than the arguments."""
        self.error: str | None = None
        self.error_type = "malformed_arguments"
        self.is_finished = False
        self.is_cut = False
        """True if the decoder knows that the call is incomplete; `error` says why."""
        self.is_started = False
        self.is_fault_reported = False
        """True once a finding says why the call cannot run."""
        self.is_compared = False
        self.is_id_reported = False
        """True once a finding reports that its id was used before."""
        self.read: ReadArguments | None = None
        """The arguments as read, once the end of the call was reported."""
        self.is_end_reported = False
        """True once its end was reported: a listener may be running it by now."""

    @property
    def text(self) -> str:
        return join_surrogates("".join(self.parts))


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
    """The collector of one reply's parts: returns stream events, then the reply.

    Args:
        known: The tools.
        repair: Whether malformed arguments may be repaired.
        refine: Takes a tool's own name and the arguments as read, and returns what they mean.
        ids: The ids that the provider takes back, where it says so; None: those that it has sent.
            Others stay: servers keep data in them, such as a model's signed thoughts.
    """

    def __init__(
        self,
        known: KnownTools,
        *,
        repair: bool = True,
        refine: Refine | None = None,
        ids: re.Pattern[str] | None = None,
    ) -> None:
        self._known = known
        self._repair = repair
        self._refine = refine
        self._id_form = ids
        self._ids: set[str] = set()
        self._repeats: dict[str, int] = {}
        self._namesakes: dict[str, deque[CallInProgress]] = {}
        self._known_calls: dict[tuple[str, str | None, str], CallInProgress] = {}
        """(id, name, arguments) -> the call, for ids that several calls have."""
        self.calls: list[CallInProgress] = []
        self.findings: list[ReplyFinding] = []
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self.refusal: list[str] = []
        self.stop_reason: str | None = None
        self.usage: dict[str, Any] = {}
        self.ending = Ending.UNKNOWN
        self.has_begun = False
        self._is_ended = False
        self._pending: list[CallInProgress] = []
        """Finished calls whose end is not reported yet: only what follows shows whether a limit cut
        the last call of a reply.
        """
        self._last: CallInProgress | None = None
        """The call at the very end of the reply so far."""
        self._cut: CallInProgress | None = None

    def add_text(self, text: str) -> list[StreamEvent]:
        if not text:
            return []
        self.text.append(text)
        events = self._report_ends() if self._pending else []
        self._last = None
        events.append(StreamEvent(type=StreamEventType.CONTENT_CHUNK, content=text))
        return events

    def add_other(self) -> list[StreamEvent]:
        """Note that something else begins: what came before it is whole."""
        events = self._report_ends()
        self._last = None
        return events

    def add_finding(self, error_type: str, message: str, **fields: Any) -> StreamEvent:
        finding = ReplyFinding(error_type=error_type, message=to_text(message), **fields)
        self.findings.append(finding)
        return StreamEvent(
            type=StreamEventType.ERROR,
            error=finding,
            tool_call_id=finding.call_id,
            tool_call_name=finding.tool_name,
        )

    def report_malformed(self, message: str) -> list[StreamEvent]:
        """Report an error of the reply, and of no single call."""
        return [self.add_finding("malformed_reply", message, level="error")]

    def report_lost(self, message: str, *part: Any) -> list[StreamEvent]:
        """Report an unreadable part, for which no unfinished call is run."""
        self.spoil("a part of the reply could not be read")
        return self.report_malformed(": ".join((message, *(safe_repr(each)[:80] for each in part))))

    def begin(
        self, call_id: object, name: object = None
    ) -> tuple[CallInProgress, list[StreamEvent]]:
        """Begin a call; an id that is missing, repeated or never taken back is replaced."""
        call_id = _check_id(call_id)
        events = self._report_ends()
        wanted = call_id if self._is_taken_back(call_id) else None
        call = self._last = CallInProgress(self._free_id(wanted))
        self.calls.append(call)
        self._note_id(call, call_id)
        return call, events + self.name(call, name)

    def identify(self, call: CallInProgress, call_id: object) -> None:
        """Set an id that comes late, unless the call was reported already."""
        call_id = _check_id(call_id)
        if call.is_started or not isinstance(call_id, str):
            return
        self._note_id(call, call_id)
        if call_id not in self._ids and self._is_taken_back(call_id):
            self._ids.discard(call.call_id)
            self._ids.add(call_id)
            call.call_id = call_id

    def name(self, call: CallInProgress, name: object) -> list[StreamEvent]:
        """Set the name of a call; the first one counts."""
        if call.name is not None or not isinstance(name, str) or not name:
            return []
        call.name = to_text(self._known.meant_name(name))
        call.is_started = True
        started = [self._make_event(StreamEventType.TOOL_CALL_START, call)]
        return started + [self._make_chunk(call, part) for part in call.parts]

    def add_arguments(self, call: CallInProgress, text: str) -> list[StreamEvent]:
        if not text:
            return []
        call.parts.append(text)
        self._last = call
        if call.read is not None:
            if text.strip():
                self.refuse(call, _LATE)
            return []
        return [self._make_chunk(call, text)] if call.is_started else []

    def withdraw(self, call: CallInProgress) -> None:
        """Drop a call that proves to be another, without ending its events."""
        self.calls.remove(call)
        self._ids.discard(call.call_id)
        self._last = None

    def refuse(self, call: CallInProgress, error: str) -> None:
        """Note why a call must not run; the first reason counts."""
        call.error = call.error or error

    def spoil(self, why: str) -> None:
        for call in self.calls:
            if not call.is_finished and call.error is None:
                self.refuse(call, f"{why}, so this call was not run; write it again")
                call.error_type = "malformed_reply"

    def finish(self, call: CallInProgress) -> None:
        """Note that the call is whole; what comes next reports its end."""
        if not call.is_finished:
            call.is_finished = True
            self._pending.append(call)

    def end(self, ending: Ending, stop_reason: str | None = None) -> list[StreamEvent]:
        """Note that, and why, the provider ended the reply.

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
            return self._report_ends()
        cut = None if self._last is None or self._last.is_end_reported else self._last
        self._cut = cut
        if cut in self._pending:
            self._pending.remove(cut)
        events = self._report_ends()
        if cut is not None:
            if not cut.is_fault_reported:
                events.append(self._report_fault(cut, "truncated", self._explain_cut(cut)))
        else:
            reason = f" ({stop_reason})" if stop_reason else ""
            message = f"the reply was cut{reason}: it may be half of what was meant"
            events.append(self.add_finding("truncated", message))
        return events

    def stop(self) -> list[StreamEvent]:
        """Return the stream's final events; report a reply that was never ended."""
        if self._is_ended or not (self.has_begun or self.calls or self.text or any(self.reasoning)):
            return []
        finding = self.add_finding("truncated", _SILENT if self.calls else _SILENT_TEXT)
        return [finding, *self.end(Ending.UNKNOWN)]

    @property
    def is_ended(self) -> bool:
        return self._is_ended

    def close(self, message: Any = None) -> ParsedReply:
        self.stop()
        built = [self._build_call(call) for call in self.calls]
        return ParsedReply(
            calls=[call for call in built if call is not None],
            text=join_surrogates("".join(self.text)),
            findings=list(self.findings),
            reasoning=to_text(join_surrogates("".join(self.reasoning))),
            refusal=to_text(join_surrogates("".join(self.refusal))) or None,
            stop_reason=self.stop_reason and to_text(self.stop_reason),
            usage=self.usage,
            message=message,
        )

    def _report_ends(self) -> list[StreamEvent]:
        pending, self._pending = self._pending, []
        return [event for call in pending for event in self._report_end(call)]

    def _report_end(self, call: CallInProgress) -> list[StreamEvent]:
        read = call.read = self._read_arguments(call)
        events = self._report_id(call)
        if call.is_repeated:
            return events
        kind, error = self._find_fault(call, read, is_cut=read.is_truncated or call.is_cut)
        if error is not None:
            return [*events, self._report_fault(call, kind, error)]
        call.is_end_reported = True
        return [
            *events,
            StreamEvent(
                type=StreamEventType.TOOL_CALL_END,
                tool_call_id=call.call_id,
                tool_call_name=call.name,
                tool_call_arguments_complete=_write_json(read.value),
            ),
        ]

    def _build_call(self, call: CallInProgress) -> ToolCall | None:
        read = call.read = call.read or self._read_arguments(call)
        self._report_id(call)
        if call.is_repeated:
            return None
        is_cut = read.is_truncated or self._is_cut(call, read)
        kind, error = self._find_fault(call, read, is_cut=is_cut)
        if error is not None and not call.is_fault_reported:
            self._report_fault(call, kind, error)
        return ToolCall(
            call_id=call.call_id,
            tool_name=call.name or "",
            arguments=(read.value or {}) if error is None else {},
            raw=call.raw if call.raw is not None else call.text or _write_json(call.value),
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
            # Of one that is replaced for its form, only another call under it is a finding.
            is_first = wire_id not in self._namesakes
            call.is_id_reported = is_first and not self._is_taken_back(wire_id)
            self._namesakes.setdefault(wire_id, deque()).append(call)

    def _is_taken_back(self, wire_id: object) -> bool:
        if self._id_form is None:
            return True
        return isinstance(wire_id, str) and self._id_form.fullmatch(wire_id) is not None

    def _report_id(self, call: CallInProgress) -> list[StreamEvent]:
        """Report a repeated id once: a call sent again, or two calls.

        Running twice a call that was meant once is the costly mistake; under one id, with one name
        and the same arguments, it can only be one.
        """
        if call.wire_id in (None, call.call_id) or call.is_id_reported:
            return []
        call.is_id_reported = True
        other = self._find_sent_before(call, call.wire_id or "")
        if other is not None:
            call.is_repeated = True
            message = f"the call {other.call_id!r} was sent twice: it is run once"
            return [self.add_finding("repeated_id", message, call_id=other.call_id)]
        message = (
            f"the id {call.wire_id!r} stands for two calls: the second is {call.call_id!r} here"
        )
        return [self.add_finding("repeated_id", message, call_id=call.call_id)]

    def _find_sent_before(self, call: CallInProgress, wire_id: str) -> CallInProgress | None:
        """Return the earlier copy of a call, comparing each call once."""
        waiting = self._namesakes[wire_id]
        while not call.is_compared:
            each = waiting.popleft()
            each.is_compared = True
            written = (
                None
                if each is self._cut
                else _write_sorted(each.read or self._read_arguments(each))
            )
            if written is None:
                continue
            known = self._known_calls.setdefault((wire_id, each.name, written), each)
            if each is call and known is not call:
                return known
        return None

    def _report_fault(self, call: CallInProgress, kind: str, error: str) -> StreamEvent:
        call.is_fault_reported = True
        return self.add_finding(
            kind, error, level="error", call_id=call.call_id, tool_name=call.name
        )

    def _is_cut(self, call: CallInProgress, read: ReadArguments) -> bool:
        if call.is_cut:
            return True
        if self.ending is Ending.CUT:
            return call is self._cut or not call.is_finished
        # Where the reply has no stated end, only a closed object shows that the call is whole.
        is_silent = self.ending is Ending.UNKNOWN and not call.is_finished
        return is_silent and not self._is_closed(call, read)

    def _is_whole(self, call: CallInProgress, ending: Ending) -> bool:
        """Decide whether a call without an end of its own is whole."""
        if ending is Ending.CUT:
            return call is not self._last
        return ending is Ending.UNKNOWN and self._is_closed(call, self._read_arguments(call))

    def _is_closed(self, call: CallInProgress, read: ReadArguments) -> bool:
        if read.value is None:
            return False
        if call.value is None and not call.text.strip():
            # No arguments came: that is complete only for a tool without parameters.
            tool = self._known.get(call.name or "")
            return tool is not None and not tool.parameters
        return not read.repairs or not self._read_plainly(call).repairs

    def _find_fault(
        self, call: CallInProgress, read: ReadArguments, *, is_cut: bool
    ) -> tuple[str, str | None]:
        if is_cut:
            return "truncated", self._explain_cut(call)
        if call.name is None:
            return "missing_name", _NO_NAME
        return call.error_type, call.error or read.error

    def _explain_cut(self, call: CallInProgress) -> str:
        if call.is_cut and call.error:
            return call.error
        # Writing it again does not help where a filter stopped it.
        is_refused = any(each.error_type == "refusal" for each in self.findings)
        return _REFUSED if is_refused else _CUT

    def _read_arguments(self, call: CallInProgress) -> ReadArguments:
        read = self._read_plainly(call)
        if self._refine is None or read.value is None or call.name is None:
            return read
        return self._refine(call.name, read)

    def _read_plainly(self, call: CallInProgress) -> ReadArguments:
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

    def _make_chunk(self, call: CallInProgress, text: str) -> StreamEvent:
        return StreamEvent(
            type=StreamEventType.TOOL_CALL_CHUNK,
            tool_call_id=call.call_id,
            tool_call_name=call.name,
            tool_call_arguments_chunk=text,
        )

    def _make_event(self, kind: StreamEventType, call: CallInProgress) -> StreamEvent:
        return StreamEvent(type=kind, tool_call_id=call.call_id, tool_call_name=call.name)


def describe_unknown_end(reason: object) -> str:
    return (
        f"the reply ended for a reason that is not known ({reason!s:.80}): its calls are taken as "
        "whole where their arguments are a closed JSON object"
    )


def _write_sorted(read: ReadArguments) -> str | None:
    if read.value is None or read.is_truncated:
        return None
    try:
        return json.dumps(read.value, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return None


def _check_id(value: object) -> object:
    """Return a sendable id, or nothing for one with a lone surrogate."""
    return value if isinstance(value, str) and to_text(value) == value else None


def _write_json(value: Any) -> str:
    if value is None:
        return ""
    try:
        return to_text(json.dumps(value, ensure_ascii=False, default=str))
    except (TypeError, ValueError, RecursionError):
        # A mapping made in code may hold anything.
        return to_text(value)
