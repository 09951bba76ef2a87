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
from tool_engine.studio.pages.call_tree import (
    find_above,
    find_below,
    find_record,
    find_state,
)
from tool_engine.studio.pages.history_page import describe_record
from tool_engine.studio.path_parts import write_part
from tool_engine.studio.visit import Download, Move, Page, Pieces, Visit, show_at

_FRAME: Final = 0.1
"""Seconds between two views of a page, at least."""
_STILL: Final = 2.0
"""Seconds after which a view is made anew where no event came."""
_LATE: Final = 0.5
"""Seconds that the last words of a call may take to come."""
_MOST_LINES: Final = 200
"""Lines that a tool says, the newest, which a page holds."""
_PASSING: Final = ("execution_progress", "execution_logged")
_KNOWN: Final = frozenset(
    ("bucket", "queue_wait", "caller_id", "caller_type", "conversation_id", "session_id")
) | {"task_id", "parent_call_id", "lines", "lines_before"}
"""What each event of a call says again, or has a place of its own on the page."""


class _Heard(msgspec.Struct):
    """What an open page has heard of a call."""

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
    return Move(f"/history/calls/{write_part(call_id)}")


@show_at("GET", "/history/calls/{call_id}/record", scope="read")
async def download_record(visit: Visit) -> Download:
    """Send the record of a call, with its result as whole as it is kept."""
    record = await find_record(visit, visit.parts["call_id"])
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
    state = await find_state(visit, call_id)
    record = state.get("record")
    record = None if record is None else describe_record(record)
    found = await visit.api.get("/v1/calls/{}/events", call_id)
    events = found["items"]
    stages = draw_stages(state, record, events, datetime.now(UTC))
    is_ended = state["state"] == "ended"
    present = [] if is_ended else (await visit.api.get("/v1/calls"))["items"]
    return {
        "call": state,
        "record": record,
        "events": [_describe_event(each, events[0]) for each in events],
        "is_kept": found["is_kept"],
        "stages": stages,
        "has_attempts": any(each.number > 1 for each in stages),
        "whole_size": None if record is None else _read_whole_size(record["result"]),
        "why": await _explain_wait(visit, state),
        "above": await find_above(visit, state["parent_call_id"]),
        "below": await find_below(visit, call_id, present),
        "said": _choose_lines(heard, events),
        "heard": heard,
    }


def _read_whole_size(result: dict[str, Any]) -> int | None:
    """Return the bytes of a result of which a record has only the beginning."""
    cut = result.get("_truncated")
    size = cut.get("size") if isinstance(cut, dict) else None
    return size if isinstance(size, int) else None


async def _explain_wait(visit: Visit, state: dict[str, Any]) -> Any:
    if state["state"] not in ("queued", "sharing"):
        return None
    try:
        return await visit.api.get("/v1/calls/{}/explanation", state["call_id"])
    except Problem:
        return None  # it has ended meanwhile


def _choose_lines(heard: _Heard, events: list[Any]) -> dict[str, Any]:
    """Return the lines of a call, as this page has heard them or its final event keeps them."""
    kept = events[-1]["data"] if events else {}
    if len(kept.get("lines", ())) > len(heard.lines):
        return {"lines": kept["lines"], "before": kept.get("lines_before", 0)}
    return {"lines": heard.lines, "before": heard.dropped}


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
                    _note_passing(heard, name, event)
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


def _note_passing(heard: _Heard, name: str, event: dict[str, Any]) -> None:
    data = event["data"]
    if name == "execution_progress":
        heard.progress = data
        return
    heard.dropped += data.get("dropped") or 0
    heard.lines.append({"at": event["timestamp"], **data})
    heard.dropped += max(0, len(heard.lines) - _MOST_LINES)
    del heard.lines[:-_MOST_LINES]


ROUTES = (show_call, follow_call, stop_shown_call, download_record)
