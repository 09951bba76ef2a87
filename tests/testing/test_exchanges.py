"""Is a sent request held against the recorded one, in every part?"""

from __future__ import annotations

from typing import Any

import pytest
from yarl import URL

from tool_engine.testing.exchanges import Recording, SentRequest

OK: dict[str, Any] = {}
LINE = b"HTTP/1.1 200 OK\r\n"


def sent(
    url: str = "https://a.example/p",
    method: str = "GET",
    body: bytes = b"",
    headers: dict[str, str] | None = None,
) -> SentRequest:
    return SentRequest(method, URL(url), headers or {}, body)


def recorded(**request: Any) -> Recording:
    return Recording([{"request": {"url": "https://a.example/p", **request}, "response": OK}])


@pytest.mark.parametrize(
    ("recording", "request_"),
    [
        (recorded(), sent()),
        (recorded(), sent(headers={"accept": "*/*"})),
        (recorded(url="https://a.example:443/p?x=1&y=2"), sent("https://a.example/p?y=2&x=1")),
        (
            recorded(query={"x": 1, "y": True, "z": 1.5}),
            sent("https://a.example/p?x=1&y=true&z=1.5"),
        ),
        (recorded(query={"x": ["a", "b"]}), sent("https://a.example/p?x=a&x=b")),
        (
            recorded(url="https://a.example/p?x=a", query={"x": "b"}),
            sent("https://a.example/p?x=a&x=b"),
        ),
        (recorded(query={"q": "a b&c"}), sent("https://a.example/p?q=a+b%26c")),
        (recorded(url="https://a.example/é"), sent("https://a.example/%C3%A9")),
        (recorded(headers={"X-A": "b"}), sent(headers={"x-a": "b"})),
        (recorded(method="POST", json={"a": [1]}), sent(method="POST", body=b'{ "a": [1.0] }')),
        (recorded(method="POST", body="text é"), sent(method="POST", body="text é".encode())),
    ],
)
def test_the_recorded_request_is_answered(recording: Recording, request_: SentRequest) -> None:
    """The order of the query's names, the spelling of the URL and of JSON do not matter."""
    assert recording.answer(request_) is not None
    assert recording.problems == []


@pytest.mark.parametrize(
    ("recording", "request_", "told"),
    [
        (recorded(method="POST"), sent(), "method: expected POST, got GET"),
        (recorded(), sent("http://a.example/p"), "url: expected https://a.example/p, got http://a"),
        (recorded(), sent("https://b.example/p"), "url: expected"),
        (recorded(), sent("https://a.example:8443/p"), "url: expected"),
        (recorded(), sent("https://a.example/p/"), "url: expected"),
        (recorded(url="https://a.example/a%2Fb"), sent("https://a.example/a/b"), "url: expected"),
        (recorded(), sent("https://a.example/p?x=1"), 'query.x: not expected, got "1"'),
        (recorded(query={"x": 1}), sent(), 'query.x: expected "1", but it is missing'),
        (recorded(query={"x": ["a", "b"]}), sent("https://a.example/p?x=b&x=a"), "query.x[0]"),
        (recorded(headers={"X-A": "b"}), sent(), "headers.X-A: expected 'b', but it was not sent"),
        (
            recorded(headers={"X-A": "b"}),
            sent(headers={"x-a": "c"}),
            "headers.X-A: expected 'b', got 'c'",
        ),
        (recorded(json={"a": 1}), sent(body=b'{"a": 2}'), "json.a: expected 1, got 2"),
        (recorded(json={"a": 1}), sent(body=b"a=1"), 'json: expected {"a": 1}, got "a=1"'),
        (recorded(body="x"), sent(body=b"\xff"), 'body: expected "x", got "\\\\xff"'),
        (recorded(), sent(body=b"x"), "add json or body to the recorded request"),
        (recorded(url="http://[/"), sent(), "cannot be read"),
    ],
)
def test_a_difference_is_told(recording: Recording, request_: SentRequest, told: str) -> None:
    """Method, URL, query, headers and body: each difference names its place, and gets no answer."""
    assert recording.answer(request_) is None
    assert recording.is_broken
    assert [each for each in recording.problems if told in each]
    assert all(each.startswith("http[0].request.") for each in recording.problems)


def test_an_unrecorded_request_gets_no_answer_but_a_cure() -> None:
    """The message is what has to be added to the definition."""
    recording = Recording()
    assert recording.problems == []
    assert recording.answer(sent("https://a.example/p?x=1", "DELETE")) is None
    (told,) = recording.problems
    assert told == (
        "http[0]: the tool sent DELETE https://a.example/p?x=1, which is not recorded, so it went "
        "nowhere; add to the test's http: {request: {method: DELETE, "
        'url: "https://a.example/p?x=1"}, response: {status: 200, json: …}}'
    )


def test_a_request_that_was_not_sent_is_told() -> None:
    """A recording that is played back in part is a failure."""
    recording = recorded(method="PUT")
    assert "did not send PUT https://a.example/p" in recording.problems[0]
    assert not recording.is_broken


def test_after_a_difference_nothing_is_answered() -> None:
    """What follows a wrong request would rest on a wrong start; only the first is told."""
    recording = Recording([{"request": {"url": "https://a.example/p"}, "response": OK}] * 2)
    assert recording.answer(sent(method="POST")) is None
    assert recording.answer(sent()) is None
    assert len(recording.problems) == 1


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ({}, b"HTTP/1.1 200 OK\r\n\r\n"),
        ({"status": 204}, b"HTTP/1.1 204 No Content\r\n\r\n"),
        (
            {"status": 204, "body": "x"},
            b"HTTP/1.1 204 No Content\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n",
        ),
        ({"status": 599}, b"HTTP/1.1 599 \r\n\r\n"),
        (
            {"json": {"a": "é"}},
            LINE + b'Content-Type: application/json\r\n\r\n{"a": "\xc3\xa9"}',
        ),
        (
            {"json": None, "headers": {"content-type": "text/json"}},
            b"HTTP/1.1 200 OK\r\ncontent-type: text/json\r\n\r\nnull",
        ),
        (
            {
                "body": "x",
                "headers": {
                    "Content-Length": "9",
                    "Transfer-Encoding": "chunked",
                    "Content-Encoding": "gzip",
                },
            },
            LINE + b"Content-Type: text/plain; charset=utf-8\r\n\r\nx",
        ),
    ],
)
def test_the_answer_has_the_recorded_headers(response: dict[str, Any], answer: bytes) -> None:
    """An answer copied from a real one is read as its body stands, whatever its headers say."""
    recording = Recording([{"request": {"url": "https://a.example/p"}, "response": response}])
    assert recording.answer(sent()) == answer


def test_a_head_request_gets_no_body() -> None:
    """As over a network."""
    exchange = {
        "request": {"method": "HEAD", "url": "https://a.example/p"},
        "response": {"body": "xyz"},
    }
    answer = Recording([exchange]).answer(sent(method="HEAD"))
    assert answer is not None
    assert answer.endswith(b"\r\n")
