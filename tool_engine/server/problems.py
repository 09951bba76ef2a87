"""Which problems do several operations answer with?"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from tool_engine.access.problem import MEDIA_TYPE, Problem

_CURES: Final = {
    "call": (
        "see GET /v1/calls for those on their way at this server, GET /v1/tasks for tasks, and "
        "GET /v1/records for those that ended"
    ),
    "definition": "see GET /v1/lock for those that wait",
    "open request": "see GET /v1/approvals for those that wait",
    "record": "see GET /v1/records for those that are kept",
    "session": "see GET /v1/sessions for those that are kept",
    "task": "see GET /v1/tasks for those that are kept: each is forgotten once its ttl is over",
    "tool": "see GET /v1/tools for those that there are",
}
"""Where the names of each kind are found."""


def make_unknown(what: str, name: str, hint: str = "") -> Problem:
    """Return the one answer about what is not there, and what is not the principal's own.

    Args:
        what: Its kind.
        name: Its name.
        hint: More of what is wrong; one that begins with a semicolon is the cure itself.
    """
    cure = "" if hint.startswith(";") else f"; {_CURES[what]}"
    detail = f"there is no {what} {name[:128]!r}{hint}{cure}"
    return Problem(404, f"unknown-{what.replace(' ', '-')}", detail)


def make_invalid(detail: str) -> Problem:
    """Return the answer to a request that cannot be read, or asks for what cannot be."""
    return Problem(400, "invalid-request", detail)


def make_draining() -> Problem:
    """Return the answer to a call that comes while none are taken any more."""
    return Problem(
        503,
        "draining",
        "no more calls are taken here: the server is about to end, or an operator has asked for it;"
        " send the call again, to another server or later",
        retry_after=5.0,
    )


def list_errors(*statuses: int) -> dict[str, Any]:
    """Return how a description names the problems of these statuses."""
    schema = {"$ref": "#/components/schemas/ProblemDetails"}
    return {
        str(status): {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": schema}},
        }
        for status in statuses
    }
