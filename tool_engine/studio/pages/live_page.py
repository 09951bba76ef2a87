"""What runs at this moment, what waits, and why?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any, Final

from tool_engine.access.problem import Problem
from tool_engine.studio.pages.timeline import draw_timeline
from tool_engine.studio.visit import Move, Page, Pieces, Visit, show_at

_FRAME: Final = 0.06
"""Seconds between two looks; what happens in between is in the next one."""
_STILL: Final = 2.0
"""Seconds after which a view is sent again that has not changed."""
_SHARE: Final = 25
"""A view that takes long to make and to send is made less often: a twenty-fifth of the time."""
_UNSAID: Final = dict.fromkeys(("wait_p95", "paused_for", "breaker", "adaptive"))
"""What a controller of a program's own need not say of its buckets."""
_MOST_SHOWN: Final = 20
"""Holders and waiters of one bucket on a page."""
_SHOWN: Final = ("current_concurrent", "queue_length", "zombies")
"""The figures of the page that are news; others grow with each call."""
_MOST_EXPLAINED: Final = 10
"""Waiters of one bucket whose estimate is asked for."""
_EXPLAINED_FOR: Final = 1.0
"""Seconds for which an explanation holds."""
_MINUTES: Final = 5
_MOST_BARS: Final = 1_000


@show_at("GET", "/", scope="read")
async def show_live(visit: Visit) -> Page:
    """Show slots, queues and what they wait for."""
    view = LiveView(visit)
    seen = await view.explain(await view.look())
    looks = {
        **await _look_back(visit),
        **await _look_at(visit, "cluster"),
        **await _look_at(visit, "fleet"),
    }
    return Page("live.html", {"view": seen, **looks})


@show_at("GET", "/live/stream", scope="read")
async def follow_live(visit: Visit) -> Pieces:
    """Send the view again whenever it has changed."""
    return Pieces(_follow_view(visit))


@show_at("GET", "/live/timeline", scope="read")
async def show_timeline(visit: Visit) -> Page:
    """Show which calls held slots in the last minutes."""
    return Page("timeline.html", await _look_back(visit))


@show_at("GET", "/live/cluster", scope="operate")
async def show_cluster(visit: Visit) -> Page:
    """Show what the processes of the cluster share, and who has it."""
    return Page("cluster.html", await _look_at(visit, "cluster"))


@show_at("GET", "/live/fleet", scope="operate")
async def show_fleet(visit: Visit) -> Page:
    """Show the machines that tools run on, their workers, and the calls that wait for one."""
    return Page("fleet.html", await _look_at(visit, "fleet"))


@show_at("GET", "/live/drain", scope="operate")
async def ask_for_drain(visit: Visit) -> Page:
    """Ask whether calls are to be refused, and say what becomes of those that are here."""
    found = await visit.api.get("/v1/admission")
    return Page("drain.html", {"metrics": found["metrics"]})


@show_at("POST", "/live/{action}", scope="operate")
async def steer_calls(visit: Visit) -> Move:
    """Pause, drain or resume."""
    action = visit.parts["action"]
    if action not in ("pause", "resume", "drain"):
        raise Problem(404, "unknown-path", "there is no such page")
    if action == "drain":
        await visit.api.post("/v1/drain", body={"timeout": 0.001})
    else:
        await visit.api.post(f"/v1/{action}")
    return Move("/")


@show_at("POST", "/live/calls/{call_id}/stop", scope="call")
async def stop_call(visit: Visit) -> Move:
    """End a call that runs or waits."""
    with suppress(Problem):  # it has ended meanwhile
        await visit.api.delete("/v1/calls/{}", visit.parts["call_id"])
    return Move("/")


@show_at("GET", "/live/what-if", scope="operate")
async def show_what_if(visit: Visit) -> Page:
    """Show how the last calls would have gone under another limit."""
    bucket, limit = visit.query.get("bucket", ""), visit.query.get("limit", "")
    if not limit.isdecimal() or not bucket:
        raise Problem(422, "invalid-form", "write the number of slots, such as 8")
    wanted = (
        {"max_concurrent": int(limit)} if bucket == "*" else {"bucket_limits": {bucket: int(limit)}}
    )
    found = await visit.api.post("/v1/simulations", body={"limits": wanted})
    return Page("what_if.html", {"bucket": bucket, "limit": int(limit), "found": found})


@show_at("POST", "/live/limits", scope="operate")
async def set_limit(visit: Visit) -> Move:
    """Set the limit of a bucket, or of all together."""
    bucket, limit = visit.form.get("bucket"), visit.form.get("limit")
    if not limit.isdecimal() or not bucket:
        raise Problem(422, "invalid-form", "write the number of slots, such as 8")
    wanted = (
        {"max_concurrent": int(limit)} if bucket == "*" else {"bucket_limits": {bucket: int(limit)}}
    )
    await visit.api.post("/v1/limits", body=wanted)
    return Move("/")


