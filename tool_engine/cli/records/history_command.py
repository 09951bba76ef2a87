"""Which calls were made, when, by whom, and how did they end?"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from tool_engine.cli.completion import complete_word
from tool_engine.cli.console import as_text, make_console, print_json_line
from tool_engine.cli.failures import EXIT_OK, CommandError
from tool_engine.cli.options import RecordsOption, ToolsOption, settings_of
from tool_engine.cli.records.filters import (
    CallerOption,
    ConversationOption,
    ErrorOption,
    FailedOption,
    FollowOption,
    LimitOption,
    LineJSONOption,
    OriginOption,
    ProcessOption,
    RecordFilters,
    SessionOption,
    SinceOption,
    TaskOption,
    ToolOption,
    UntilOption,
)
from tool_engine.cli.records.following import print_each, record_looks
from tool_engine.cli.records.quantities import seconds_text
from tool_engine.cli.records.record_line import fit_encoding, local_time, record_text
from tool_engine.cli.records.recording import name_processes, newest_records
from tool_engine.cli.settings import Settings
from tool_engine.cli.signals import run_async
from tool_engine.cli.tables import OUTCOME_STYLES, make_table
from tool_engine.knowledge.export import exported_row
from tool_engine.model.record import RecordQuery, ToolCallRecord

_TEXT: Final = "arguments or error"
_ROOM: Final = 32
"""Characters of it beside which a table is easier to read than lines."""


def run_command(
    ctx: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[show CALL_ID]",
            help="The whole story of one call.",
            autocompletion=complete_word,
        ),
    ] = None,
    *,
    tool: ToolOption = None,
    failed: FailedOption = False,
    error_type: ErrorOption = None,
    caller: CallerOption = None,
    conversation: ConversationOption = None,
    session: SessionOption = None,
    origin: OriginOption = None,
    task: TaskOption = None,
    process: ProcessOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: LimitOption = 20,
    follow: FollowOption = False,
    full: Annotated[
        bool, typer.Option("--full", help="With show: arguments and result whole.")
    ] = False,
    as_json: LineJSONOption = False,
    tools: ToolsOption = None,
    records: RecordsOption = None,
) -> int:
    """Show the calls that were made, the newest last, or the whole story of one of them.

    Example: tool-engine history --failed --since 1h
    """
    settings = settings_of(ctx, tools, records)
    if words:
        from tool_engine.cli.records.story import print_story

        return print_story(settings, _call_id(words), full=full, as_json=as_json)
    filters = RecordFilters(
        *(tool, failed, error_type, caller, conversation, since, until, session, origin, task),
        process,
    )
    return print_history(settings, filters, limit=limit, follow=follow, as_json=as_json)


def _call_id(words: list[str]) -> str:
    if len(words) == 2 and words[0] == "show":
        return words[1]
    raise CommandError(
        f"history takes no {' '.join(words)!r}; write `tool-engine history show CALL_ID` for the "
        "story of one call"
    )


def print_history(
    settings: Settings, filters: RecordFilters, *, limit: int, follow: bool, as_json: bool
) -> int:
    query = filters.query(limit)
    show = _print_json if as_json else partial(_print_line, name_process=name_processes(settings))
    if follow:
        return print_each(_follow_records(settings, query), show)
    return run_async(_print_records(settings, query, as_json=as_json))


async def _follow_records(
    settings: Settings, query: RecordQuery
) -> AsyncGenerator[ToolCallRecord, None]:
    """Yield each newest record, oldest first, then each new one."""
    async with contextlib.aclosing(record_looks(settings, query)) as looks:
        async for records in looks:
            for record in records:
                yield record


async def _print_records(settings: Settings, query: RecordQuery, *, as_json: bool) -> int:
    records = await newest_records(settings, query)
    if as_json:
        for record in records:
            _print_json(record)
    elif not records:
        none = "no such calls are recorded" if query.limit else "--limit 0 shows none"
        sys.stderr.write(f"{none}\n")
    else:
        _print_calls(records, name_processes(settings))
    return EXIT_OK


def _print_calls(
    records: Sequence[ToolCallRecord], name_process: Callable[[str | None], str]
) -> None:
    """Print a table where it has room for all columns, else a line for each call."""
    console = make_console()
    table = _make_history_table(records, console, name_process)
    any_width = console.options.update(max_width=10_000)
    if console.measure(table, options=any_width).minimum <= console.width:
        console.print(table)
        return
    for record in records:
        _print_line(record, name_process=name_process)


def _make_history_table(
    records: Sequence[ToolCallRecord], console: Console, name_process: Callable[[str | None], str]
) -> Table:
    processes = [name_process(record.process) for record in records]
    columns = ["ended", "call", "tool", "outcome", "waited", "ran", "caller", _TEXT]
    table = make_table("", *columns, *(["process"] if any(processes) else []))
    for column in table.columns:
        column.no_wrap = column.header != _TEXT  # A person copies names and ids.
        column.min_width = _ROOM if column.header == _TEXT else None
    for record, process in zip(records, processes, strict=True):
        outcome = record.outcome.value
        table.add_row(
            as_text(local_time(record.created_at)),
            as_text(record.call_id or "-", "cyan"),
            as_text(record.tool_name, "bold cyan"),
            as_text(outcome, OUTCOME_STYLES.get(outcome, "red")),
            as_text(fit_encoding(seconds_text(record.queue_wait), console)),
            as_text(fit_encoding(seconds_text(record.execution_time), console)),
            as_text(record.caller_id or "-"),
            as_text(record_text(record)),
            *([as_text(process or "-")] if any(processes) else []),
        )
    return table


def _print_json(record: ToolCallRecord) -> None:
    print_json_line(exported_row(record))


def _print_line(record: ToolCallRecord, *, name_process: Callable[[str | None], str]) -> None:
    process = name_process(record.process)
    outcome = record.outcome.value
    console = make_console()
    words = (
        local_time(record.created_at),
        record.call_id or "-",
        f"{outcome:<9}",
        f"{fit_encoding(seconds_text(record.execution_time), console):>8}",
        record.tool_name,
        record_text(record),
        f"[{process}]" if process else "",
    )
    line = "  ".join(" ".join(word.split("\n")) for word in words if word)
    console.print(as_text(line, OUTCOME_STYLES.get(outcome, "red")), soft_wrap=True)
    console.file.flush()
