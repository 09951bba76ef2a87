"""Which records does `prune` remove?"""

from __future__ import annotations

from typing import Annotated

import typer

from tool_engine.cli.console import print_json
from tool_engine.cli.failures import EXIT_OK, CommandError
from tool_engine.cli.options import JSONOption, RecordsOption, ToolsOption, settings_of
from tool_engine.cli.records.quantities import parse_seconds, parse_size
from tool_engine.cli.records.recording import open_records
from tool_engine.cli.settings import Settings
from tool_engine.cli.signals import run_async
from tool_engine.cli.tables import count_text
from tool_engine.model.settings.retention import RecordRetention


def run_command(
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
    return prune_records(
        settings_of(ctx, tools, records),
        older_than=older_than,
        keep=keep,
        max_size=max_size,
        sessions_older_than=sessions_older_than,
        as_json=as_json,
    )


def prune_records(
    settings: Settings,
    *,
    older_than: str | None,
    keep: int | None,
    max_size: str | None,
    sessions_older_than: str | None,
    as_json: bool,
) -> int:
    if all(bound is None for bound in (older_than, keep, max_size, sessions_older_than)):
        raise CommandError(
            "say what to remove: --older-than 30d, --keep 100000 or --max-size 500MB; a record "
            "goes when any of them says so; or --sessions-older-than 90d"
        )
    session_age = None
    if sessions_older_than is not None:
        session_age = parse_seconds("--sessions-older-than", sessions_older_than)
    retention = RecordRetention(
        max_age=None if older_than is None else parse_seconds("--older-than", older_than),
        max_count=keep,
        max_bytes=None if max_size is None else parse_size("--max-size", max_size),
    )
    return run_async(_prune_records(settings, retention, session_age, as_json=as_json))


async def _prune_records(
    settings: Settings, retention: RecordRetention, session_age: float | None, *, as_json: bool
) -> int:
    async with open_records(settings) as store:
        found = {"removed": await store.prune(retention)}
        sentence = f"removed {count_text(found['removed'], 'record')}"
        if session_age is not None:
            prune = getattr(store.sessions, "prune", None)
            found["sessions"] = 0 if prune is None else await prune(session_age)
            sentence += f" and {count_text(found['sessions'], 'session')}"
    if as_json:
        print_json(found)
    else:
        print(sentence)
    return EXIT_OK
