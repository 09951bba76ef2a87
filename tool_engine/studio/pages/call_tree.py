"""Which calls did a call make, and which led to it?"""

from __future__ import annotations

from typing import Any, Final

from tool_engine.access.problem import Problem
from tool_engine.studio.pages.history_page import describe_record
from tool_engine.studio.visit import Page, Visit, show_at

_MOST_BELOW: Final = 20
"""Calls that one call made which are shown at once, the newest."""
_MOST_ASKED: Final = 30
"""Calls of a tree whose own calls are asked for at once."""
_MOST_ABOVE: Final = 10


@show_at("GET", "/history/calls/{call_id}/below", scope="read")
async def show_more_calls(visit: Visit) -> Page:
    """Show more calls that a call made, and their own: for a place of the tree where it was cut."""
    call_id, cursor = visit.parts["call_id"], visit.query.get("cursor", "")
    branch = await find_below(visit, call_id, [], cursor)
    return Page("call_branch.html", {"branch": branch, "is_still": True})


async def find_above(visit: Visit, parent: str | None) -> list[dict[str, Any]]:
    """Return the calls that led to one, the first one first.

    Args:
        visit: Who asks.
        parent: The call that made it.
    """
    found: list[dict[str, Any]] = []
    while parent and len(found) < _MOST_ABOVE:
        try:
            above = await find_state(visit, parent)
        except Problem:
            found.append({"call_id": parent, "tool_name": None})  # not kept any more, or of others
            break
        found.append(above)
        parent = above["parent_call_id"]
    return found[::-1]


async def find_state(visit: Visit, call_id: str) -> dict[str, Any]:
    """Return a call on its way or ended, as the API shows it.

    Raises:
        Problem: There is none, or it is that of another principal.
    """
    if visit.principal.may("call"):
        state: dict[str, Any] = await visit.api.get("/v1/calls/{}", call_id)
        return state
    record = await find_record(visit, call_id)
    if record is None:
        raise Problem(404, "unknown-call", f"no call {call_id!r} has ended that you may see")
    return {**record, "state": "ended", "seconds": record["execution_time"], "record": record}


async def find_record(visit: Visit, call_id: str) -> Any:
    """Return what is kept of a call; None: nothing that the principal may see."""
    found = await visit.api.get("/v1/records", query={"call_id": call_id, "limit": "1"})
    return found["items"][0] if found["items"] else None


async def find_below(
    visit: Visit, call_id: str, present: list[Any], cursor: str = ""
) -> list[dict[str, Any]]:
    """Return the calls that a call has made, each with its own in `below`, the oldest first.

    Where there are more, one stands for them: with `more_of`, whose they are, and the `cursor`
    behind which they come; or with `unasked`, the call whose own were not asked for.

    Args:
        visit: Who asks.
        call_id: The call.
        present: The calls that are on their way.
        cursor: Where the calls of `call_id` go on, from the newest back.
    """
    top = await _ask_below(visit, call_id, present, cursor)
    left = [each for each in top if "call_id" in each]
    for _ in range(_MOST_ASKED):
        if not left:
            break
        call = left.pop(0)
        if call["call_id"] is not None:
            call["below"] = await _ask_below(visit, call["call_id"], present)
            left += [each for each in call["below"] if "call_id" in each]
    for call in left:
        if call["call_id"] is not None:
            call["below"] = [{"unasked": call["call_id"]}]
    return top


async def _ask_below(
    visit: Visit, call_id: str, present: list[Any], cursor: str = ""
) -> list[dict[str, Any]]:
    query = {"parent_call_id": call_id, "limit": str(_MOST_BELOW), "cursor": cursor}
    ended = await visit.api.get("/v1/records", query=query)
    more = [] if ended["next"] is None else [{"more_of": call_id, "cursor": ended["next"]}]
    found = [describe_record(each) for each in reversed(ended["items"])]
    known = {each["call_id"] for each in found}  # one may have ended since it was seen on its way
    running = [
        {**each, "outcome": each["state"], "execution_time": each["seconds"]}
        for each in present
        if each["parent_call_id"] == call_id and each["call_id"] not in known
    ]
    return [*more, *found, *running[:_MOST_BELOW]]


ROUTES = (show_more_calls,)
