"""How does a client start work that goes on without it, and ask for it later?"""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.background.test_restarts import die
from tests.server.conftest import Client, Service, served
from tool_engine import TaskNotFoundError, ToolEngine, ToolEngineConfig, ToolExecutionContext
from tool_engine.access.principal import Principal
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
            words = answer.json["detail"].partition("; see GET /v1/tasks")
            assert words[:2] == (f"there is no task {shown!r}", "; see GET /v1/tasks")
    for query, count in (("", 1), ("?owner=ann&tool_name=endless", 1), ("?owner=bob", 0)):
        assert len((await olga.get(f"/v1/tasks{query}")).json["items"]) == count
    assert (await olga.get("/v1/tasks?tool_name=add")).json == {"items": [], "next": None}
    for client, owner in ((ann, "bob"), (bob, "ann")):
        assert (await client.get(f"/v1/tasks?owner={owner}")).json == {"items": [], "next": None}
    assert (await ann.get(f"{path}?wait=0.05")).json["status"] == "running"
    assert (await ann.send("DELETE", f"{path}?reason=enough")).json["is_cancelled"] is True
    ended = (await ann.get(path)).json
    assert ended["status"] == "cancelled"
    assert "enough" in ended["message"]
    assert (await ann.send("DELETE", path)).json["is_cancelled"] is False


async def test_all_at_once(service: Service, ann: Client, olga: Client) -> None:
    """Each principal's own end, or all for one that operates; what another's is stays."""
    bob = service.client("bob")
    paths = [(await start(each, "endless")).headers["location"] for each in (ann, ann, ann)]
    assert (await bob.send("DELETE", "/v1/tasks")).json == {"cancelled": 0}
    assert (await bob.send("DELETE", "/v1/tasks?owner=ann")).json == {"cancelled": 0}
    assert (await ann.send("DELETE", "/v1/tasks?tool_name=add")).json == {"cancelled": 0}
    assert (await ann.send("DELETE", "/v1/tasks?status=failed")).status == 400
    assert (await olga.send("DELETE", "/v1/tasks?owner=bob")).json == {"cancelled": 0}
    assert (await ann.send("DELETE", "/v1/tasks?reason=enough")).json == {"cancelled": 3}
    for path in paths:
        ended = (await ann.get(path)).json
        assert (ended["status"], ended["message"]) == (
            "cancelled",
            "the task was cancelled: enough",
        )


async def call_again(client: Client, name: str, key: str, **body: Any) -> Any:
    return await start(client, name, {"idempotency-key": key}, **body)


async def test_a_key_whose_tool_is_gone(service: Service, ann: Client, engine: ToolEngine) -> None:
    """The answer of the first request is kept, also for a tool that has left or changed."""
    one = {"arguments": {"number": 1}}
    number = {"name": "number", "type": "integer", "description": "Which", "required": True}
    tool = {"name": "short", "description": "Lives shortly", "parameters": [number]}
    engine.register_tool(tool, lambda number: number)
    first = await call_again(ann, "short", "k", **one)
    assert first.json["output"] == {"result": 1}
    engine.unregister_tool("short")
    for headers in ({}, {"prefer": "respond-async"}):
        again = await start(ann, "short", {"idempotency-key": "k", **headers}, **one)
        found = again.json["result"] if headers else again.json
        assert found == first.json
    assert (
        "event: result"
        in (
            await start(
                ann, "short", {"idempotency-key": "k", "accept": "text/event-stream"}, **one
            )
        ).text
    )
    # Another request, one without a key, and another principal's, are about what is not there.
    changed = await call_again(ann, "short", "k", arguments={"number": 2})
    assert (changed.status, changed.kind) == (409, "key-of-another-request")
    assert (await call_again(ann, "short", "other", **one)).status == 404
    assert (await call_again(ann, "shorter", "k", **one)).status == 404
    assert (await start(ann, "short", {}, **one)).status == 404
    assert (await call_again(service.client("bob"), "short", "k", **one)).status == 404
    # It comes back with another name, and then with a parameter that is secret.
    engine.register_tool({**tool, "name": "long", "aliases": ["short"]}, lambda number: -number)
    assert (await call_again(ann, "short", "k", **one)).json == first.json
    assert (await call_again(ann, "long", "k", **one)).status == 409
    engine.unregister_tool("long")
    secret = {**tool, "parameters": [{**number, "type": "string", "secret": True}]}
    engine.register_tool(secret, lambda number: "x" + number)
    assert (await call_again(ann, "short", "k", **one)).json == first.json
    assert len(await engine.query_call_records()) == 1


