"""What does a call return for the HTTP answer that it got?"""

from __future__ import annotations

from typing import Any

import msgspec
from jmespath.exceptions import JMESPathError

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.http_body import BodyError, excerpt, is_json_type, read_body, read_json
from tool_engine.executors.http_entry import HTTPEntry

__all__ = ["HTTPAnswer", "described", "selected"]


class HTTPAnswer(msgspec.Struct, frozen=True):
    """What came back."""

    status: int
    reason: str
    headers: dict[str, str]
    content_type: str
    charset: str | None
    body: bytes
    origin: str


def described(answer: HTTPAnswer) -> dict[str, Any]:
    """The whole answer, whatever its status: `{"status_code", "headers", "body"}`."""
    body = read_body(answer.body, answer.content_type, answer.charset)
    return {"status_code": answer.status, "headers": answer.headers, "body": body}


def selected(answer: HTTPAnswer, entry: HTTPEntry) -> Any:
    """The body, or what `entry.response` selects in it; `{"status_code"}` where there is none.

    Raises:
        ToolExecutionError: The status is no success, or the body is not what the entry needs.
    """
    if not 200 <= answer.status < 300:
        said = excerpt(answer.body, answer.content_type, answer.charset)
        message = f"{answer.origin} answered {answer.status} {answer.reason}".rstrip() + f": {said}"
        raise ToolExecutionError(message, details={"status_code": answer.status})
    is_json = is_json_type(answer.content_type)
    if entry.select is None:
        if not answer.body:
            return {"status_code": answer.status}
        if not is_json:
            return read_body(answer.body, answer.content_type, answer.charset)
    if not is_json:
        raise ToolExecutionError(
            f"{answer.origin} answered with {answer.content_type or 'no content type'}, and "
            "entry.response can select only in JSON"
        )
    try:
        value = read_json(answer.body, answer.charset)
        return value if entry.select is None else entry.select.search(value)
    except BodyError as error:
        message = f"{answer.origin} says that it answers with JSON, but: {error}"
    except (JMESPathError, RecursionError, TypeError) as error:
        message = f"entry.response does not fit the answer of {answer.origin}: {error}"
    raise ToolExecutionError(message)
