"""How are records exported to a file or a pipe?"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from io import TextIOWrapper
from typing import Annotated, TextIO

import typer

from tool_engine.cli.completion import complete_export_format
from tool_engine.cli.console import safe_text
from tool_engine.cli.failures import EXIT_OK, CommandError
from tool_engine.cli.options import RecordsOption, ToolsOption, chosen_format, settings_of
from tool_engine.cli.records.filters import (
    CallerOption,
    ConversationOption,
    ErrorOption,
    FailedOption,
    OriginOption,
    ProcessOption,
    RecordFilters,
    SessionOption,
    SinceOption,
    TaskOption,
    ToolOption,
    UntilOption,
)
from tool_engine.cli.records.recording import open_records
from tool_engine.cli.settings import Settings
from tool_engine.cli.signals import run_async
from tool_engine.knowledge.export import EXPORT_FORMATS, export_records
from tool_engine.model.record import RecordQuery
from tool_engine.named_file import why_unwritten, writing_named


def run_command(
    ctx: typer.Context,
    *,
    file_format: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="jsonl or csv.",
            autocompletion=complete_export_format,
        ),
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
    origin: OriginOption = None,
    task: TaskOption = None,
    process: ProcessOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    tools: ToolsOption = None,
    records: RecordsOption = None,
) -> int:
    """Write records for other programs, the oldest first.

    Example: tool-engine export --format csv --output calls.csv
    """
    filters = RecordFilters(
        *(tool, failed, error_type, caller, conversation, since, until, session, origin, task),
        process,
    )
    return export_calls(
        settings_of(ctx, tools, records), filters, file_format=file_format, output=output
    )


def export_calls(
    settings: Settings, filters: RecordFilters, *, file_format: str, output: str | None
) -> int:
    """Write records, oldest first, to a file or to stdout."""
    chosen = chosen_format(file_format, EXPORT_FORMATS)
    query = filters.query()
    with _open_target(output) as stream:
        return run_async(_export_records(settings, query, chosen, stream))


async def _export_records(
    settings: Settings, query: RecordQuery, file_format: str, stream: TextIO
) -> int:
    is_terminal = stream.isatty()
    async with open_records(settings) as store:
        async for part in export_records(store, file_format, query):
            stream.write(safe_text(part) if is_terminal else part)
    stream.flush()
    return EXIT_OK


@contextlib.contextmanager
def _open_target(output: str | None) -> Iterator[TextIO]:
    """Yield stdout, or a file that appears once it is written completely."""
    if output is None:
        yield sys.stdout
        return
    try:
        with writing_named(output) as stream:
            text = TextIOWrapper(stream, encoding="utf-8", newline="")
            yield text
            text.detach()
    except OSError as error:
        raise CommandError(
            f"cannot write {output}: {why_unwritten(error)}", error_type="cannot_write"
        ) from error
