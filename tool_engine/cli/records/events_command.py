"""What happens in engines of other processes, as it happens?

Read from the events that they keep (`keep_events`). Without kept events, the records at least show
how each call ended.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Annotated, Any, Final

import msgspec
import typer

from tool_engine.cli.console import as_text, make_console, print_json_line
from tool_engine.cli.failures import EXIT_OK, CommandError
from tool_engine.cli.options import RecordsOption, ToolsOption, settings_of
from tool_engine.cli.records.filters import (
    CallerOption,
    ConversationOption,
    FailedOption,
    FollowOption,
    LimitOption,
    LineJSONOption,
    ProcessOption,
    RecordFilters,
    SinceOption,
    ToolOption,
)
from tool_engine.cli.records.following import Pace, Patience, print_each, record_looks
from tool_engine.cli.records.record_line import local_time
from tool_engine.cli.records.recording import (
    name_processes,
    newest_records,
    open_events,
    open_records,
)
from tool_engine.cli.settings import Settings
from tool_engine.cli.signals import run_async
from tool_engine.cli.tables import OUTCOME_STYLES, event_text
from tool_engine.events.event_filter import WantedEvents
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType
from tool_engine.model.record import RecordQuery, ToolCallRecord

_FINAL: Final = {
    "validation_error": ToolEngineEventType.VALIDATION_ERROR,
    "cancelled": ToolEngineEventType.EXECUTION_CANCELLED,
}
_INTERVAL: Final = 0.1
"""Seconds between two looks for new events."""
_PAGE: Final = 100
_NOTE: Final = (
    "no engine keeps its events there, see keep_events; told from the records of calls: the final "
    "event of each\n"
)
_KEPT_NOW: Final = "an engine keeps its events there now: all of them are told from here on\n"


class EventFilters(msgspec.Struct, frozen=True):
    calls: RecordFilters
    """Of these calls; other events have none of these."""
    types: tuple[str, ...] = ()
    """Of these types; none: all."""
    call_id: str | None = None
    after: int | None = None
    """Those that follow this number; None: the newest."""
    limit: int = 20
    """How many of the newest."""

    def query(self) -> RecordQuery:
        query = self.calls.query(self.limit)
        return msgspec.structs.replace(query, call_id=self.call_id)

    def wanted(self) -> WantedEvents:
        return WantedEvents.of(
            self.types or None, self.calls.tool, self.call_id, self.calls.conversation
        )


class _Choice:
    def __init__(self, filters: EventFilters) -> None:
        self.filters = filters
        self.query = filters.query()
        start = self.query.start
        self.since = 0.0 if start is None else start.timestamp()
        self._wanted = filters.wanted()

    def has(self, event: ToolEngineEvent) -> bool:
        calls = self.filters.calls
        if calls.is_failed and event.error is None:
            return False
        if calls.process is not None and event.process != calls.process:
            return False
        if calls.caller is not None and event.data.get("caller_id") != calls.caller:
            return False
        return event.timestamp.timestamp() >= self.since and self._wanted.has(event)


def run_command(
    ctx: typer.Context,
    *,
    tool: ToolOption = None,
    failed: FailedOption = False,
    caller: CallerOption = None,
    conversation: ConversationOption = None,
    process: ProcessOption = None,
    call: Annotated[
        str | None, typer.Option("--call", metavar="CALL_ID", help="Only of this call.")
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="TYPE", help="Only of this type; once for each."),
    ] = None,
    since: SinceOption = None,
    limit: LimitOption = 20,
    after: Annotated[
        int | None,
        typer.Option("--after", min=0, metavar="NUMBER", help="All that follow this number."),
    ] = None,
    follow: FollowOption = False,
    as_json: LineJSONOption = False,
    tools: ToolsOption = None,
    records: RecordsOption = None,
) -> int:
    """Show what happened in engines of other processes: the events that they keep there.

    Example: tool-engine events --follow --json
    """
    calls = RecordFilters(tool, failed, None, caller, conversation, since, process=process)
    filters = EventFilters(calls, tuple(types or ()), call, after, limit)
    return print_events(settings_of(ctx, tools, records), filters, follow=follow, as_json=as_json)


def print_events(settings: Settings, filters: EventFilters, *, follow: bool, as_json: bool) -> int:
    shown_events = follow_events(settings, filters, follow=follow, is_quiet=as_json)
    show = _print_json if as_json else partial(_print_line, name_process=name_processes(settings))
    return (
        print_each(shown_events, show) if follow else run_async(_print_events(shown_events, show))
    )


async def _print_events(shown_events: AsyncGenerator[ToolEngineEvent, None], show: Any) -> int:
    async with contextlib.aclosing(shown_events):
        async for event in shown_events:
            show(event)
    return EXIT_OK


async def follow_events(
    settings: Settings, filters: EventFilters, *, follow: bool, is_quiet: bool
) -> AsyncGenerator[ToolEngineEvent, None]:
    """Yield the wanted events, from kept events or else from records.

    With `follow` it goes on without end. Unless `is_quiet`, stderr says where the events come from.

    Raises:
        CommandError: There are no records, or no numbers to go on from.
        ConfigurationError: A filter cannot match, or there is no event of that number.
        EventsExpiredError: Some of the events are not kept any more.
        RecordsUnavailableError: The database does not answer.
    """
    choice = _Choice(filters)
    async with open_records(settings, may_be_missing=not follow):
        pass  # says what is wrong with the database, if something is
    async with open_events(settings) as log:
        is_kept = await log.is_kept()
        if not is_kept:
            if choice.filters.after is not None:
                raise CommandError(
                    "no engine keeps its events there, so they have no numbers: leave out --after, "
                    "or set keep_events of the engine's ToolEngineConfig",
                    error_type="no_events",
                )
            if not is_quiet:
                sys.stderr.write(_NOTE)
        if is_kept:
            source = _follow_log(log, choice, follow=follow)
        elif follow:
            source = _recorded_first(settings, log, choice, is_quiet=is_quiet)
        else:
            source = _follow_records(settings, choice)
        async with contextlib.aclosing(source):
            async for event in source:
                yield event


async def _follow_records(
    settings: Settings, choice: _Choice
) -> AsyncGenerator[ToolEngineEvent, None]:
    for event in map(_event_of, await newest_records(settings, choice.query)):
        if choice.has(event):
            yield event


async def _recorded_first(
    settings: Settings, log: Any, choice: _Choice, *, is_quiet: bool
) -> AsyncGenerator[ToolEngineEvent, None]:
    """Yield final events of calls until an engine keeps events; then those."""
    async with contextlib.aclosing(record_looks(settings, choice.query)) as looks:
        async for records in looks:
            # Asked after the records were read: they are older than any kept event.
            if await log.is_kept():
                break
            for event in map(_event_of, records):
                if choice.has(event):
                    yield event
    if not is_quiet:
        sys.stderr.write(_KEPT_NOW)
    async with contextlib.aclosing(_follow_tail(log.whole_tail(), choice, follow=True)) as events:
        async for event in events:
            yield event


async def _follow_log(
    log: Any, choice: _Choice, *, follow: bool
) -> AsyncGenerator[ToolEngineEvent, None]:
    after = choice.filters.after
    tail = await log.tail(after)
    shown = set()
    if after is None:
        for event in reversed(await _read_newest(log, choice)):
            shown.add(event.sequence)
            yield event
    if follow or after is not None:
        async with contextlib.aclosing(_follow_tail(tail, choice, follow=follow)) as events:
            async for event in events:
                if event.sequence not in shown:
                    yield event


async def _read_newest(log: Any, choice: _Choice) -> list[ToolEngineEvent]:
    found: list[ToolEngineEvent] = []
    before: int | None = None
    limit = choice.filters.limit
    while len(found) < limit:
        page = await log.newest(_PAGE, before, choice.since)
        found += [event for event in page if choice.has(event)]
        if len(page) < _PAGE:
            break
        before = page[-1].sequence
    return found[:limit]


async def _follow_tail(
    tail: Any, choice: _Choice, *, follow: bool
) -> AsyncGenerator[ToolEngineEvent, None]:
    patience, pace = Patience(), Pace(_INTERVAL)
    while True:
        events = await (patience.ask(tail.read()) if follow else tail.read())
        for event in events:
            if choice.has(event):
                yield event
        if not events:
            if not follow:
                return
            await pace.wait()


def _event_of(record: ToolCallRecord) -> ToolEngineEvent:
    kind = ToolEngineEventType.EXECUTION_COMPLETED
    if not record.is_success:
        kind = _FINAL.get(record.error_type or "", ToolEngineEventType.EXECUTION_FAILED)
    result = ToolExecutionResult(
        record.is_success,
        record.tool_name,
        {},
        record.error,
        record.error_type,
        execution_time=record.execution_time,
    )
    names = ("bucket", "queue_wait", "caller_id", "caller_type", "conversation_id")
    return ToolEngineEvent(
        kind,
        record.tool_name,
        None,
        record.error,
        execution_result=result,
        timestamp=record.created_at,
        call_id=record.call_id,
        data={name: getattr(record, name) for name in (*names, "parent_call_id")},
        generation=record.generation,
        process=record.process,
    )


def _print_json(event: ToolEngineEvent) -> None:
    result = event.execution_result
    times = {} if result is None else {"execution_time": result.execution_time}
    facts: dict[str, Any] = {
        "sequence": event.sequence,
        "event_type": event.event_type.value,
        "tool_name": event.tool_name,
        "call_id": event.call_id,
        "error_type": None if result is None else result.error_type,
        "error": event.error,
        "timestamp": event.timestamp.isoformat(),
        "generation": event.generation,
        "process": event.process,
        "data": {**event.data, **times},
    }
    print_json_line(facts)


def _print_line(event: ToolEngineEvent, *, name_process: Callable[[str | None], str]) -> None:
    process = name_process(event.process)
    words = (
        local_time(event.timestamp),
        "" if event.sequence is None else f"{event.sequence:>6}",
        f"{event.event_type.value:<19}",
        " ".join((event.tool_name or "").split()),
        event.call_id or "",
        _event_text(event),
        f"[{process}]" if process else "",
    )
    console = make_console()
    line = "  ".join(word for word in words if word)
    console.print(as_text(line, _event_style(event)), soft_wrap=True)
    console.file.flush()


def _event_text(event: ToolEngineEvent) -> str:
    result = event.execution_result
    if result is not None:
        text = "" if result.is_success else f"{result.error_type}: {event.error or ''}"
        return " ".join(text.split())
    if event.event_type is ToolEngineEventType.EXECUTION_RETRIED:
        data = event.data
        return f"attempt {data.get('attempt')} after {data.get('error_type')}"
    if event.call_id is not None:
        return ""
    version, level = event.data.get("new_version"), event.data.get("level")
    if version is not None and event.error is None:  # a kept event has no tool
        return f"version {version}" + (f", {level}" if level else "")
    return event_text(event)


def _event_style(event: ToolEngineEvent) -> str:
    result = event.execution_result
    if result is not None:
        return OUTCOME_STYLES.get(result.outcome.value, "red")
    return "" if event.error is None else "red"
