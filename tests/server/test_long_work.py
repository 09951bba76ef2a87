"""How does a client start work that goes on without it, and ask for it later?"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.server.conftest import Client, Service, served
from tool_engine import ToolEngine
from tool_engine.server import create_app
from tool_engine.server.app import App

BOUND = 15.0
ASYNC = {"prefer": "respond-async"}


async def start(client: Client, name: str, headers: dict[str, str] = ASYNC, **body: Any) -> Any:
    return await client.send("POST", f"/v1/tools/{name}/calls", json=body, headers=headers)


async def test_work_that_goes_on(ann: Client, engine: ToolEngine) -> None:
    """The answer comes at once; the result is there later, also for a new connection."""
    answer = await start(ann, "add", arguments={"a": 1, "b": 2})
    assert answer.status == 202
    assert answer.headers["preference-applied"] == "respond-async"
    path = answer.headers["location"]
    task = (await ann.get(f"{path}?wait=10")).json
    assert (task["status"], task["result"]["output"]) == ("succeeded", {"result": 3})
    assert (task["owner"], task["tool_name"]) == ("ann", "add")
    (record,) = await engine.query_call_records()
    assert record.call_id == task["call_id"]


class Mounted:
    """The app below a path of another one."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._app({**scope, "root_path": "/inner"}, receive, send)

    def end(self) -> None:
        self._app.end()


async def test_an_app_that_is_mounted(engine: ToolEngine) -> None:
    """Where its task is, is said as a client finds it."""
    async with served(Mounted(create_app(engine))) as service:
        client = service.client(None)
        body = {"arguments": {"a": 1, "b": 2}}
        path = "/inner/v1/tools/add/calls"
        answer = await client.send("POST", path, json=body, headers=ASYNC)
        found = (await client.get(f"{answer.headers['location']}?wait=10")).json
    assert found["status"] == "succeeded"


async def test_a_task_that_runs(service: Service, ann: Client, olga: Client) -> None:
    """Its principal sees how far it is and ends it; others find none, one that operates all."""
    bob = service.client("bob")
    path = (await start(ann, "endless")).headers["location"]
    async with asyncio.timeout(BOUND):
        while (task := (await ann.get(path)).json)["progress"] is None:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.01)
    assert task["status"] == "running"
    assert task["progress"]["done"] == 1
    assert [each["id"] for each in (await ann.get("/v1/tasks?status=running")).json["items"]] == [
        task["id"]
    ]
    assert (await bob.get("/v1/tasks")).json["items"] == []
    for task_path in (path, "/v1/tasks/none"):
        for method in ("GET", "DELETE"):
            answer = await bob.send(method, task_path)
            shown = task_path.rpartition("/")[2]
            assert answer.json["detail"] == f"there is no task {shown!r}"
    for query, count in (("", 1), ("?owner=ann&tool_name=endless", 1), ("?owner=bob", 0)):
        assert len((await olga.get(f"/v1/tasks{query}")).json["items"]) == count
    assert (await olga.get("/v1/tasks?tool_name=add")).json == {"items": [], "next": None}
    for client, owner in ((ann, "bob"), (bob, "ann")):
        assert (await client.get(f"/v1/tasks?owner={owner}")).json == {"items": [], "next": None}
    assert (await ann.get(f"{path}?wait=0.05")).json["status"] == "running"
    assert (await ann.send("DELETE", f"{path}?reason=enough")).json == {"is_cancelled": True}
    ended = (await ann.get(path)).json
    assert ended["status"] == "cancelled"
    assert "enough" in ended["message"]
    assert (await ann.send("DELETE", path)).json == {"is_cancelled": False}


async def test_pages(ann: Client) -> None:
    """Each task stands on one page, the newest first."""
    started = [(await start(ann, "add", arguments={"a": each, "b": 0})).json for each in range(5)]
    found, cursor = [], ""
    while True:
        page = (await ann.get(f"/v1/tasks?limit=2{cursor}")).json
        found += [each["id"] for each in page["items"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert found == [each["id"] for each in reversed(started)]
    await ann.get(f"/v1/tasks/{found[0]}?wait=10")
    for query, has_result in (("", True), ("&results=false", False)):
        (newest,) = (await ann.get(f"/v1/tasks?limit=1{query}")).json["items"]
        assert (newest["result"] is not None) is has_result


async def test_one_request_that_is_sent_twice(
    service: Service, ann: Client, engine: ToolEngine
) -> None:
    """It runs once, also when both come at once; another request with its key is refused."""
    key = {"idempotency-key": "order-1"}
    body = {"arguments": {"a": 1, "b": 2}}
    answers = await asyncio.gather(*(start(ann, "add", key, **body) for _ in range(5)))
    answers.append(await start(ann, "add", key, **body))
    assert {each.status for each in answers} == {200}
    assert len({each.json["metadata"]["call_id"] for each in answers}) == 1
    assert len(await engine.query_call_records()) == 1
    other = await start(ann, "add", key, arguments={"a": 9, "b": 2})
    assert (other.status, other.kind) == (409, "not-possible")
    theirs = await start(service.client("bob"), "add", key, arguments={"a": 9, "b": 2})
    assert theirs.json["output"] == {"result": 11}


async def test_a_key_for_a_tool_that_is_no_task(ann: Client, engine: ToolEngine) -> None:
    """What runs only while its caller waits runs once for its key, too, and as no task."""

    async def quote(number: int) -> int:
        return number

    number = {"name": "number", "type": "integer", "required": True, "description": "Which"}
    fields = {"description": "Quotes", "parameters": [number], "background": "never"}
    engine.register_tool({"name": "quote", **fields}, quote)
    key = {"idempotency-key": "quote-1"}
    answers = [await start(ann, "quote", key, arguments={"number": 7}) for _ in range(2)]
    assert [each.json["output"] for each in answers] == [{"result": 7}] * 2
    assert len(await engine.query_call_records(tool_name="quote", is_success=True)) == 1
    refused = (await start(ann, "quote", arguments={"number": 7})).json["result"]
    assert refused["error_type"] == "execution_rejected"


async def test_a_client_that_leaves_its_key(ann: Client, engine: ToolEngine) -> None:
    """The call goes on, and the same request has its result."""
    key = {"idempotency-key": "order-2"}
    task = asyncio.create_task(start(ann, "pay", key, arguments={"amount": 3}))
    async with asyncio.timeout(BOUND):
        while not (waiting := await engine.approvals.pending()):  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(0)
        assert [each.token for each in await engine.approvals.pending()] == [waiting[0].token]
        await engine.approvals.answer(waiting[0].token, True)
        again = await start(ann, "pay", key, arguments={"amount": 3})
    assert again.json["output"] == {"result": "paid 3"}
    assert len(await engine.query_call_records()) == 1


@pytest.mark.parametrize("key", ["", "x" * 10_000])
async def test_a_key_that_is_none(ann: Client, engine: ToolEngine, key: str) -> None:
    """It is refused, and nothing runs."""
    answer = await start(ann, "add", {"idempotency-key": key}, arguments={"a": 1, "b": 2})
    assert answer.status == 409
    assert await engine.query_call_records() == []
