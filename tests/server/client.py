"""What does a client get from the API that has nothing but Python's own library?

It prints it as one line of JSON: `python client.py URL TOKEN`.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection, HTTPResponse
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

URL, TOKEN = sys.argv[1:]
STREAM = {"Accept": "text/event-stream"}


def ask(
    path: str, headers: Mapping[str, str] | None = None, body: Any = None, method: str = "GET"
) -> HTTPResponse:
    """Asks on a connection of its own, which ends with the answer."""
    connection = HTTPConnection(urlsplit(URL).netloc)
    said = {"Authorization": f"Bearer {TOKEN}", "Connection": "close", **(headers or {})}
    data = None
    if body is not None:
        method, data = "POST", json.dumps(body)
        said["Content-Type"] = "application/json"
    connection.request(method, path, data, said)
    return connection.getresponse()


def call(name: str, headers: Mapping[str, str] | None = None, **arguments: Any) -> HTTPResponse:
    return ask(f"/v1/tools/{name}/calls", headers, {"arguments": arguments})


def read_events(answer: HTTPResponse) -> Iterator[dict[str, Any]]:
    event: dict[str, Any] = {}
    for line in answer:
        name, colon, value = line.decode().rstrip("\n").partition(":")
        if not name and not colon and "data" in event:
            yield {**event, "data": json.loads(event["data"])}
        if name and colon:
            event[name] = value.strip()
        elif not colon:
            event = {}


def run_all() -> dict[str, Any]:
    found: dict[str, Any] = {"sum": json.load(call("add", a=1, b=2))["output"]}
    refused = call("adt")
    found["problem"] = {**json.load(refused), "kind": refused.headers["content-type"]}

    streamed = list(read_events(call("count", STREAM, most=3)))
    found["streamed"] = [each["event"] for each in streamed]
    progress = [each["data"] for each in streamed if each["event"] == "execution_progress"]
    found["progress"] = [each["data"] for each in progress]
    found["counted"] = streamed[-1]["data"]["output"]

    # A call that is given up: the connection is closed.
    with contextlib.closing(call("endless", STREAM)) as endless:
        next(each for each in read_events(endless) if each["event"] == "execution_progress")
    records: list[Any] = []
    while not records:
        records = json.load(ask("/v1/records?tool_name=endless"))["items"]
    found["records"] = [each["error_type"] for each in records]

    # Calls that go on without their client.
    accepted = call("count", {"Prefer": "respond-async"}, most=2)
    found["accepted"] = accepted.status
    task = json.load(ask(f"{accepted.headers['location']}?wait=20"))
    found["task"] = [task["status"], task["result"]["output"]]
    place = call("endless", {"Prefer": "respond-async"}).headers["location"]
    found["ended"] = json.load(ask(f"{place}?reason=enough", method="DELETE"))["is_cancelled"]
    ended = json.load(ask(f"{place}?wait=20"))
    found["cancelled"] = [ended["status"], ended["message"]]

    key = {"Idempotency-Key": "four"}
    found["twice"] = [json.load(call("add", key, a=2, b=2))["metadata"]["call_id"] for _ in "ab"]

    # A reader that comes back.
    events = "/v1/events?types=execution_completed&tool_name=add"
    listening = ask(events)
    call("add", a=1, b=1)
    first = next(read_events(listening))
    for number in (2, 3, 4):
        call("add", a=1, b=number)
    again = ask(events, {"Last-Event-ID": first["id"]})
    heard = [first, *islice(read_events(again), 3)]
    found["heard"] = [each["data"]["execution_result"]["output"] for each in heard]
    return found


print(json.dumps(run_all()))
