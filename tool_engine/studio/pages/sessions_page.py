"""Which conversations are kept, and what did one come to?"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Final

from tool_engine.studio.visit import Page, Visit, show_at

_PAGE: Final = 100
"""Conversations, and messages of one, on a page."""


@show_at("GET", "/sessions", scope="operate")
async def list_sessions(visit: Visit) -> Page:
    """List the conversations that are kept, the one that was saved last first."""
    offset = _read_offset(visit)
    query = {"limit": str(_PAGE + 1), "offset": str(offset)}
    found = (await visit.api.get("/v1/sessions", query=query))["items"]
    values = {
        "sessions": found[:_PAGE],
        "offset": offset,
        "page": _PAGE,
        "following": offset + _PAGE if len(found) > _PAGE else None,
    }
    return Page("sessions.html", values)


@show_at("GET", "/sessions/{session_id}", scope="operate")
async def show_session(visit: Visit) -> Page:
    """Show what was said and called, what is kept under names, and what was spent."""
    offset = _read_offset(visit)
    query = {"limit": str(_PAGE), "offset": str(offset)}
    session = await visit.api.get("/v1/sessions/{}", visit.parts["session_id"], query=query)
    for message in session["messages"]:
        for call in message["calls"]:
            call["arguments"] = _read_json(call["arguments"])
    for variable in session["variables"]:
        variable["value"] = _read_json(variable["text"])
    last = session["count"] - offset
    values = {
        "session": session,
        "offset": offset,
        "page": _PAGE,
        "first": max(0, last - _PAGE) + 1,
        "last": last,
    }
    return Page("session.html", values)


def _read_offset(visit: Visit) -> int:
    said = visit.query.get("offset", "")
    return min(int(said), 1_000_000) if said.isdecimal() and len(said) < 9 else 0


def _read_json(text: str) -> Any:
    """Return the object or list that a text is, to be shown on several lines; else the text."""
    with suppress(ValueError, RecursionError):
        found = json.loads(text)
        return found if isinstance(found, dict | list) else text
    return text


ROUTES = (list_sessions, show_session)
