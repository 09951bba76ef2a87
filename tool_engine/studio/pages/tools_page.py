"""Which tools are there, and how is each used?"""

from __future__ import annotations

from typing import Any, Final

from tool_engine.access.problem import Problem
from tool_engine.studio.visit import Page, Visit, show_at

_SORTS: Final = ("name", "calls", "errors", "time")
_PAGE: Final = 200
"""Tools that one page of the list shows."""
_MOST: Final = "500"


@show_at("GET", "/tools", scope="read")
async def list_tools(visit: Visit) -> Page:
    """List the tools, by name, use, errors or time, and those that words find."""
    words, tag = visit.query.get("query", ""), visit.query.get("tag", "")
    sort = visit.query.get("sort", "name")
    if sort not in _SORTS:
        raise Problem(404, "unknown-path", f"there is no such order; there are {', '.join(_SORTS)}")
    every = "true" if visit.principal.may("operate") else ""
    tools = await _list_all(visit, {"query": words, "tag": tag, "all": every})
    found, problem = await visit.api.find("/v1/statistics")
    by_tool = {} if found is None else found["by_tool"]
    rows = [{**each, "use": by_tool.get(each["name"])} for each in tools]
    if sort != "name":
        rows.sort(key=lambda row: _rank_use(row["use"], sort), reverse=True)
    first = int(visit.query.get("first", "0")) if visit.query.get("first", "0").isdecimal() else 0
    values = {
        "problem": problem,
        "rows": rows[first : first + _PAGE],
        "count": len(rows),
        "first": first,
        "following": first + _PAGE if first + _PAGE < len(rows) else None,
        "words": words,
        "tag": tag,
        "sort": sort,
        "sorts": _SORTS,
    }
    return Page("tool_rows.html" if visit.is_partial else "tools.html", values)


async def _list_all(visit: Visit, query: dict[str, str]) -> list[Any]:
    """Return all tools that match, page by page."""
    query = {**query, "limit": _MOST}
    found: list[Any] = []
    while True:
        page = await visit.api.get("/v1/tools", query=query)
        found += page["items"]
        if page["next"] is None:
            return found
        query["cursor"] = page["next"]


def _rank_use(use: Any, sort: str) -> float:
    if use is None:
        return -1.0
    return float(
        {"calls": use["total"], "errors": use["failed"], "time": use["execution_time"]["p95"]}[sort]
    )


ROUTES = (list_tools,)
