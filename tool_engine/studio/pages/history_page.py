"""Which calls have ended, and how?"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tool_engine.access.problem import Problem
from tool_engine.model.checks.nearness import find_near
from tool_engine.model.outcome import ErrorType, Outcome, outcome_of
from tool_engine.studio.visit import Page, Visit, show_at
from tool_engine.visible import is_deceptive

_FILTERS: Final = {
    "tool": "tool_name",
    "error": "error_type",
    "caller": "caller_id",
    "conversation": "conversation_id",
    "session": "session_id",
    "task": "task_id",
    "parent": "parent_call_id",
    "outcome": "outcome",
    "ran": "min_execution_time",
}
"""Names of the address, and of the API's filters."""
_TIMES: Final = {"since": "start", "until": "end"}
_MORE: Final = ("conversation", "session", "task", "parent", "ran", "since", "until")
"""Filters that are seldom used: they are shown when they are asked for."""
_WITHIN: Final = {
    "15m": timedelta(minutes=15),
    "1h": timedelta(hours=1),
    "1d": timedelta(days=1),
    "7d": timedelta(days=7),
}
_PAGE: Final = "50"
_MOST_NEAR: Final = 8
_MOST_NAMES: Final = 200
"""Tools that are suggested while one types."""


@show_at("GET", "/history", scope="read")
async def list_history(visit: Visit) -> Page:
    """List the calls that have ended and match the filters of the address, the newest first."""
    names = (*_FILTERS, *_TIMES, "within")
    said = {name: visit.query.get(name, "").strip() for name in names}
    values: dict[str, Any] = {
        "said": said,
        "outcomes": [each.value for each in Outcome],
        "within": tuple(_WITHIN),
        "has_more": any(said[name] for name in _MORE),
        "is_filtered": any(said.values()),
        "cursor": visit.query.get("cursor", ""),
        "rows": [],
        "next": None,
        "counts": {},
        "names": [],
        "error_types": [each.value for each in ErrorType],
        "near": [],
        "problem": None,
    }
    try:
        values |= await _find_rows(visit, said)
        status = 200
    except Problem as problem:
        values["problem"], status = problem, problem.status
    return Page("history.html", values, status)


async def _find_rows(visit: Visit, said: Mapping[str, str]) -> dict[str, Any]:
    query = _make_query(said)
    asked = {**query, "limit": _PAGE, "cursor": visit.query.get("cursor", "")}
    every = {name: value for name, value in query.items() if name != "outcome"}
    page, sums, tools = await asyncio.gather(
        visit.api.get("/v1/records", query=asked),
        visit.api.get("/v1/statistics", query=every),
        visit.api.get("/v1/tools", query={"limit": str(_MOST_NAMES)}),
    )
    # With a filter for one tool, the sums are of that one alone.
    names = {*sums["by_tool"], *(each["name"] for each in tools["items"])}
    return {
        "rows": [describe_record(each) for each in page["items"]],
        "next": page["next"],
        "counts": {"": sums["total_records"], **sums["outcomes"]},
        # A name that is not what it looks like is no suggestion.
        "names": [name for name in sorted(names) if not is_deceptive(name)][:_MOST_NAMES],
        "near": await _find_near(visit, said["tool"], names) if not page["items"] else [],
    }


async def _find_near(visit: Visit, said: str, names: set[str]) -> list[str]:
    """Return names of tools that may have been meant: filters are for whole names."""
    if not said:
        return []
    found = await visit.api.get("/v1/tools", query={"query": said, "limit": str(_MOST_NEAR)})
    inside = sorted(name for name in names if said.lower() in name.lower())
    near = [*inside, *(each["name"] for each in found["items"]), *find_near(said, names)]
    return [name for name in dict.fromkeys(near) if name != said][:_MOST_NEAR]


def describe_record(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record of the API with its outcome."""
    outcome = Outcome.SUCCEEDED
    if not record["is_success"]:
        outcome = outcome_of(record["error_type"] or "unknown")
    return {**record, "outcome": outcome.value}


def _make_query(said: Mapping[str, str]) -> dict[str, str]:
    """Return the filters as the API has them.

    Raises:
        Problem: A time cannot be read.
    """
    query = {known: said[name] for name, known in _FILTERS.items()}
    for name, known in _TIMES.items():
        query[known] = _read_time(said[name]) if said[name] else ""
    if said["within"] and not said["since"]:
        if said["within"] not in _WITHIN:
            raise Problem(422, "invalid-form", f"within is one of {', '.join(_WITHIN)}")
        query["start"] = (datetime.now(UTC) - _WITHIN[said["within"]]).isoformat()
    return query


def _read_time(text: str) -> str:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise Problem(
            422, "invalid-form", "write a time as 2026-01-31T12:00, in universal time"
        ) from None
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).isoformat()


ROUTES = (list_history,)
