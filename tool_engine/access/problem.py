"""How does a client learn that what it asked for cannot be done?

As RFC 9457 says: a JSON object with the status, what kind of problem it is, and what to do. A call
that fails is no problem: its result says so.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

import msgspec

from tool_engine.model.json.returned_value import to_json
from tool_engine.redaction import shorten_words

MEDIA_TYPE: Final = "application/problem+json"
NOT_KEPT: Final = (b"cache-control", b"no-store")
PROTECTED: Final = ((b"x-content-type-options", b"nosniff"),)
"""Headers of every answer."""


class ProblemDetails(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What an answer with a status of 400 and above says."""

    type: str
    """A name for this kind of problem: `urn:tool-engine:...`."""
    title: str
    status: int
    detail: str
    """What is wrong, and after a semicolon what to do about it."""
    retry_after: float | None = None
    """Seconds after which the same request may be answered."""


class Problem(Exception):  # noqa: N818 - an answer, not a failure of this program
    """An answer that says why a request is not done.

    Args:
        status: The HTTP status.
        kind: The kind of problem, in words joined by hyphens.
        detail: What is wrong, and after a semicolon what to do.
        headers: Further headers of the answer.
        retry_after: Seconds after which the same request may be answered.
    """

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        *,
        headers: dict[str, str] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.headers = headers or {}
        self.retry_after = retry_after

    def write(self) -> tuple[int, bytes, dict[str, str]]:
        """Return the status, the body and the headers of the answer."""
        details = ProblemDetails(
            type=f"urn:tool-engine:{self.kind}",
            title=HTTPStatus(self.status).phrase,
            status=self.status,
            detail=shorten_words(str(self)),
            retry_after=self.retry_after,
        )
        headers = {**self.headers, "content-type": MEDIA_TYPE}
        if self.retry_after is not None:
            headers["retry-after"] = str(max(1, round(self.retry_after)))
        return self.status, to_json(details), headers


def make_ended() -> Problem:
    """Return the answer to a request that the end of the server has cut off."""
    return Problem(
        503,
        "server-ended",
        "the server has ended before the answer was there: a call is cancelled, and a task is "
        "kept; see their records, or send the request again",
    )


def make_unknown(*, is_sent: bool = True) -> Problem:
    """Return the answer to a client whose token is not taken, or that has sent none."""
    return Problem(
        401,
        "unknown-token",
        "no token, or one that is not known; send a known one in the header Authorization: Bearer",
        headers={"www-authenticate": 'Bearer error="invalid_token"' if is_sent else "Bearer"},
    )


async def send_problem(problem: Problem, send: Any, *, is_last: bool = True) -> None:
    """Send a problem as the answer to a request; without `is_last` its end is to follow."""
    status, body, headers = problem.write()
    raw = [*PROTECTED, NOT_KEPT]
    raw += [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    raw.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body, "more_body": not is_last})


def write_too_many() -> bytes:
    """Return the answer to a client beyond the connections that a server may have."""
    detail = "this server has as many connections as it may have; try again later"
    return _write_last(Problem(503, "too-many-connections", detail, headers={"retry-after": "5"}))


def write_unreadable(error: BaseException | None) -> bytes:
    """Return the answer to what is no request of HTTP, or has a head that is not read to its end.

    Args:
        error: What h11 says of it.
    """
    if getattr(error, "error_status_hint", None) == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
        detail = "the head of the request is too large; send a shorter address and fewer headers"
        return _write_last(Problem(431, "too-large", detail))
    detail = (
        "this is no HTTP request; send one Host, one length of the body, and no control characters"
    )
    return _write_last(Problem(400, "no-http", detail))


def _write_last(problem: Problem) -> bytes:
    status, body, headers = problem.write()
    said = {**headers, "connection": "close", "content-length": str(len(body))}
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
    lines += [f"{name}: {value}" for name, value in said.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body
