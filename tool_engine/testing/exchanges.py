"""Which HTTP requests did a test expect, which were sent, and how are they answered?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec
from yarl import URL

from tool_engine.executors.templates import value_text
from tool_engine.testing.comparison import find_differences, json_line

_FRAMING: Final = frozenset({"content-length", "transfer-encoding", "content-encoding"})
_BODILESS: Final = frozenset({204, 304})


class SentRequest(msgspec.Struct, frozen=True):
    """One request as it was sent."""

    method: str
    url: URL
    headers: dict[str, str]
    """By name in lower case."""
    body: bytes

    def __str__(self) -> str:
        return f"{self.method} {self.url}"


class Recording:
    """The exchanges of one test, played back in their order.

    Once a request differs, no further one is answered: what follows would rest on a wrong start.

    Args:
        exchanges: The test's `http`; each has a `request` and a `response`.
    """

    def __init__(self, exchanges: Sequence[Mapping[str, Any]] = ()) -> None:
        self._exchanges = exchanges
        self._next = 0
        self._problems: list[str] = []

    @property
    def is_broken(self) -> bool:
        """True if a request was sent that is not the recorded one."""
        return bool(self._problems)

    @property
    def problems(self) -> list[str]:
        """Return where the requests so far differ from the recorded ones."""
        if self._problems or self._next == len(self._exchanges):
            return self._problems
        return [_explain_unsent(self._exchanges[self._next]["request"], self._next)]

    def answer(self, sent: SentRequest) -> bytes | None:
        """Return the recorded answer to the next request; None: it is another request."""
        if self._problems:
            return None
        if self._next == len(self._exchanges):
            self._problems = [_explain_unrecorded(sent, self._next)]
            return None
        exchange = self._exchanges[self._next]
        place = f"http[{self._next}].request"
        self._problems = [f"{place}.{each}" for each in _find_mismatches(exchange["request"], sent)]
        if self._problems:
            return None
        self._next += 1
        return _encode_answer(exchange["response"], has_body=sent.method != "HEAD")


def _explain_unsent(request: Mapping[str, Any], number: int) -> str:
    return (
        f"http[{number}]: the tool did not send {request.get('method', 'GET')} {request['url']}; "
        "correct the tool, or remove the exchange: only what a tool with type: http or handler: "
        "http_request sends is seen here"
    )


def _explain_unrecorded(sent: SentRequest, number: int) -> str:
    return (
        f"http[{number}]: the tool sent {sent}, which is not recorded, so it went nowhere; add to "
        f'the test\'s http: {{request: {{method: {sent.method}, url: "{sent.url}"}}, '
        "response: {status: 200, json: …}}"
    )


def _find_mismatches(expected: Mapping[str, Any], sent: SentRequest) -> Iterator[str]:
    method = expected.get("method", "GET")
    if method != sent.method:
        yield f"method: expected {method}, got {sent.method}"
    yield from _url_mismatches(expected, sent.url)
    for name, value in expected.get("headers", {}).items():
        got = sent.headers.get(name.lower())
        if got != value:
            found = "it was not sent" if got is None else f"got {got!r}"
            yield f"headers.{name}: expected {value!r}, {'but ' if got is None else ''}{found}"
    yield from _body_mismatches(expected, sent)


def _url_mismatches(expected: Mapping[str, Any], sent: URL) -> Iterator[str]:
    try:
        url = URL(expected["url"])
        # As a person writes it, or as it is sent: yarl would turn some `%3D` into `=`.
        is_same = _split_address(sent) in (
            _split_address(url),
            _split_address(URL(expected["url"], encoded=True)),
        )
    except ValueError as error:
        yield f"url: {expected['url']!r} cannot be read: {error}"
        return
    if not is_same:
        place = expected["url"].partition("?")[0]
        yield f"url: expected {place}, got {sent.with_query(None)}"
    wanted = _by_name(url)
    for name, value in expected.get("query", {}).items():
        values = value if isinstance(value, list) else [value]
        wanted.setdefault(name, []).extend(value_text(name, each) for each in values)
    yield from find_differences(
        _flatten_query(wanted), _flatten_query(_by_name(sent)), root="query"
    )


def _split_address(url: URL) -> tuple[str, str | None, int | None, str]:
    return url.scheme, url.raw_host, url.port, url.raw_path


def _by_name(url: URL) -> dict[str, list[str]]:
    return {name: url.query.getall(name) for name in url.query}


def _flatten_query(query: dict[str, list[str]]) -> dict[str, Any]:
    return {name: values[0] if len(values) == 1 else values for name, values in query.items()}


def _body_mismatches(expected: Mapping[str, Any], sent: SentRequest) -> Iterator[str]:
    text = sent.body.decode("utf-8", "backslashreplace")
    if "json" in expected:
        try:
            yield from find_differences(expected["json"], json.loads(text), root="json")
        except (ValueError, RecursionError):
            yield f"json: expected {json_line(expected['json'])}, got {json_line(text)}"
    elif (wanted := expected.get("body", "")) != text:
        cure = "" if "body" in expected else "; add json or body to the recorded request"
        yield f"body: expected {json_line(wanted)}, got {json_line(text)}{cure}"


def _encode_answer(response: Mapping[str, Any], *, has_body: bool) -> bytes:
    """Return the answer as bytes; without framing headers, as the connection ends it."""
    status = response.get("status", 200)
    given = response.get("headers", {})
    headers = [(name, value) for name, value in given.items() if name.lower() not in _FRAMING]
    body, kind = b"", ""
    if "json" in response:
        body, kind = json.dumps(response["json"], ensure_ascii=False).encode(), "application/json"
    elif "body" in response:
        body, kind = response["body"].encode(), "text/plain; charset=utf-8"
    if kind and not any(name.lower() == "content-type" for name, _ in headers):
        headers.append(("Content-Type", kind))
    lines = [
        f"HTTP/1.1 {status} {_find_phrase(status)}",
        *(f"{name}: {text}" for name, text in headers),
    ]
    head = "\r\n".join([*lines, "", ""]).encode()
    return head + body if has_body and status not in _BODILESS else head


def _find_phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
