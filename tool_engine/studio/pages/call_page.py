"""What happened to one call, or happens to it now?"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from tool_engine.access.problem import Problem
from tool_engine.studio.pages.call_timeline import FINAL, draw_stages
from tool_engine.studio.pages.history_page import describe_record
from tool_engine.studio.visit import Download, Move, Page, Pieces, Visit, show_at

_FRAME: Final = 0.1
"""Seconds between two views of a page, at least."""
_STILL: Final = 2.0
"""Seconds after which a view is made anew where no event came."""
_LATE: Final = 0.5
"""Seconds that the last words of a call may take to come."""
_MOST_LINES: Final = 200
"""Lines that a tool says, the newest, which a page holds."""
_MOST_BELOW: Final = 20
"""Calls that one call made which the tree shows."""
_MOST_ASKED: Final = 30
"""Calls of the tree whose own calls are asked for."""
_MOST_ABOVE: Final = 10
_PASSING: Final = ("execution_progress", "execution_logged")
_KNOWN: Final = frozenset(
    ("bucket", "queue_wait", "caller_id", "caller_type", "conversation_id", "session_id")
) | {"task_id", "parent_call_id"}
"""What each event of a call says again."""


class _Heard(msgspec.Struct):
    """What an open page has heard of a call and nothing keeps."""

    lines: list[Any] = []
    progress: Any = None
    dropped: int = 0
    is_over: bool = False


@show_at("GET", "/history/calls/{call_id}", scope="read")
async def show_call(visit: Visit) -> Page:
    """Show a call, on its way or ended."""
    values = await _look_at(visit, _Heard())
    return Page("call.html", values)


@show_at("GET", "/history/calls/{call_id}/stream", scope="call")
async def follow_call(visit: Visit) -> Pieces:
    """Send the view of a call whenever something happens to it, until it has ended."""
    return Pieces(_follow_call(visit), says_end=True)


@show_at("POST", "/history/calls/{call_id}/stop", scope="call")
async def stop_shown_call(visit: Visit) -> Move:
    """End a call that is on its way, and show how it ended."""
    call_id = visit.parts["call_id"]
    await visit.api.delete("/v1/calls/{}", call_id)
    return Move(f"/history/calls/{call_id}")


@show_at("GET", "/history/calls/{call_id}/record", scope="read")
async def download_record(visit: Visit) -> Download:
    """Send the record of a call, with its result as whole as it is kept."""
    record = await _find_record(visit, visit.parts["call_id"])
    if record is None:
        raise Problem(404, "unknown-record", "nothing is kept of this call")
    path, query = "/v1/records/{}", {"whole": "true"}
    data = await visit.api.download(path, record["record_id"], query=query)
    name = re.sub(r"[^A-Za-z0-9.-]", "-", visit.parts["call_id"])[:100]
    return Download(data, f"{name}.json", "application/json")


async def _look_at(visit: Visit, heard: _Heard) -> dict[str, Any]:
    """Return what is known of a call at this moment.

    Raises:
        Problem: There is none, or it is that of another principal.
    """
    call_id = visit.parts["call_id"]
    state = await _find_state(visit, call_id)
    record = state.get("record")
    record = None if record is None else describe_record(record)
    found = await visit.api.get("/v1/calls/{}/events", call_id)
    events = found["items"]
    stages = draw_stages(state, record, events, datetime.now(UTC))
    return {
        "call": state,
        "record": record,
        "events": [_describe_event(each, events[0]) for each in events],
        "is_kept": found["is_kept"],
        "stages": stages,
        "has_attempts": any(each.number > 1 for each in stages),
        "whole_size": None if record is None else _read_whole_size(record["result"]),
        "why": await _explain_wait(visit, state),
        "above": await _find_above(visit, state),
        "below": await _find_below(visit, state),
        "heard": heard,
    }


def _read_whole_size(result: dict[str, Any]) -> int | None:
    """Return the bytes of a result of which a record has only the beginning."""
    cut = result.get("_truncated")
    size = cut.get("size") if isinstance(cut, dict) else None
    return size if isinstance(size, int) else None


async def _find_state(visit: Visit, call_id: str) -> dict[str, Any]:
    if visit.principal.may("call"):
        state: dict[str, Any] = await visit.api.get("/v1/calls/{}", call_id)
        return state
    record = await _find_record(visit, call_id)
    if record is None:
        raise Problem(404, "unknown-call", f"no call {call_id!r} has ended that you may see")
    return {**record, "state": "ended", "seconds": record["execution_time"], "record": record}


async def _find_record(visit: Visit, call_id: str) -> Any:
    found = await visit.api.get("/v1/records", query={"call_id": call_id, "limit": "1"})
    return found["items"][0] if found["items"] else None


async def _explain_wait(visit: Visit, state: dict[str, Any]) -> Any:
    if state["state"] not in ("queued", "sharing"):
        return None
    try:
        return await visit.api.get("/v1/calls/{}/explanation", state["call_id"])
    except Problem:
        return None  # it has ended meanwhile


async def _find_above(visit: Visit, state: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the calls that led to this one, the first one first."""
    found: list[dict[str, Any]] = []
    parent = state["parent_call_id"]
    while parent and len(found) < _MOST_ABOVE:
        try:
            above = await _find_state(visit, parent)
        except Problem:
            found.append({"call_id": parent, "tool_name": None})  # not kept any more, or of others
            break
        found.append(above)
        parent = above["parent_call_id"]
    return found[::-1]


