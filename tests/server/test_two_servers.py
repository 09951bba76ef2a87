"""Whose is what, where two servers on one database are asked at once?"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.postgres import PostgresServer
from tests.server.conftest import Client, served, write_tokens
from tool_engine import ClusterConfig, ConcurrencyConfig, ToolEngine, ToolEngineConfig
from tool_engine.background.places import EACH
from tool_engine.server import create_app

BOUND = 240.0
LATER = {"prefer": "respond-async"}
CALLS = "/v1/tools/count/calls"


class Work:
    """A tool that counts how many of its calls run at once, in all engines of this program."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.ran: Counter[int] = Counter()
        self.goes_on = asyncio.Event()

    async def run(self, number: int) -> int:
        self.now += 1
        self.most = max(self.most, self.now)
        self.ran[number] += 1
        await self.goes_on.wait()
        await asyncio.sleep(0)
        self.now -= 1
        return number


class Pair(NamedTuple):
    """Two servers, each with clients of its own."""

    work: Work
    first: dict[str, Client]
    second: dict[str, Client]


@pytest.fixture
async def pair(tmp_path: Path, postgres_server: PostgresServer) -> AsyncIterator[Pair]:
    """Their engines share a limit of two calls at once, beside limits of their own."""
    url = await asyncio.to_thread(postgres_server.fresh_database)
    tokens = await asyncio.to_thread(write_tokens, tmp_path / "tokens.json")
    config = ToolEngineConfig(
        tools_directory=str(tmp_path), auto_reload=False, records=url, close_timeout=1.0
    )
    limits = ConcurrencyConfig(
        max_concurrent=8, cluster=ClusterConfig(url=url, bucket_limits={"custom": 2})
    )
    number = {"name": "number", "type": "integer", "description": "Which", "required": True}
    tool = {"name": "count", "description": "Counts", "parameters": [number], "effect": "read"}
    work, clients = Work(), []
    async with asyncio.timeout(BOUND), AsyncExitStack() as stack:
        for _ in range(2):
            engine = await stack.enter_async_context(ToolEngine(config, concurrency=limits))
            await engine.load()
            engine.register_tool(tool, work.run)
            engine.tasks.serve()
            app = await asyncio.to_thread(create_app, engine, auth=str(tokens))
            service = await stack.enter_async_context(served(app))
            clients.append({name: service.client(name) for name in ("ann", "bob", "olga")})
        yield Pair(work, *clients)
        work.goes_on.set()


async def start(client: Client, number: int, **headers: str) -> Any:
    said = {name.replace("_", "-"): value for name, value in headers.items()}
    body = {"arguments": {"number": number}}
    return await client.send("POST", CALLS, json=body, headers=said)


async def test_what_is_anothers_is_not_there(pair: Pair) -> None:
    """Ann's task is hers at both servers, and to bob at both it is as one that never was."""
    answer = await start(pair.first["ann"], 1, **LATER)
    path, task_id = answer.headers["location"], answer.json["id"]
    for side in (pair.first, pair.second):
        assert (await side["ann"].get(path)).json["id"] == task_id
        assert (await side["olga"].get(f"{path}?wait=0")).json["owner"] == "ann"
        for method in ("GET", "DELETE"):
            said = await side["bob"].send(method, path)
            never = await side["bob"].send(method, f"/v1/tasks/{'0' * 32}")
            assert (said.status, never.status) == (404, 404)
            assert said.text.replace(task_id, "") == never.text.replace("0" * 32, "")
        for query in ("", "?owner=ann"):
            assert (await side["bob"].get(f"/v1/tasks{query}")).json["items"] == []
    assert (await pair.second["ann"].send("DELETE", path)).json["is_cancelled"]
    ended = await pair.first["ann"].get(f"{path}?wait=30")
    assert ended.json["status"] == "cancelled"
    assert not (await pair.first["ann"].send("DELETE", path)).json["is_cancelled"]


async def test_a_key_that_comes_to_both_at_once(pair: Pair) -> None:
    """It runs once for its principal, which gets one answer; another principal's is another one."""
    pair.work.goes_on.set()
    sides = [pair.first, pair.second] * 4
    for number in range(8):
        asked = (start(side["ann"], number, idempotency_key=f"k{number}") for side in sides)
        answers = await asyncio.gather(*asked)
        assert all(each.json == answers[0].json for each in answers)
        assert answers[0].json["output"] == {"result": number}
        of_bob = await start(pair.second["bob"], number, idempotency_key=f"k{number}")
        assert of_bob.json["metadata"]["call_id"] != answers[0].json["metadata"]["call_id"]
        for side in sides[:2]:
            refused = await start(side["ann"], 99, idempotency_key=f"k{number}")
            assert (refused.status, refused.kind) == (409, "key-of-another-request")
    assert pair.work.ran == dict.fromkeys(range(8), 2)


async def test_a_tag_is_of_one_server(pair: Pair) -> None:
    """The other one may have other tools: it sends its own."""
    tags = []
    for side, other in ((pair.first, pair.second), (pair.second, pair.first)):
        answer = await side["ann"].get("/v1/tools")
        tags.append(answer.headers["etag"])
        assert (await side["ann"].get("/v1/tools", if_none_match=tags[-1])).status == 304
        assert (await other["ann"].get("/v1/tools", if_none_match=tags[-1])).status == 200
    assert tags[0] != tags[1]


async def test_what_is_forgotten_while_it_is_waited_for(pair: Pair) -> None:
    """It is not there any more, as at the server that ran it."""
    ann, other = pair.first["ann"], pair.second["ann"]
    path = (await start(ann, 1, **LATER, idempotency_key="k")).headers["location"]
    waiting = asyncio.create_task(other.get(f"{path}?wait=60"))
    said = {**other.headers, "accept": "text/event-stream", "idempotency-key": "k"}
    body = {"arguments": {"number": 1}}
    # Its head comes once the task is found.
    async with other.http.post(other.url + CALLS, json=body, headers=said) as stream:
        assert (await ann.send("DELETE", f"{path}?forget=true")).json["is_forgotten"]
        last = (await stream.text()).rpartition("data: ")[2]
    assert json.loads(last)["type"] == "urn:tool-engine:unknown-task"
    answer = await waiting
    assert (answer.status, answer.kind) == (404, "unknown-task")


async def test_tasks_keep_to_the_limits_of_a_cluster(pair: Pair) -> None:
    """However many wait at both, two run at once; each runs once, and owners take turns."""
    count = 24
    asked = [start(pair.first["ann"], each, **LATER) for each in range(0, count, 2)]
    asked += [start(pair.second["ann"], each, **LATER) for each in range(1, count, 2)]
    paths = [each.headers["location"] for each in await asyncio.gather(*asked)]
    bob = (await start(pair.second["bob"], count, **LATER)).headers["location"]
    pair.work.goes_on.set()
    for side, path in ((pair.first, bob), *((pair.second, each) for each in paths)):
        who = side["bob" if path == bob else "ann"]
        assert (await who.get(f"{path}?wait=60")).json["status"] == "succeeded"
    assert pair.work.most <= 2
    assert pair.work.ran == dict.fromkeys(range(count + 1), 1)
    # Those that ask at both servers go before it, and as many of ann's as ask with it.
    assert list(pair.work.ran).index(count) <= 4 * EACH + 4
