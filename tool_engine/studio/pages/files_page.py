"""What could not be loaded, what waits for approval, and what was loaded before?"""

from __future__ import annotations

from difflib import unified_diff
from typing import Any, Final

from tool_engine.access.problem import Problem
from tool_engine.studio.visit import Move, Page, Visit, show_at

_MOST_SHOWN: Final = 100
_MOST_LINES: Final = 400
"""Lines of one difference."""


@show_at("GET", "/files", scope="operate")
async def show_files(visit: Visit) -> Page:
    """Show load errors, quarantine, servers and generations."""
    engine = await visit.api.get("/v1/engine")
    quarantined = (await visit.api.get("/v1/quarantine"))["items"]
    servers = await visit.api.get("/v1/servers")
    values = {
        "engine": engine,
        "quarantined": [
            {**each, "difference": _list_difference(each)} for each in quarantined[:_MOST_SHOWN]
        ],
        "more_quarantined": max(0, len(quarantined) - _MOST_SHOWN),
        "servers": servers["items"],
    }
    return Page("files.html", values)


@show_at("POST", "/files/reload", scope="operate")
async def reload_files(visit: Visit) -> Move:
    """Read all definitions again."""
    await visit.api.post("/v1/reload")
    return Move("/files")


@show_at("POST", "/files/rollback", scope="operate")
async def roll_back(visit: Visit) -> Move:
    """Return to the definitions of a generation."""
    number = visit.form.get("generation")
    if not number.isdecimal():
        raise Problem(422, "invalid-form", "choose a generation")
    await visit.api.post("/v1/rollback", body={"generation": int(number)})
    return Move("/files")


@show_at("POST", "/files/approve", scope="operate")
async def approve_tool(visit: Visit) -> Move:
    """Approve a tool as it was read."""
    name, definition_hash = visit.form.get("name"), visit.form.get("definition_hash")
    await visit.api.post("/v1/lock", body={"tools": {name: definition_hash}})
    return Move("/files")


def _list_difference(found: Any) -> list[str]:
    """Return the lines that differ from what is approved; all of a new one."""
    before = (found["approved_definition"] or "").splitlines()
    after = found["definition"].splitlines()
    lines = list(unified_diff(before, after, n=3, lineterm=""))[2:]
    left_out = len(lines) - _MOST_LINES
    return lines[:_MOST_LINES] + ([f"… {left_out:,}"] if left_out > 0 else [])


ROUTES = (show_files, reload_files, roll_back, approve_tool)
