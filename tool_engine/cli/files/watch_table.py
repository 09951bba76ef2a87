"""How does a folder that is watched stand, as one table that is drawn anew?"""

from __future__ import annotations

from typing import Final, NamedTuple, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table

from tool_engine.cli.console import as_text
from tool_engine.cli.tables import count_text, event_text, make_table
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType

_AROUND: Final = 7
"""Lines of the terminal for all but the rows: heading, rules, last line and what comes after."""
STYLES: Final = {
    ToolEngineEventType.LOAD_ERROR: "red",
    ToolEngineEventType.LOAD_MENDED: "green",
    ToolEngineEventType.TOOL_ADDED: "green",
    ToolEngineEventType.TOOL_UPDATED: "green",
    ToolEngineEventType.TOOL_REMOVED: "yellow",
    ToolEngineEventType.TOOL_QUARANTINED: "red",
}


class _Row(NamedTuple):
    time: str
    event: ToolEngineEventType
    what: str


class WatchTable:
    """A table of tools and broken files, the newest change of each in a row.

    Files that are wrong now stand above, then the newest first, as many as the terminal shows.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._rows: dict[str, _Row] = {}
        self._wrong: dict[str, _Row] = {}
        self._last = ""
        self._live = Live(
            get_renderable=self._draw_table,
            console=console,
            auto_refresh=False,
            redirect_stdout=False,
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *ended: object) -> None:
        self._live.stop()

    def note_event(self, event: ToolEngineEvent) -> None:
        """Take an event into the table, which `refresh` draws."""
        kind = event.event_type
        row = _Row(event.timestamp.astimezone().strftime("%H:%M:%S"), kind, event_text(event))
        file = str(event.data.get("file", "-"))
        if kind is ToolEngineEventType.LOAD_ERROR:
            self._wrong[event.tool_name or file] = row
        elif kind is ToolEngineEventType.LOAD_MENDED:
            self._wrong.pop(event.tool_name or file, None)
        elif event.tool_name is not None:
            # A row that changes becomes the newest one.
            self._rows.pop(event.tool_name, None)
            self._rows[event.tool_name] = row
        elif kind is ToolEngineEventType.RELOAD_COMPLETED:
            self._last = f", last reload {row.time}"

    def refresh(self) -> None:
        self._live.refresh()

    def _draw_table(self) -> Table:
        gone = ToolEngineEventType.TOOL_REMOVED
        tools = sum(row.event is not gone for row in self._rows.values())
        wrong = f", {len(self._wrong)} wrong" if self._wrong else ""
        table = make_table("", "time", "tool or file", "event", "what")
        table.caption = f"{count_text(tools, 'tool')}{wrong}{self._last}; Ctrl-C ends"
        table.caption_justify = "left"
        rows = [*reversed(self._wrong.items()), *reversed(self._rows.items())]
        most = max(1, self._console.size.height - _AROUND)
        for name, row in rows[:most]:
            style = STYLES.get(row.event, "")
            table.add_row(
                row.time, as_text(name), as_text(row.event.value, style), as_text(row.what, style)
            )
        if len(rows) > most:
            table.add_row("", f"… and {len(rows) - most} more", "", "")
        return table
