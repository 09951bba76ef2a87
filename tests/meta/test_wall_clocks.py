"""Who reads a clock that an operator or a time server may set?

It says when something happened. How long something takes, and when it expires, is measured by
`clock.py`, an event loop's time, or the clock that the programs of a database share.
"""

from __future__ import annotations

import ast
from pathlib import Path

from tests.meta.sources import PACKAGE, modules, tree

DATES = "says when something happened"
FILES = "compares with the times of files, which the same clock has written"
SHOWN = "says to a person how long ago something was"
READERS = {
    "access/tokens.py": "a token expires at a date",
    "agent/transcript.py": DATES,
    "calls/ending.py": DATES,
    "calls/plain_events.py": DATES,
    "calls/progress.py": DATES,
    "catalog/definition_files.py": FILES,
    "catalog/folder/cache_file.py": FILES,
    "catalog/generations.py": DATES,
    "cli/records/following.py": "records that were written before it began are not followed",
    "cli/records/quantities.py": "a person asks for the last hours",
    "cli/records/record_line.py": SHOWN,
    "executors/http/retry_after.py": "another server says a date",
    "executors/mcp/connection.py": DATES,
    "knowledge/export.py": "what is recorded after it began is left out",
    "knowledge/memory_sessions.py": DATES,
    "knowledge/shared_clock.py": "begins with it, and goes on by itself",
    "knowledge/sql/connection/shared_time.py": "writes down once when a machine was started",
    "knowledge/sql/schema/rows.py": DATES,
    "model/call.py": DATES,
    "clock.py": "begins with it, and goes on by itself",
    "model/event.py": DATES,
    "model/refusal.py": DATES,
    "observability/call_follower.py": "a span begins at a date",
    "reloading.py": DATES,
    "session/variables/call_variables.py": DATES,
    "session/variables/store.py": DATES,
    "studio/pages/call_page.py": SHOWN,
    "studio/pages/history_page.py": "a person asks for the last hours",
    "studio/pages/live_page.py": SHOWN,
    "studio/pages/tasks_page.py": SHOWN,
}
CLOCKS = {("time", "time"), ("time", "time_ns"), ("datetime", "now"), ("datetime", "utcnow")}


def reads_wall_clock(path: Path) -> bool:
    for node in ast.walk(tree(path)):
        match node:
            case ast.Attribute(value=ast.Name(id=of), attr=name) if (of, name) in CLOCKS:
                return True
            case ast.ImportFrom(module="time", names=names):
                if any(("time", each.name) in CLOCKS for each in names):
                    return True
    return False


def test_wall_clocks() -> None:
    """A new reader has its reason here; one that reads it no more goes."""
    found = {path.relative_to(PACKAGE).as_posix() for path in modules() if reads_wall_clock(path)}
    assert found == set(READERS)