async def test_a_key_whose_tool_may_not_be_used_any_more(engine: ToolEngine) -> None:
    """What was taken away is not there, whatever its principal has kept of it."""

    class Verifier:
        tools: tuple[str, ...] = ("*",)

        async def find_principal(self, token: str) -> Principal | None:
            return Principal("ann", frozenset(["call"]), self.tools)

    engine.register_tool(
        {"name": "short", "description": "Lives shortly", "parameters": []}, lambda: 1
    )
    verifier = Verifier()
    async with served(create_app(engine, auth=verifier)) as service:
        ann = service.client("ann")
        first = await call_again(ann, "short", "k")
        engine.unregister_tool("short")
        assert (await call_again(ann, "short", "k")).json == first.json
        verifier.tools = ("a*",)
        assert (await call_again(ann, "short", "k")).kind == "unknown-tool"


@pytest.mark.parametrize("records", [None, "sqlite"])
async def test_what_is_asked_for_tasks_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: str | None
) -> None:
    """As much as for one that never was, so that the time says nothing: alive, ended, cancelled."""
    url = None if records is None else f"sqlite:///{tmp_path / 'kept.db'}"
    ann, bob = ToolExecutionContext("ann"), "bob"
    async with ToolEngine(ToolEngineConfig(records=url)) as engine:

        @engine.tool(effect="read")
        async def wait(seconds: float) -> float:
            """Wait."""
            await asyncio.sleep(seconds)
            return seconds

        ended = await engine.start("wait", {"seconds": 0}, ann)
        await ended.wait(BOUND)
        alive = await engine.start("wait", {"seconds": 60}, ann)
        storage: Any = engine.tasks._storage  # type: ignore[attr-defined]
        asked: list[Any] = []
        get = storage.get

        async def note(task_id: str, *owner: str | None) -> Any:
            found = await get(task_id, *owner)
            asked.append((owner, found))
            return found

        monkeypatch.setattr(storage, "get", note)
        for task_id in (ended.id, alive.id, "0" * 32):
            for work in (engine.tasks.get, engine.tasks.cancel):
                asked.clear()
                with pytest.raises(TaskNotFoundError, match=task_id):
                    await work(task_id, bob)
                assert asked == [((bob,), None)]
        monkeypatch.setattr(storage, "get", get)
        assert await (await engine.tasks.get(alive.id, "ann")).cancel()


