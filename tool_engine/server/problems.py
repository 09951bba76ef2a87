"""Which problems do several operations answer with?"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from tool_engine.access.problem import MEDIA_TYPE, Problem


def make_unknown(what: str, name: str, hint: str = "") -> Problem:
    """Return the one answer about what is not there, and what is not the principal's own."""
    return Problem(
        404, f"unknown-{what.replace(' ', '-')}", f"there is no {what} {name[:128]!r}{hint}"
    )


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
