"""Which calls were made, when did they ask for a slot, and for how long did they run?

A trace is a file of JSON lines, one call each. It comes from an engine's records, from
`tool-engine batch --trace`, or from anywhere else:

    {"call_id": "c1", "tool_name": "search", "bucket": "http", "priority": 5, "weight": 1,
     "key": "alice", "enqueued_at": 0.0, "started_at": 0.2, "ended_at": 1.7}

Times are seconds, from any origin, or dates in ISO 8601 with a time zone. `started_at` is null for
a call that never had a slot. A line may also be what `ToolCallRecord.to_dict()` returns.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Final

import msgspec

from tool_engine.errors import AdmissionError, ConfigurationError, ToolEngineError
from tool_engine.model.record import ToolCallRecord
from tool_engine.model.settings.concurrency import DEFAULT_PRIORITY
from tool_engine.named_file import read_named, why_unread, write_named

_DIGITS: Final = 6
"""Decimals of a second that are kept; a date as a number has no more."""
_REFUSALS: Final = frozenset(
    {kind.error_type for kind in AdmissionError.__subclasses__()} | {"cancelled"}
)
"""Error types of calls that asked for a slot and never had one."""
_REFUSED: Final = re.compile(r" answered (?:429|503)\b")
"""In the error of a call whose service had no room; a record does not keep the number itself."""
_EXAMPLE: Final = (
    '{"call_id": "c1", "tool_name": "search", "bucket": "http", "enqueued_at": 0.0, '
    '"started_at": 0.2, "ended_at": 1.7}'
)


class TraceError(ToolEngineError, ValueError):
    """A trace cannot be read; the message names place and cure."""

    error_type = "trace_error"

    def __init__(self, message: str, file: str, line: int | None = None) -> None:
        place = file if line is None else f"{file}:{line}"
        super().__init__(f"{place}: {message}")
        self.file: str = file
        self.line: int | None = line
        """1-based; None where the file as a whole is wrong."""


class TraceCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call: its needs, and when it asked, started and ended."""

    call_id: str
    tool_name: str
    enqueued_at: float
    """When it asked for a slot, in seconds."""
    started_at: float | None
    """When it had one; None: never."""
    ended_at: float
    """When it gave the slot back, or was refused."""
    bucket: str | None = None
    priority: int = DEFAULT_PRIORITY
    weight: int = 1
    key: str | None = None
    """What it had in common with other calls, such as the conversation."""
    error_type: str | None = None
    caller_type: str | None = None
    """Decides whether the limits applied to it at all."""
    parent_call_id: str | None = None
    was_refused: bool = False
    """Whether it ran, and the service behind it had no room: an answer 429 or 503."""

    def __post_init__(self) -> None:
        if self.weight < 1:
            raise ConfigurationError(f"weight must be at least 1, got {self.weight}")
        times = (self.enqueued_at, self.started_at, self.ended_at)
        known = [time for time in times if time is not None]
        # On a clock that is moved to what is no time, a simulation would never end.
        if not all(map(math.isfinite, known)) or known != sorted(known):
            raise ConfigurationError(
                "a call asks (enqueued_at), then starts, then ends, but its times are "
                + ", ".join("never" if time is None else f"{time:g}" for time in times)
            )

    @property
    def wait(self) -> float:
        """Seconds between asking for a slot and having it, or being refused."""
        until = self.ended_at if self.started_at is None else self.started_at
        return round(until - self.enqueued_at, _DIGITS)

    @property
    def service(self) -> float | None:
        """Seconds that it ran; None if it never did."""
        return None if self.started_at is None else round(self.ended_at - self.started_at, _DIGITS)

    @classmethod
    def from_record(cls, record: ToolCallRecord) -> TraceCall | None:
        """Return a record's call; None if it never asked for a slot."""
        kept = msgspec.structs.asdict(record)
        fields = {name: kept[name] for name in _RecordLine.__struct_fields__ if name in kept}
        return _RecordLine(**fields).to_call()