async def test_a_start_that_cannot_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client is asked to send again only what has not begun."""
    async with ToolEngine(ToolEngineConfig(records=f"sqlite:///{tmp_path / 'kept.db'}")) as engine:
        ran: list[int] = []

        @engine.tool
        async def pay(amount: int) -> int:
            """Pay."""
            ran.append(amount)
            return amount

        async with served(create_app(engine)) as service:
            client = service.client(None)
            first = await start(client, "pay", arguments={"amount": 1})
            assert first.status == 202
            # Its end is written: else what writes it may meet the broken disk before the next one.
            ended = await client.get(f"/v1/tasks/{first.json['id']}?wait=10")
            assert ended.json["status"] == "succeeded"
            file: Any = engine.store.storage._database._database  # type: ignore[attr-defined]
            commit = file._commit_work

            def fail(work: Any) -> Any:
                raise sqlite3.OperationalError("disk I/O error")

            monkeypatch.setattr(file, "_commit_work", fail)
            answers = [await start(client, "pay", arguments={"amount": each}) for each in (2, 3)]
            monkeypatch.setattr(file, "_commit_work", commit)
    assert [each.status for each in answers] == [503, 503]
    assert ["retry-after" in each.headers for each in answers] == [False, True]
    assert ["had begun" in each.json["detail"] for each in answers] == [True, False]
    assert ran == [1, 2]


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
    for query, has_result in (("", False), ("&results=true", True), ("&results=false", False)):
        (newest,) = (await ann.get(f"/v1/tasks?limit=1{query}")).json["items"]
        assert (newest["result"] is not None) is has_result
    await asyncio.gather(*(start(ann, "add", arguments={"a": 1, "b": 2}) for _ in range(100)))
    for query, count in (("", 105), ("&results=true", 100)):
        page = (await ann.get(f"/v1/tasks?limit=1000{query}")).json
        assert (len(page["items"]), page["next"] is None) == (count, count == 105)


async def test_one_request_that_is_sent_twice(
    service: Service, ann: Client, engine: ToolEngine
) -> None:
    """It runs once, also when both come at once; another request with its key is refused."""
    key = {"idempotency-key": "order-1"}
    body: dict[str, Any] = {"arguments": {"a": 1, "b": 2}}
    answers = await asyncio.gather(*(start(ann, "add", key, **body) for _ in range(5)))
    answers.append(await start(ann, "add", key, **body))
    assert {each.status for each in answers} == {200}
    assert len({each.json["metadata"]["call_id"] for each in answers}) == 1
    assert len(await engine.query_call_records()) == 1
    for change in ({"arguments": {"a": 9, "b": 2}}, {"timeout": 9}, {"priority": 6}, {"ttl": 9}):
        other = await start(ann, "add", key, **{**body, **change})
        assert (other.status, other.kind) == (409, "key-of-another-request"), change
        assert "use one key for one call" in other.json["detail"]
    talk = await start(ann, "add", key, **body, conversation_id="c-1")
    assert talk.kind == "key-of-another-request"
    assert (await start(ann, "add", {**key, **ASYNC}, **body)).json["status"] == "succeeded"
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
    as_task = await start(ann, "quote", {**key, **ASYNC}, arguments={"number": 7})
    assert (as_task.status, as_task.json["status"]) == (202, "rejected")
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


async def test_more_tasks_than_a_principal_may_have(tmp_path: Path) -> None:
    """One more is refused with a cure, by any door; what is forgotten makes room for others."""
    config = ToolEngineConfig(tools_directory=str(tmp_path), max_tasks_per_owner=2)
    async with ToolEngine(config) as engine, served(create_app(engine)) as service:
        engine.register_tool({"name": "one", "description": "Says it"}, lambda: 1)
        client = service.client(None)
        key = {"idempotency-key": "first"}
        assert (await start(client, "one", key)).status == 200
        path = (await start(client, "one")).headers["location"]
        assert (await client.get(f"{path}?wait=10")).json["status"] == "succeeded"
        for headers in (ASYNC, {"idempotency-key": "other"}):
            refused = await start(client, "one", headers)
            assert (refused.status, refused.kind) == (429, "too-many-tasks")
            assert 3000 < int(refused.headers["retry-after"]) <= 3600
            assert "with max_tasks_per_owner" in refused.json["detail"]
        assert (await start(client, "one", key)).status == 200
        assert (await client.call("one")).status == 200
        ended = (await client.send("DELETE", f"{path}?forget=true")).json
        assert ended == {"is_cancelled": False, "is_forgotten": True}
        assert (await client.get(path)).status == 404
        assert (await start(client, "one")).status == 202


@pytest.mark.parametrize("is_secret", [False, True])
async def test_a_key_where_other_programs_run_the_tasks(tmp_path: Path, is_secret: bool) -> None:
    """Its call runs where its client waits, as others do; work that is left to them is not."""
    number = {"name": "number", "type": "integer", "required": True, "description": "Which"}
    fields = {"description": "Doubles", "parameters": [{**number, "secret": is_secret}]}
    folder = tmp_path / "tools"
    folder.mkdir()
    config = ToolEngineConfig(
        tools_directory=str(folder), records=f"sqlite:///{tmp_path}/kept.db", run_tasks=False
    )
    async with ToolEngine(config) as front, served(create_app(front)) as service:
        front.register_tool({"name": "double", **fields}, lambda number: 2 * number)
        client = service.client(None)
        body: dict[str, Any] = {"arguments": {"number": 4}}
        left = None if is_secret else (await start(client, "double", **body)).json["id"]
        for key in range(12):
            said = {"idempotency-key": f"key {key}"}
            answers = [start(client, "double", said, **body) for _ in range(2)]
            both = [each.json for each in await asyncio.gather(*answers)]
            assert [each["output"] for each in both] == [{"result": 8}] * 2
            assert both[0]["metadata"]["call_id"] == both[1]["metadata"]["call_id"]
        assert len(await front.query_call_records()) == 12
        if left is not None:
            assert (await client.get(f"/v1/tasks/{left}")).json["status"] == "queued"
            front.tasks.open()
            ended = (await client.get(f"/v1/tasks/{left}?wait=10")).json
            assert ended["status"] == "succeeded"


async def test_a_key_of_a_program_that_was_killed(tmp_path: Path) -> None:
    """What only that one could run ends, and says so; nothing waits for ever."""
    folder = tmp_path / "tools"
    folder.mkdir()
    place: dict[str, Any] = {
        "tools_directory": str(folder),
        "records": f"sqlite:///{tmp_path}/kept.db",
    }
    gate = asyncio.Event()
    begun = asyncio.Event()

    async def wait() -> int:
        begun.set()
        await gate.wait()
        return 1

    definition = {"name": "wait", "description": "Waits"}
    key = {"idempotency-key": "one"}
    async with ToolEngine(ToolEngineConfig(**place, run_tasks=False)) as front:
        front.register_tool(definition, wait)
        context = ToolExecutionContext("local", "http")
        first = await front.tasks.start(
            "wait", {}, context, ttl=86_400.0, idempotency_key="one", is_awaited=True
        )
        await begun.wait()
        await die(front)
        async with ToolEngine(ToolEngineConfig(**place)) as other:
            other.register_tool(definition, wait)
            other.tasks.feeding.lease = 0.2  # type: ignore[attr-defined]
            async with served(create_app(other)) as service:
                other.tasks.open()
                answer = await start(service.client(None), "wait", key)
    assert answer.json["error_type"] == "worker_lost"
    assert answer.json["metadata"]["task_id"] == first.id


@pytest.mark.parametrize("key", ["", "x" * 10_000])
async def test_a_key_that_is_none(ann: Client, engine: ToolEngine, key: str) -> None:
    """It is refused, and nothing runs."""
    answer = await start(ann, "add", {"idempotency-key": key}, arguments={"a": 1, "b": 2})
    assert answer.status == 400
    assert await engine.query_call_records() == []
