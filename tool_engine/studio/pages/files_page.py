"""What could not be loaded, what waits for approval, and what has changed?"""

from __future__ import annotations

import re
from typing import Any, Final

from tool_engine.access.problem import Problem
from tool_engine.studio.visit import Move, Page, PageAnswer, Visit, show_at

_PAGE: Final = 10
"""Definitions that wait for approval on one page: what each says is read."""
_MOST_ERRORS: Final = 100
_MOST_ROWS: Final = 200
_PLACE: Final = re.compile(r"(?P<place>.+?:\d+:\d+): (?P<said>.*)")
_KINDS_CHANGED: Final = ("added", "modified", "removed")


@show_at("GET", "/files", scope="operate")
async def show_files(visit: Visit) -> Page:
    """Show what is loaded and from where, what is not, and why."""
    return await _show_page(visit)


@show_at("POST", "/files/reload", scope="operate")
async def reload_files(visit: Visit) -> Move:
    """Read all definitions again."""
    return _say_done("reload", await visit.api.post("/v1/reload"))


@show_at("POST", "/files/rollback", scope="operate")
async def roll_back(visit: Visit) -> PageAnswer:
    """Return to the tools of a generation."""
    number = visit.form.get("generation")
    if not number.isdecimal() or len(number) > 15:
        raise Problem(422, "invalid-form", "choose a generation")
    try:
        changes = await visit.api.post("/v1/rollback", body={"generation": int(number)})
    except Problem as problem:
        return await _show_page(visit, problem)
    return _say_done("rollback", changes)


@show_at("POST", "/files/approve", scope="operate")
async def approve_definition(visit: Visit) -> PageAnswer:
    """Approve what was read: the form has its fingerprint, and what is another one is refused."""
    name, fingerprint = visit.form.get("name"), visit.form.get("fingerprint")
    if not name or not fingerprint:
        raise Problem(422, "invalid-form", "choose what to approve")
    try:
        changes = await visit.api.post("/v1/lock", body={"names": {name: fingerprint}})
    except Problem as problem:
        return await _show_page(visit, problem)
    # To approve is to look at the files again: one that says something else by now waits.
    is_changed = bool(await _describe_waiting(visit, [{"name": name}]))
    return _say_done("approve", changes, name, is_changed=is_changed)


def _say_done(what: str, changes: Any, name: str = "", *, is_changed: bool = False) -> Move:
    counts = {kind: len(changes[kind]) for kind in _KINDS_CHANGED}
    done = {"what": what, "name": name[:200], "is_changed": is_changed, **counts}
    return Move("/files", notice=done)


def _read_count(said: str) -> int:
    return int(said) if said.isdecimal() and len(said) < 7 else 0


async def _show_page(visit: Visit, problem: Problem | None = None) -> Page:
    engine = await visit.api.get("/v1/engine")
    found = await visit.api.get("/v1/sources")
    first = _read_count(visit.query.get("first", ""))
    lock = await visit.api.get("/v1/lock", query={"limit": str(_PAGE), "offset": str(first)})
    if first >= lock["count"] > 0:  # they were approved meanwhile
        first = 0
        lock = await visit.api.get("/v1/lock", query={"limit": str(_PAGE)})
    errors = engine["load_errors"]
    values = {
        "engine": engine,
        "errors": _split_errors(errors[:_MOST_ERRORS]),
        "more_errors": max(0, len(errors) - _MOST_ERRORS),
        "lock": lock,
        "waiting": await _describe_waiting(visit, lock["items"]),
        "first": first,
        "page": _PAGE,
        "following": first + _PAGE if first + _PAGE < lock["count"] else None,
        "generations": engine["generations"][::-1],
        "servers": found["servers"][:_MOST_ROWS],
        "sources": found["sources"][:_MOST_ROWS],
        "done": visit.notice,
        "problem": problem,
    }
    return Page("files.html", values, 200 if problem is None else problem.status)


async def _describe_waiting(visit: Visit, items: list[Any]) -> list[Any]:
    """Return what waits with what it says and what has changed; what was approved meanwhile not."""
    shown = []
    for each in items:
        try:
            shown.append(await visit.api.get("/v1/lock/{}", each["name"]))
        except Problem as problem:
            if problem.status != 404:
                raise
    return shown


def _split_errors(errors: list[Any]) -> list[Any]:
    """Return what is wrong with each file, as many lines of each as the page has room for."""
    found = [_split_error(each) for each in errors]
    most = max(1, _MOST_ERRORS // max(1, len(found)))
    return [{**each, "lines": each["lines"][:most]} for each in found]


def _split_error(error: Any) -> dict[str, Any]:
    """Return an error with the place of each of its lines apart, where it has one."""
    lines = []
    for line in error["message"].split("\n"):
        found = _PLACE.fullmatch(line)
        place, said = (found["place"], found["said"]) if found else ("", line)
        lines.append({"place": place, "said": said})
    return {"file": error["file"], "lines": lines, "count": len(lines)}


ROUTES = (show_files, reload_files, roll_back, approve_definition)
