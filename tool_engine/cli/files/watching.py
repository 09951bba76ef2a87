"""What changes in the tools folder, as it happens?"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tool_engine.cli.console import make_console, plain, print_json_line
from tool_engine.cli.failures import EXIT_FAILED, EXIT_INTERRUPTED, CommandError
from tool_engine.cli.settings import Settings, run_async
from tool_engine.cli.tables import event_text
from tool_engine.engine import ToolEngine
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType

_STYLES = {
    ToolEngineEventType.LOAD_ERROR: "red",
    ToolEngineEventType.LOAD_MENDED: "green",
    ToolEngineEventType.TOOL_ADDED: "green",
    ToolEngineEventType.TOOL_UPDATED: "green",
    ToolEngineEventType.TOOL_REMOVED: "yellow",
    ToolEngineEventType.TOOL_QUARANTINED: "red",
}


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
    show = _print_json if as_json else _print_text
    with reader_watched(lambda: events.put_nowait(None)):
        async with engine:
            while (event := await events.get()) is not None:
                show(event)
    return EXIT_FAILED


@contextmanager
def reader_watched(on_gone: Callable[[], None]) -> Iterator[None]:
    """Call `on_gone` once when stdout loses its reader, while the block runs."""
    # A write would notice that the reader has gone, but the next event may be days away. The end
    # of a pipe that is written to becomes "readable" when its other end is closed.
    loop = asyncio.get_running_loop()
    pipes = _stdout_pipes()

    def stop_watching() -> None:
        for pipe in pipes:
            loop.remove_reader(pipe)

    def gone() -> None:
        # It stays readable: each turn of the loop would say so again, and a second cancellation
        # would interrupt what the first one is closing.
        stop_watching()
        on_gone()

    for pipe in pipes:
        loop.add_reader(pipe, gone)
    try:
        yield
    finally:
        stop_watching()


def _stdout_pipes() -> list[int]:
    try:
        descriptor = sys.stdout.fileno()
        return [descriptor] if stat.S_ISFIFO(os.fstat(descriptor).st_mode) else []
    except OSError:
        return []


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
    console = make_console()
    time = event.timestamp.astimezone().strftime("%H:%M:%S")
    line = f"{time}  {event.event_type.value:<16}  {event.tool_name or '-'}  {event_text(event)}"
    console.print(plain(line, _STYLES.get(event.event_type, "")), soft_wrap=True)
    console.file.flush()
