"""Which form does an answer have?"""

from __future__ import annotations

import pytest

from tests.access.conftest import JSON, TOKEN, head, speak
from tests.server.conftest import Client, Service

BODY = '{"arguments": {"a": 1, "b": 2}}'


@pytest.mark.parametrize(
    ("accept", "is_stream"),
    [
        ("text/event-stream", True),
        ("Text/Event-Stream", True),
        ("text/event-stream;charset=utf-8", True),
        ("application/json, text/event-stream", True),
        ("application/json;q=0.1, text/event-stream; q=0.9", True),
        ("application/json, text/event-stream;q=0.1", False),
        ("text/event-stream, */*", True),
        ("*/*;q=0.4, text/event-stream;q=0.5", True),
        ("text/event-stream;q=0.5, */*", False),
        ("application/*;q=0.5, text/event-stream;q=0.4", False),
        ("application/json;q=0, text/event-stream;q=0.4, */*", True),
        ('a/b;c="d,text/event-stream,e"', False),
        ("text/event-stream;q=0", False),
        ("text/event-stream;q=much", False),
        ("text/event-streams", False),
        ("application/json", False),
        ("text/*", False),
        ("*/*", False),
        ("", False),
    ],
)
async def test_a_stream_is_asked_for(ann: Client, accept: str, is_stream: bool) -> None:
    """By its whole name, and where no other form is wanted more."""
    path, said = "/v1/tools/add/calls", {"content-type": "application/json", "accept": accept}
    answer = await ann.send("POST", path, data=BODY, headers=said)
    kind = "text/event-stream" if is_stream else "application/json"
    assert (answer.status, answer.headers["content-type"]) == (200, kind)


@pytest.mark.parametrize(
    ("prefer", "status"),
    [
        (["respond-async"], 202),
        (["Respond-Async; why=slow"], 202),
        (["wait=5, respond-async"], 202),
        (["wait=5", "respond-async"], 202),
        (['respond-async=""'], 202),
        (["norespond-async"], 200),
        (["respond-async=no"], 200),
        (['why="yes, respond-async, no"'], 200),
        (['why="respond-async"'], 200),
        (["wait=5"], 200),
    ],
)
async def test_a_task_is_asked_for(service: Service, prefer: list[str], status: int) -> None:
    """By its whole name, on whichever line it stands."""
    lines = [f"Prefer: {each}\r\n" for each in prefer]
    length = f"Content-Length: {len(BODY)}\r\n"
    request = head("POST /v1/tools/add/calls", TOKEN, JSON, length, *lines) + BODY
    assert (await speak(service.url, request)).split()[1] == str(status)