class LiveView:
    """What the page shows of slots and queues; one for each page that is open.

    Args:
        visit: Who looks.
    """

    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self._explained: dict[str, tuple[float, Any]] = {}
        self._rejected: tuple[float, int] | None = None
        self._rate: float | None = None

    async def look(self) -> dict[str, Any]:
        """Return what is so at this moment."""
        now = monotonic()
        found = await self._visit.api.get("/v1/admission")
        limits = await self._visit.api.get("/v1/limits")
        buckets = []
        for name in sorted(found["buckets"]):  # by name: what one is about to press stays there
            held = [each for each in found["held"] if each["bucket"] == name]
            waiting = [each for each in found["waiting"] if each["bucket"] == name]
            buckets.append(
                {
                    "name": name,
                    **_UNSAID,
                    **found["buckets"][name],
                    "held": held[:_MOST_SHOWN],
                    "more_held": max(0, len(held) - _MOST_SHOWN),
                    "waiting": waiting[:_MOST_SHOWN],
                    "more_waiting": max(0, len(waiting) - _MOST_SHOWN),
                }
            )
        metrics = found["metrics"]
        waits = [each["wait_p95"] for each in found["buckets"].values() if each.get("wait_p95")]
        return {
            "metrics": metrics,
            "max_concurrent": limits["max_concurrent"],
            "is_paused": found["is_paused"],
            "is_draining": found["is_draining"],
            "rejected_rate": self._measure_rejected(now, metrics["total_rejected"]),
            "wait_p95": max(waits, default=None),
            "buckets": buckets,
            "breakers": {
                name: state for name, state in found["tool_breakers"].items() if state != "closed"
            },
        }

    async def explain(self, seen: dict[str, Any]) -> dict[str, Any]:
        """Return what was seen, with why calls wait, behind whom, and for how long."""
        now, explained = monotonic(), {}
        for bucket in seen["buckets"]:
            for each in bucket["waiting"][:_MOST_EXPLAINED]:
                call_id = each["call_id"]
                explained[call_id] = await self._explain_wait(call_id, now)
        self._explained = {
            call_id: known for call_id, known in self._explained.items() if call_id in explained
        }
        return {**seen, "explained": explained}

    async def _explain_wait(self, call_id: str, now: float) -> Any:
        at, known = self._explained.get(call_id, (0.0, None))
        if known is not None and now - at < _EXPLAINED_FOR:
            return known
        try:
            known = await self._visit.api.get("/v1/calls/{}/explanation", call_id)
        except Problem:
            known = None  # it has ended meanwhile, or may not be seen
        self._explained[call_id] = (now, known)
        return known

    def _measure_rejected(self, now: float, total: int) -> float | None:
        """Return the calls that were rejected a second, over two seconds or more."""
        if self._rejected is None:
            self._rejected = (now, total)
        at, before = self._rejected
        if now - at >= _STILL:
            self._rate = (total - before) / (now - at)
            self._rejected = (now, total)
        return self._rate


async def _follow_view(visit: Visit) -> AsyncIterator[Page]:
    """Yield the view whenever it has changed, and when it has not for a while.

    To look costs a tenth of what it costs to write what is seen, and less than to hear of events.
    """
    view, known, sent_at = LiveView(visit), None, 0.0
    while True:
        began = monotonic()
        seen = await view.look()
        now, state = monotonic(), _leave_out_times(seen)
        if state != known or now - sent_at >= _STILL:
            yield Page("live_view.html", {"view": await view.explain(seen)})
            known, sent_at = state, now
        spent = monotonic() - began
        await asyncio.sleep(min(_STILL, max(_FRAME, spent * _SHARE)))


def _leave_out_times(seen: Any) -> Any:
    """Return what a view shows, but for what grows by itself: the page lets it grow."""
    return (
        seen["is_paused"],
        seen["is_draining"],
        seen["max_concurrent"],
        [seen["metrics"][name] for name in _SHOWN],
        seen["breakers"],
        [
            (
                each["name"],
                each["limit"],
                each["breaker"],
                each["paused_for"] is None,
                [(held["slot_id"], held["state"], held["is_overdue"]) for held in each["held"]],
                [(call["call_id"], call["position"], call["reason"]) for call in each["waiting"]],
            )
            for each in seen["buckets"]
        ],
    )


async def _look_back(visit: Visit) -> dict[str, Any]:
    """Return the timeline, or why there is none: what runs is shown all the same."""
    now = datetime.now(UTC)
    start = now - timedelta(minutes=_MINUTES)
    records: list[Any] = []
    query = {"start": start.isoformat(), "limit": "500"}
    while len(records) < _MOST_BARS:
        page, problem = await visit.api.find("/v1/records", query=query)
        if problem is not None:
            return {"timeline": None, "problem": problem}
        records += page["items"]
        if page["next"] is None:
            break
        query["cursor"] = page["next"]
    found = await visit.api.get("/v1/admission")
    timeline = draw_timeline(records, found["held"], start, now)
    return {"timeline": timeline, "problem": None}


async def _look_at(visit: Visit, name: str) -> dict[str, Any]:
    """Return the cluster or the fleet, or why it cannot be seen.

    None: there is none, or it may not be seen.
    """
    try:
        found, problem = await visit.api.find(f"/v1/{name}")
    except Problem:
        found = problem = None
    return {name: found, f"{name}_problem": problem}


ROUTES = (
    show_live,
    show_cluster,
    show_fleet,
    follow_live,
    show_timeline,
    show_what_if,
    set_limit,
    stop_call,
    ask_for_drain,
    steer_calls,
)