async def _find_below(visit: Visit, state: dict[str, Any]) -> list[Any]:
    """Return the calls that a call has made, each with its own ones, as a tree."""
    present: list[Any] = []
    if state["state"] != "ended":
        present = (await visit.api.get("/v1/calls"))["items"]
    top: list[Any] = []
    left = [(state["call_id"], top)]
    for _ in range(_MOST_ASKED):
        if not left:
            break
        call_id, branch = left.pop(0)
        query = {"parent_call_id": call_id, "limit": str(_MOST_BELOW + 1)}
        ended = (await visit.api.get("/v1/records", query=query))["items"]
        branch += [describe_record(each) for each in reversed(ended)]
        branch += [
            {**each, "outcome": each["state"], "execution_time": each["seconds"]}
            for each in present
            if each["parent_call_id"] == call_id
        ]
        if len(branch) > _MOST_BELOW:
            branch[_MOST_BELOW:] = [{"more_of": call_id}]
        for each in branch:
            if each.get("call_id") is not None:
                each["below"] = []
                left.append((each["call_id"], each["below"]))
    for _, branch in left:
        branch.append({"unasked": True})
    return top


def _describe_event(event: dict[str, Any], first: dict[str, Any]) -> dict[str, Any]:
    facts = {
        name: value
        for name, value in event["data"].items()
        if name not in _KNOWN and value is not None
    }
    at, began = (datetime.fromisoformat(each["timestamp"]) for each in (event, first))
    return {
        **event,
        "facts": facts,
        "offset": max(0.0, (at - began).total_seconds()),
    }


async def _follow_call(visit: Visit) -> AsyncIterator[Page]:
    heard, news = _Heard(), asyncio.Event()
    query = {"call_id": visit.parts["call_id"]}

    async def listen() -> None:
        async with visit.api.stream("GET", "/v1/events", query=query) as events:
            async for name, event in events:
                if name in _PASSING:
                    _note_passing(heard, name, event["data"])
                heard.is_over = heard.is_over or name in FINAL
                news.set()

    listening = asyncio.create_task(listen(), name="tool-engine-studio-call")
    listening.add_done_callback(lambda _: news.set())
    try:
        while not listening.done():
            news.clear()
            values = await _look_at(visit, heard)
            is_ended = values["call"]["state"] == "ended"
            if is_ended and not heard.is_over:
                await _wait_for(news, _LATE)  # for what the tool said last
            yield Page("call_view.html", values)
            if is_ended:
                return
            await asyncio.sleep(_FRAME)
            await _wait_for(news, _STILL)
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


async def _wait_for(news: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await news.wait()


def _note_passing(heard: _Heard, name: str, data: dict[str, Any]) -> None:
    if name == "execution_progress":
        heard.progress = data
        return
    heard.dropped += data.get("dropped") or 0
    heard.lines.append(data)
    heard.dropped += max(0, len(heard.lines) - _MOST_LINES)
    del heard.lines[:-_MOST_LINES]


ROUTES = (show_call, follow_call, stop_shown_call, download_record)
