"""What waits for the consent of a person, and what do they answer?"""

from __future__ import annotations

from typing import Any, Final

from tool_engine.access.problem import Problem
from tool_engine.studio.visit import Move, Page, Visit, show_at

_ANSWERS: Final[dict[str, dict[str, Any]]] = {
    "allow": {"is_allowed": True},
    "allow-this": {"is_allowed": True, "is_remembered": False},
    "always-call": {"is_allowed": True, "always": "call"},
    "always-tool": {"is_allowed": True, "always": "tool"},
    "refuse": {"is_allowed": False},
    "refuse-this": {"is_allowed": False, "is_remembered": False},
}
"""What each button of a request says."""
_MOST_SHOWN: Final = 100


@show_at("GET", "/approvals", scope="approve")
async def list_approvals(visit: Visit) -> Page:
    """Show the requests that are open, the oldest of each principal first."""
    found = (await visit.api.get("/v1/approvals"))["items"]
    values = {"requests": found[:_MOST_SHOWN], "count": len(found), "now_done": None}
    return Page("approval_list.html" if visit.is_partial else "approvals.html", values)


@show_at("GET", "/approvals/count", scope="approve")
async def count_approvals(visit: Visit) -> Page:
    """Show how many wait, in the menu."""
    found = (await visit.api.get("/v1/approvals"))["items"]
    return Page("approval_count.html", {"count": len(found)})


@show_at("POST", "/approvals/{token}", scope="approve")
async def answer_approval(visit: Visit) -> Move:
    """Give the answer of a person, to what they have read: another definition is refused."""
    said = _ANSWERS.get(visit.form.get("answer"))
    if said is None:
        raise Problem(422, "invalid-form", "choose what to answer")
    body = {**said, "definition_hash": visit.form.get("definition_hash")}
    reason = visit.form.get("reason").strip()
    if reason and not said["is_allowed"]:
        body["reason"] = reason
    await visit.api.post("/v1/approvals/{}", visit.parts["token"], body=body)
    return Move("/approvals")


ROUTES = (list_approvals, count_approvals, answer_approval)