class _CallLine(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One line of a trace as it is written."""

    call_id: str
    tool_name: str
    enqueued_at: float | str
    started_at: float | str | None
    ended_at: float | str
    bucket: str | None = None
    priority: int = DEFAULT_PRIORITY
    weight: int = 1
    key: str | None = None
    error_type: str | None = None
    caller_type: str | None = None
    parent_call_id: str | None = None
    was_refused: bool = False

    def to_call(self) -> TraceCall:
        fields = msgspec.structs.asdict(self)
        started = self.started_at
        fields["enqueued_at"] = _read_seconds("enqueued_at", self.enqueued_at)
        fields["started_at"] = None if started is None else _read_seconds("started_at", started)
        fields["ended_at"] = _read_seconds("ended_at", self.ended_at)
        return TraceCall(**fields)


class _RecordLine(msgspec.Struct, kw_only=True):
    """The fields of a record that a trace uses."""

    tool_name: str
    created_at: datetime
    execution_time: float
    call_id: str | None = None
    bucket: str | None = None
    queue_wait: float = 0.0
    reached_executor: bool = True
    priority: int = DEFAULT_PRIORITY
    weight: int = 1
    key: str | None = None
    error_type: str | None = None
    caller_type: str | None = None
    parent_call_id: str | None = None
    error: str | None = None

    def to_call(self) -> TraceCall | None:
        """Return the call; None if it never asked for a slot."""
        ran = self.reached_executor
        if not ran and (self.bucket is None or self.error_type not in _REFUSALS):
            return None
        if self.created_at.utcoffset() is None:
            raise ValueError(f"created_at names no time zone; write {self.created_at}+00:00")
        ended = round(self.created_at.timestamp(), _DIGITS)
        started = round(ended - self.execution_time, _DIGITS)
        return TraceCall(
            call_id=self.call_id or "",
            tool_name=self.tool_name,
            enqueued_at=round(started - self.queue_wait, _DIGITS),
            started_at=started if ran else None,
            ended_at=ended,
            bucket=self.bucket,
            priority=self.priority,
            weight=self.weight,
            key=self.key,
            error_type=self.error_type,
            caller_type=self.caller_type,
            parent_call_id=self.parent_call_id,
            was_refused=ran and _REFUSED.search(self.error or "") is not None,
        )


class Trace(msgspec.Struct, frozen=True):
    """Recorded calls, in the order in which they asked for a slot."""

    calls: tuple[TraceCall, ...]
    left_out: int = 0
    """Calls that never asked for a slot, such as those with wrong arguments."""

    @classmethod
    def of(cls, calls: Iterable[TraceCall | ToolCallRecord]) -> Trace:
        """Return the trace of calls or records, in any order.

        Example:
            `Trace.of(await engine.query_call_records())`
        """
        found = list(calls)
        # Records come newest first; those of one time are ordered by their serial number.
        if all(isinstance(call, ToolCallRecord) for call in found):
            found.reverse()
        made = [
            TraceCall.from_record(call) if isinstance(call, ToolCallRecord) else call
            for call in found
        ]
        return _trace_of(made)


def read_trace(path: str | Path) -> Trace:
    """Return the calls of a trace file.

    Raises:
        TraceError: The file cannot be read, holds no calls, or a line of it is no call.
    """
    try:
        data = read_named(path)
    except OSError as error:
        raise TraceError(f"cannot be read: {why_unread(error)}", str(path)) from error
    return parse_trace(BytesIO(data), str(path))


def parse_trace(lines: Iterable[bytes], source: str) -> Trace:
    """Return the calls of the lines of a trace.

    Args:
        lines: JSON, one call each; blank lines are passed over.
        source: The name of the lines' origin, for messages.

    Raises:
        TraceError: A line is no call, or there is none.
    """
    trace = _trace_of(list(_parse_lines(lines, source)))
    if not trace.calls:
        more = f" ({trace.left_out} that never asked for a slot)" if trace.left_out else ""
        raise TraceError(
            f"holds no calls{more}; record some with `tool-engine batch FILE --trace OUT.jsonl`, "
            f"or write one per line: {_EXAMPLE}",
            source,
        )
    return trace


def write_trace(path: str | Path, calls: Trace | Iterable[TraceCall | ToolCallRecord]) -> int:
    """Write calls or records as a trace file; return how many.

    Those that never asked for a slot are left out, and so are arguments and results.

    Example:
        `write_trace("calls.jsonl", await engine.query_call_records())`
    """
    trace = calls if isinstance(calls, Trace) else Trace.of(calls)
    encoder = msgspec.json.Encoder()
    write_named(path, b"".join(encoder.encode(call) + b"\n" for call in trace.calls))
    return len(trace.calls)


def _trace_of(made: list[TraceCall | None]) -> Trace:
    calls = [call for call in made if call is not None]
    calls.sort(key=lambda call: call.enqueued_at)
    return Trace(tuple(calls), len(made) - len(calls))


def _parse_lines(lines: Iterable[bytes], source: str) -> Iterator[TraceCall | None]:
    as_call = msgspec.json.Decoder(_CallLine)
    as_record = msgspec.json.Decoder(_RecordLine)
    is_dated: bool | None = None
    for number, line in enumerate(lines, 1):
        text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        if not text.strip():
            continue
        try:
            read = _decode_line(text, as_call, as_record)
            call = read.to_call()
        except ValueError as error:
            raise TraceError(f"no call: {error}; write {_EXAMPLE}", source, number) from error
        is_date = isinstance(read, _RecordLine) or isinstance(read.enqueued_at, str)
        if is_dated is not None and is_dated != is_date:
            raise TraceError(
                "has dates where the lines before have seconds, or the other way round, so that "
                "it is not known how far apart they are; write all times in one form",
                source,
                number,
            )
        is_dated = is_date
        yield call


def _decode_line(
    line: bytes,
    as_call: msgspec.json.Decoder[_CallLine],
    as_record: msgspec.json.Decoder[_RecordLine],
) -> _CallLine | _RecordLine:
    try:
        return as_call.decode(line)
    except msgspec.ValidationError:
        if b'"created_at"' not in line:
            raise
    return as_record.decode(line)


def _read_seconds(name: str, value: float | str) -> float:
    if not isinstance(value, str):
        return round(value, _DIGITS)
    date = datetime.fromisoformat(value)
    if date.utcoffset() is None:
        raise ValueError(f"{name} names no time zone; write {value}Z or {value}+02:00")
    return round(date.timestamp(), _DIGITS)
