"""Does each problem say what is wrong and what to do, and is its kind in the reference?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any, get_type_hints

import msgspec
import pytest

from tests.access.conftest import head, speak
from tests.meta.sources import ROOT, tree
from tests.server.conftest import Answer, Client, Service
from tool_engine.server.app import OPERATIONS
from tool_engine.server.problems import _CURES

ROOMS = ("access", "server", "mcp_server")
REFERENCE = ROOT / "docs" / "reference" / "http-server.md"
WRONG: tuple[Any, ...] = (True, -1, {}, "x" * 20_000)


def list_problems() -> Iterator[tuple[int, str, str | None, str]]:
    """The status, kind, words and place of each problem in the sources; words None: not there."""
    for room in ROOMS:
        for path in sorted((ROOT / "tool_engine" / room).rglob("*.py")):
            for node in ast.walk(tree(path)):
                named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
                if not named or node.func.id != "Problem":  # type: ignore[attr-defined]
                    continue
                status, kind, detail = node.args[:3]  # type: ignore[attr-defined]
                if isinstance(kind, ast.Constant):
                    place = f"{path.relative_to(ROOT)}:{node.lineno}"  # type: ignore[attr-defined]
                    yield ast.literal_eval(status), str(kind.value), words_of(detail), place


def words_of(node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(words_of(each) or "{}" for each in node.values)
    return None


PROBLEMS = list(list_problems())


def test_they_are_found() -> None:
    """The sources are read as this test expects."""
    assert len(PROBLEMS) > 40
    assert (400, "two-lengths") in {each[:2] for each in PROBLEMS}


@pytest.mark.parametrize("problem", PROBLEMS, ids=[f"{each[1]}-{each[3]}" for each in PROBLEMS])
def test_each_kind_is_in_the_reference(problem: tuple[int, str, str | None, str]) -> None:
    """By its status and name, and its words have a cure."""
    status, kind, words, place = problem
    rows = [line for line in REFERENCE.read_text().splitlines() if line.startswith("| ")]
    fitting = [row for row in rows if str(status) in re.findall(r"\d{3}", row.split("|")[1])]
    assert any(f"`{kind}`" in row for row in fitting), f"{status} {kind} of {place}"
    if words is not None and words.replace("{}", "").strip(": "):
        assert re.search(r"; \w|\{\}$", words), f"no cure: {words}"


def test_what_is_not_there_is_in_the_reference() -> None:
    """Each kind of name that can be unknown."""
    text = REFERENCE.read_text()
    for what in (*_CURES, "format", "protocol"):
        assert f"`unknown-{what.replace(' ', '-')}`" in text


def check_problem(answer: Answer) -> str:
    """The words of a problem, which say what to do."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    detail: str = answer.json["detail"]
    assert re.search(r"; \S", detail), detail
    return detail


def fill_path(path: str) -> str:
    return re.sub(r"\{\w+\}", "xyz", path)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
async def test_what_does_not_fit(olga: Client, service: Service, operation: Any) -> None:
    """Each wrong field of a body and of an address is answered with a cure, and so is the path."""
    path, reader = fill_path(operation.path), service.client("reader")
    if operation.body is not None:
        known = get_type_hints(operation.body)
        bodies = [[], {"zz": 1}, *({name: each} for name in known for each in WRONG)]
        for body in bodies:
            answer = await olga.send(operation.method, path, json=body)
            if answer.status >= 400:
                check_problem(answer)
    if operation.query is not None and operation.name != "stream_events":
        known = get_type_hints(operation.query)
        for name, value in [("zz", "1"), *((name, each) for name in known for each in ("x", "-1"))]:
            answer = await olga.send(operation.method, f"{path}?{name}={value}")
            if answer.status >= 400:
                check_problem(answer)
    elif operation.body is None and "{" in path:
        check_problem(await olga.send(operation.method, path))
    if operation.scope not in (None, "read"):
        options: dict[str, Any] = {} if operation.body is None else {"json": {}}
        answer = await reader.send(operation.method, path, **options)
        assert answer.status in (403, 404, 422)
        check_problem(answer)


