"""What changes in the tools folder, as it happens?"""

from __future__ import annotations

import asyncio
import logging
from typing import Annotated, Any

import typer
from rich.console import Console

from tool_engine.cli.console import make_console, print_json_line, safe_text
from tool_engine.cli.failures import EXIT_FAILED, EXIT_INTERRUPTED, CommandError
from tool_engine.cli.files.watch_table import WatchTable
from tool_engine.cli.options import ToolsOption, settings_of
from tool_engine.cli.settings import Settings
from tool_engine.cli.signals import run_async
from tool_engine.cli.stdout_reader import reader_watched
from tool_engine.cli.tables import event_text
from tool_engine.engine import ToolEngine
from tool_engine.model.event import ToolEngineEvent


def run_command(
    ctx: typer.Context,
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document per line and event.")
    ] = False,
    tools: ToolsOption = None,
) -> int:
    """Watch the tools folder and show what changes, until Ctrl-C.

    A terminal shows one table that is drawn anew; a file or a pipe gets a line for each event.

    Example: tool-engine watch --json
    """
    return watch_tools(settings_of(ctx, tools), as_json=as_json)


def watch_tools(settings: Settings, *, as_json: bool) -> int:
    try:
        # What the engine would log of a folder, the events say already.
        return run_async(_watch_folder(settings, as_json=as_json), log_level=logging.ERROR)
    except CommandError as error:
        if error.exit_code != EXIT_INTERRUPTED:
            raise
        return EXIT_INTERRUPTED


async def _watch_folder(settings: Settings, *, as_json: bool) -> int:
    # Printed here: a subscriber's errors, a closed pipe too, would be kept quiet.
    events: asyncio.Queue[ToolEngineEvent | None] = asyncio.Queue()
    engine = ToolEngine(settings.engine_config(watch_for_changes=True))
    engine.subscribe(events.put_nowait)
    console = make_console()
    show = _print_json if as_json else _print_text
    with reader_watched(lambda: events.put_nowait(None)):
        async with engine:
            if console.is_terminal and not as_json:
                await _show_table(events, console)
            while (event := await events.get()) is not None:
                show(event)
    return EXIT_FAILED


async def _show_table(events: asyncio.Queue[ToolEngineEvent | None], console: Console) -> None:
    with WatchTable(console) as table:
        while (event := await events.get()) is not None:
            table.note_event(event)
            if events.empty():
                table.refresh()
    events.put_nowait(None)


def _print_json(event: ToolEngineEvent) -> None:
    print_json_line(_event_facts(event))


def _event_facts(event: ToolEngineEvent) -> dict[str, Any]:
    return {
        "event_type": event.event_type.value,
        "tool_name": event.tool_name,
        "version": None if event.tool is None else event.tool.version,
        "source": None if event.tool is None else event.tool.source,
        "error": event.error,
        "data": event.data,
        "timestamp": event.timestamp.isoformat(),
    }


def _print_text(event: ToolEngineEvent) -> None:
    time = event.timestamp.astimezone().strftime("%H:%M:%S")
    name = event.tool_name or str(event.data.get("file", "-"))
    console = make_console()
    line = "\t".join([time, event.event_type.value, safe_text(name), safe_text(event_text(event))])
    console.file.write(
        line.encode(console.encoding, "backslashreplace").decode(console.encoding) + "\n"
    )
    console.file.flush()
