"""Which words may follow `history`, `stats`, `events`, `export` and `prune`?

Signatures only: what a command does is imported when it runs, so that `--help` answers at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tool_engine.cli.completion import complete_tool
from tool_engine.cli.failures import CommandError
from tool_engine.cli.options import JSONOption, RecordsOption, ToolsOption, settings_of

if TYPE_CHECKING:
    from tool_engine.cli.records.history import RecordFilters

LineJSONOption = Annotated[bool, typer.Option("--json", help="Print one JSON document per line.")]
ToolOption = Annotated[
    str | None,
    typer.Option(
        "--tool", "-t", metavar="NAME", help="Only of this tool.", autocompletion=complete_tool
    ),
]
FailedOption = Annotated[bool, typer.Option("--failed", "-f", help="Only what did not succeed.")]
ErrorOption = Annotated[
    str | None,
    typer.Option("--error-type", metavar="TYPE", help="Only what failed so, such as timeout."),
]
CallerOption = Annotated[
    str | None, typer.Option("--caller", metavar="ID", help="Only of this caller.")
]
ConversationOption = Annotated[
    str | None, typer.Option("--conversation", metavar="ID", help="Only of this conversation.")
]
SessionOption = Annotated[
    str | None, typer.Option("--session", metavar="ID", help="Only of this session.")
]
SinceOption = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME", help="Ended since, such as 1h ago or 2026-11-01."),
]
UntilOption = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Ended before that time.")
]
LimitOption = Annotated[
    int, typer.Option("--limit", "-n", min=0, metavar="N", help="The newest N.")
]
FollowOption = Annotated[
    bool, typer.Option("--follow", "-F", help="Go on with what comes, until Ctrl-C.")
]


def history_command(
    ctx: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[show CALL_ID]", help="The whole story of one call."),
    ] = None,
    *,
    tool: ToolOption = None,
    failed: FailedOption = False,
    error_type: ErrorOption = None,
    caller: CallerOption = None,
    conversation: ConversationOption = None,
    session: SessionOption = None,
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
    from tool_engine.cli.records.history import print_history

    filters = _make_filters(
        tool, error_type, caller, conversation, since, until, failed=failed, session=session
    )
    return print_history(settings, filters, limit=limit, follow=follow, as_json=as_json)


def stats_command(
    ctx: typer.Context,
    *,
    tool: ToolOption = None,
    caller: CallerOption = None,
    conversation: ConversationOption = None,
    session: SessionOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    plot: Annotated[
        str | None,
        typer.Option(
            "--plot", metavar="FILE", help="Draw waits, latencies and slots over time, as SVG."
        ),
    ] = None,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
    records: RecordsOption = None,
) -> int:
    """Show what the calls add up to, per tool and bucket: errors, waits, times.

    Example: tool-engine stats --since 24h --plot calls.svg
    """
    from tool_engine.cli.records.stats import print_statistics

    filters = _make_filters(tool, None, caller, conversation, since, until, session=session)
    return print_statistics(settings_of(ctx, tools, records), filters, plot=plot, as_json=as_json)


def events_command(
    ctx: typer.Context,
    *,
    tool: ToolOption = None,
    failed: FailedOption = False,
    caller: CallerOption = None,
    conversation: ConversationOption = None,
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
    from tool_engine.cli.records.events import EventFilters, print_events

    calls = _make_filters(tool, None, caller, conversation, since, None, failed=failed)
    filters = EventFilters(calls, tuple(types or ()), call, after, limit)
    return print_events(settings_of(ctx, tools, records), filters, follow=follow, as_json=as_json)


def export_command(
    ctx: typer.Context,
    *,
    file_format: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="jsonl or csv.")
    ] = "jsonl",
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file.")
    ] = None,
    tool: ToolOption = None,
    failed: FailedOption = False,
    error_type: ErrorOption = None,
    caller: CallerOption = None,
    conversation: ConversationOption = None,
    session: SessionOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    tools: ToolsOption = None,
    records: RecordsOption = None,
) -> int:
    """Write records for other programs, the oldest first.

    Example: tool-engine export --format csv --output calls.csv
    """
    from tool_engine.cli.records.exporting import export_calls

    filters = _make_filters(
        tool, error_type, caller, conversation, since, until, failed=failed, session=session
    )
    return export_calls(
        settings_of(ctx, tools, records), filters, file_format=file_format, output=output
    )


def prune_command(
    ctx: typer.Context,
    *,
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="TIME", help="Such as 30d or 12h.")
    ] = None,
    keep: Annotated[
        int | None, typer.Option("--keep", min=1, metavar="N", help="All but the newest N.")
    ] = None,
    max_size: Annotated[
        str | None,
        typer.Option("--max-size", metavar="SIZE", help="The oldest beyond about 500MB, say."),
    ] = None,
    sessions_older_than: Annotated[
        str | None,
        typer.Option(
            "--sessions-older-than", metavar="TIME", help="Sessions saved last before, too."
        ),
    ] = None,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
    records: RecordsOption = None,
) -> int:
    """Remove old records, and old sessions.

    Example: tool-engine prune --older-than 30d
    """
    from tool_engine.cli.records.pruning import prune_records

    return prune_records(
        settings_of(ctx, tools, records),
        older_than=older_than,
        keep=keep,
        max_size=max_size,
        sessions_older_than=sessions_older_than,
        as_json=as_json,
    )


def _call_id(words: list[str]) -> str:
    if len(words) == 2 and words[0] == "show":
        return words[1]
    raise CommandError(
        f"history takes no {' '.join(words)!r}; write `tool-engine history show CALL_ID` for the "
        "story of one call"
    )


def _make_filters(
    tool: str | None,
    error_type: str | None,
    caller: str | None,
    conversation: str | None,
    since: str | None,
    until: str | None,
    *,
    failed: bool = False,
    session: str | None = None,
) -> RecordFilters:
    from tool_engine.cli.records.history import RecordFilters

    return RecordFilters(tool, failed, error_type, caller, conversation, since, until, session)