async def test_what_is_asked_for_by_a_name(olga: Client) -> None:
    """What is not there is answered with where names are found."""
    for operation in OPERATIONS:
        if "{" in operation.path and operation.body is None:
            answer = await olga.send(operation.method, fill_path(operation.path))
            assert answer.status == 404, operation.path
            check_problem(answer)


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("/v1/tools/add/calls", {"argument": {}}, "unknown field `argument`; did you mean 'argum"),
        (
            "/v1/tools/add/calls",
            {"a": 1, "b": 2},
            """; put it under 'arguments', as {"arguments": {"a": ...}}, or give one of""",
        ),
        *(
            ("/v1/tools/add/calls", {word: {"a": 1, "b": 2}}, "; rename it to 'arguments'")
            for word in ("params", "parameters", "args", "input")
        ),
        ("/v1/tools/add/calls", {"timeout": -1}, "Expected `float` > 0.0 - at `$.timeout`; give"),
        ("/v1/approvals/x", {}, "missing required field `is_allowed`; add it"),
    ],
)
async def test_the_cure_of_a_body(olga: Client, path: str, body: Any, says: str) -> None:
    answer = await olga.send("POST", path, json=body)
    assert answer.status == 422
    assert says in check_problem(answer)


async def test_the_cure_of_a_choice(olga: Client) -> None:
    """What may be chosen is listed."""
    answer = await olga.get("/v1/tasks?status=foo")
    assert answer.status == 400
    assert "give one of 'queued', 'running', 'input_required'" in check_problem(answer)


@pytest.mark.parametrize("key", ["", "x" * 513, "a\tb"])
async def test_a_key_that_is_none(ann: Client, key: str) -> None:
    """The header is what is wrong, and is named."""
    answer = await ann.send(
        "POST", "/v1/tools/add/calls", json={}, headers={"idempotency-key": key}
    )
    assert (answer.status, answer.kind) == (400, "invalid-request")
    said = check_problem(answer)
    assert f"Idempotency-Key must be 1 to 512 characters that can be seen, got {len(key)}: " in said


async def test_a_time_of_no_task(ann: Client) -> None:
    """`ttl` of a plain call is refused: nothing would heed it."""
    for headers in ({}, {"accept": "text/event-stream"}):
        answer = await ann.send(
            "POST", "/v1/tools/endless/calls", json={"ttl": 0.3}, headers=headers
        )
        assert (answer.status, answer.kind) == (422, "invalid-body")
        assert "`timeout`" in check_problem(answer)


@pytest.mark.parametrize(
    "lines",
    [
        ("Host: 127.0.0.1\r\n", "Host: 127.0.0.1\r\n"),
        ("Host: 127.0.0.1\r\n", "Content-Length: +2\r\n"),
        ("Host: 127.0.0.1\r\n", "Content-Length: 1\r\n", "Content-Length: 2\r\n"),
        ("Host: 127.0.0.1\r\n", "X: a\0b\r\n"),
        (),
    ],
)
async def test_what_is_no_request(
    service: Service, caplog: pytest.LogCaptureFixture, lines: tuple[str, ...]
) -> None:
    """It is a problem as any other, and a stranger's words fill no log."""
    answer = await speak(service.url, "GET /healthz HTTP/1.1\r\n" + "".join(lines) + "\r\n")
    start, _, body = answer.partition("\r\n\r\n")
    assert start.startswith("HTTP/1.1 400 ")
    assert "content-type: application/problem+json" in start
    said = msgspec.json.decode(body)
    assert said["type"] == "urn:tool-engine:no-http"
    assert "; " in said["detail"]
    assert caplog.records == []


@pytest.mark.parametrize("line", ["GET /{} HTTP/1.1\r\n", "GET / HTTP/1.1\r\nX: {}\r\n"])
async def test_a_head_without_end(service: Service, line: str) -> None:
    """What is too long is not read to its end, and says so."""
    answer = await speak(service.url, line.format("a" * 2_000_000))
    assert answer.startswith("HTTP/1.1 431 ")
    said = msgspec.json.decode(answer.partition("\r\n\r\n")[2])
    assert (said["type"], said["status"]) == ("urn:tool-engine:too-large", 431)
    assert "; send a shorter address" in said["detail"]


async def test_an_upgrade(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    """It is a request as any other, and no warning."""
    wish = ("Upgrade: websocket\r\n", "Connection: Upgrade, close\r\n")
    answer = await speak(
        service.url, head("GET /healthz", *wish).replace("Connection: close\r\n", "")
    )
    assert answer.startswith("HTTP/1.1 200 ")
    assert caplog.records == []
