"""Which calls go on without their caller, and how far are they?"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from tool_engine.access.problem import Problem
from tool_engine.model.task import FINAL, TASK_STATUSES
from tool_engine.studio.path_parts import write_part
from tool_engine.studio.visit import Download, Move, Page, Visit, show_at

_PAGE: Final = "50"
_MOST_EXPLAINED: Final = 10
"""Tasks of a page that wait, of which it is asked what for."""


@show_at("GET", "/tasks", scope="call")
async def list_tasks(visit: Visit) -> Page:
    """List the tasks that match the filters of the address, the newest first."""
    said = {name: visit.query.get(name, "").strip() for name in ("status", "tool", "owner")}
    cursor = visit.query.get("cursor", "")
    values: dict[str, Any] = {
        "said": said,
        "cursor": cursor,
        "statuses": TASK_STATUSES,
        "is_filtered": any(said.values()),
        "rows": [],
        "next": None,
        "problem": None,
    }
    query = {
        "status": said["status"],
        "tool_name": said["tool"],
        "owner": said["owner"],
        "cursor": cursor,
        "limit": _PAGE,
    }
    status = 200
    try:
        page = await visit.api.get("/v1/tasks", query=query)
        rows = await _explain_waits(visit, page["items"])
        values |= {"rows": [_describe_task(each) for each in rows], "next": page["next"]}
    except Problem as problem:
        values["problem"], status = problem, problem.status
    return Page("task_rows.html" if visit.is_partial else "tasks.html", values, status)


@show_at("GET", "/tasks/{task_id}", scope="call")
async def show_task(visit: Visit) -> Page:
    """Show a task: how far it has come, what it waits for, its result and its call."""
    task = _describe_task(await visit.api.get("/v1/tasks/{}", visit.parts["task_id"]))
    return Page("task_view.html" if visit.is_partial else "task.html", {"task": task})


@show_at("POST", "/tasks/{task_id}/cancel", scope="call")
async def cancel_task(visit: Visit) -> Move:
    """Cancel a task, and show it; one that has ended meanwhile stays as it is."""
    task_id = visit.parts["task_id"]
    await visit.api.delete("/v1/tasks/{}", task_id)
    return Move(f"/tasks/{write_part(task_id)}")


@show_at("GET", "/tasks/{task_id}/result", scope="call")
async def download_task(visit: Visit) -> Download:
    """Send a task with its whole result."""
    data = await visit.api.download("/v1/tasks/{}", visit.parts["task_id"])
    return Download(data, "task.json", "application/json")


async def _explain_waits(visit: Visit, tasks: list[Any]) -> list[Any]:
    """Return the tasks; the first ones that wait say what for."""
    left, found = _MOST_EXPLAINED, []
    for each in tasks:
        task = each
        if left and each["status"] == "queued":
            left -= 1
            with suppress(Problem):  # it is gone meanwhile
                task = await visit.api.get("/v1/tasks/{}", each["id"])
        found.append(task)
    return found


def _describe_task(task: dict[str, Any]) -> dict[str, Any]:
    """Return a task of the API with its age, and the part of it that is done."""
    created, ended = task["created_at"], task["ended_at"]
    until = datetime.now(UTC) if ended is None else datetime.fromisoformat(ended)
    age = (until - datetime.fromisoformat(created)).total_seconds()
    progress = task["progress"]
    share = None
    if progress is not None and progress["total"]:
        share = min(1.0, progress["done"] / progress["total"])
    is_final = task["status"] in FINAL
    return {**task, "age": max(0.0, age), "share": share, "is_final": is_final}


ROUTES = (list_tasks, show_task, cancel_task, download_task)
