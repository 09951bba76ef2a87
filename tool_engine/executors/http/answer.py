"""What does a call return for its HTTP answer?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from jmespath.exceptions import JMESPathError
from jmespath.parser import ParsedResult
from multidict import MultiMapping
from yarl import URL

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.http.body import (
    BodyError,
    is_json_type,
    make_excerpt,
    read_body,
    read_json,
)
from tool_engine.model.content.blocks import lay_out
from tool_engine.model.content.pieces import MOST_BYTES, AudioContent, ImageContent, is_mime_type

_CONTENT: Final = {"image": ImageContent, "audio": AudioContent}
_LARGE: Final = 128 * 1024
"""A larger body, in bytes, is read in a thread."""
_IN_TIME: Final = frozenset({408, 409, 423, 425, 429})
"""Refusals (RFC 9110, 15.5; RFC 4918, 8470, 6585) that may succeed a little later."""


class HTTPAnswer(msgspec.Struct, frozen=True):
    status: int
    reason: str
    received: Mapping[str, str]
    content_type: str
    charset: str | None
    body: bytes
    url: URL

    @property
    def origin(self) -> str:
        """The host and port that answered."""
        return str(self.url.host_port_subcomponent)

    @property
    def status_line(self) -> str:
        """The status with its reason, as a message may show it."""
        reason = "".join(char for char in self.reason[:80] if char.isprintable())
        return f"{self.status} {reason}".rstrip()

    @property
    def headers(self) -> dict[str, str]:
        received = self.received
        headers = dict(received)
        if not isinstance(received, MultiMapping) or len(received) == len(
            {name.lower() for name in headers}
        ):
            return headers
        names: dict[str, str] = {}
        for name in received:
            names.setdefault(name.lower(), name)
        return {name: ", ".join(received.getall(name)) for name in names.values()}


def is_quick(size: int) -> bool:
    return size <= _LARGE


async def run_apart(size: int, function: Callable[..., Any], *args: Any) -> Any:
    """Return `function(*args)`, in a thread if the arguments hold many bytes."""
    return function(*args) if is_quick(size) else await asyncio.to_thread(function, *args)


def describe_answer(answer: HTTPAnswer) -> dict[str, Any]:
    body = read_body(answer.body, answer.content_type, answer.charset)
    return {"status_code": answer.status, "headers": answer.headers, "body": body}


def select_body(answer: HTTPAnswer, select: ParsedResult | None) -> Any:
    """Return the body or what `select` finds in it; `{"status_code"}` without a body."""
    check_success(answer)
    if select is None:
        if not answer.body:
            return {"status_code": answer.status}
        if not is_json_type(answer.content_type):
            laid = _lay_out_media(answer)
            return laid or read_body(answer.body, answer.content_type, answer.charset)
        return json_of(answer)
    return search_value(select, json_of(answer), "entry.response", answer.origin)


def _lay_out_media(answer: HTTPAnswer) -> dict[str, Any] | None:
    """Return an image or a sound as content; None: the body is something else, or too large."""
    content_type = answer.content_type
    kind = _CONTENT.get(content_type.partition("/")[0])
    is_media = is_mime_type(content_type) and not content_type.endswith("+xml")
    if kind is None or not is_media or len(answer.body) > MOST_BYTES:
        return None
    laid: dict[str, Any] = lay_out(kind(answer.body, content_type))
    return laid


def check_success(answer: HTTPAnswer) -> None:
    if not 200 <= answer.status < 300:
        said = make_excerpt(answer.body, answer.content_type, answer.charset)
        message = f"{answer.origin} answered {answer.status_line}: {said}"
        raise ToolExecutionError(
            message,
            details={"status_code": answer.status},
            is_final=is_final_status(answer.status),
        )


def is_final_status(status: int) -> bool:
    """Return True if the same request would be refused at any time."""
    return 400 <= status < 500 and status not in _IN_TIME


def json_of(answer: HTTPAnswer) -> Any:
    if not is_json_type(answer.content_type):
        raise ToolExecutionError(
            f"{answer.origin} answered with {answer.content_type or 'no content type'}, and "
            "entry.response can select only in JSON"
        )
    try:
        return read_json(answer.body, answer.charset)
    except BodyError as error:
        raise ToolExecutionError(
            f"{answer.origin} says that it answers with JSON, but: {error}"
        ) from None


def search_value(expression: ParsedResult, value: Any, path: str, origin: str) -> Any:
    """Return what `expression`, from `path`, finds in `value`, from `origin`."""
    try:
        return expression.search(value)
    except (JMESPathError, RecursionError, TypeError) as error:
        raise ToolExecutionError(f"{path} does not fit the answer of {origin}: {error}") from None
