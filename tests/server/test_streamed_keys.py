"""What does a client hear of a call that it has given a key, as it happens?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.server.conftest import Client, served
from tests.server.test_calls import read_events
from tool_engine import ToolEngine, ToolEngineConfig, ToolExecutionContext
from tool_engine.server import create_app

BOUND = 20.0
PATH = "/v1/tools/toil/calls"
HEADERS = {"accept": "text/event-stream", "idempotency-key": "k"}
ALL = ["execution_started", "execution_progress", "result"]


class Two(NamedTuple):
    """Two servers: in memory the same one twice, else of one database."""

    clients: list[Client]
    engine: ToolEngine
    gate: asyncio.Event
    ran: list[int]

    async def stream(self, number: int = 0) -> list[tuple[str, Any]]:
        answer = await self.clients[number].send("POST", PATH, json={}, headers=HEADERS)
        assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream")
        return read_events(answer.text)

    async def until_begun(self) -> None:
        async with asyncio.timeout(BOUND):
            while not self.ran:  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0.01)


@pytest.fixture(params=["memory", "sqlite"])
async def two(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Two]:
    url = None if request.param == "memory" else f"sqlite:///{tmp_path / 'kept.db'}"
    (tmp_path / "tools").mkdir()
    config = ToolEngineConfig(tools_directory=str(tmp_path / "tools"), records=url)
    gate, ran = asyncio.Event(), list[int]()

    async def toil(context: ToolExecutionContext) -> str:
        ran.append(1)
        await context.report_progress(1, 2, "half")
        await gate.wait()
        return "done"

    async with AsyncExitStack() as stack:
        clients = []
        for _ in range(1 if url is None else 2):
            engine = await stack.enter_async_context(ToolEngine(config))
            # Also one that runs for no client that does not wait.
            definition = {"name": "toil", "description": "toils", "background": "never"}
            engine.register_tool({**definition, "parameters": []}, toil)
            service = await stack.enter_async_context(served(create_app(engine)))
            clients.append(service.client(None))
        yield Two([clients[0], clients[-1]], engine, gate, ran)


def read_result(events: list[tuple[str, Any]]) -> Any:
    name, result = events[-1]
    assert name == "result"
    return result["output"]


async def test_what_happens_is_heard(two: Two) -> None:
    """As of a call without a key; who asks again hears how it has ended, here and elsewhere."""
    first = asyncio.create_task(two.stream())
    await two.until_begun()
    two.gate.set()
    events = await first
    assert [name for name, _ in events] == ALL
    assert events[1][1]["data"]["message"] == "half"
    assert read_result(events) == {"result": "done"}
    for number in (0, 1):
        again = await two.stream(number)
        assert [name for name, _ in again] == ["result"]
        assert again[0][1] == events[-1][1]
    assert two.ran == [1]


async def test_what_a_person_is_asked(two: Two) -> None:
    """It is heard that one is asked, and what was answered."""

    async def pay() -> str:
        return "paid"

    definition = {"name": "pay", "description": "pays", "parameters": []}
    two.engine.register_tool({**definition, "permission": "ask_always"}, pay)
    client = two.clients[1]
    path = "/v1/tools/pay/calls"
    stream = asyncio.create_task(client.send("POST", path, json={}, headers=HEADERS))
    async with asyncio.timeout(BOUND):
        while not (waiting := await two.engine.approvals.pending()):  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.01)
    await two.engine.approvals.answer(waiting[0].token, True)
    events = read_events((await stream).text)
    names = [name for name, _ in events]
    assert names == ["approval_requested", "approval_answered", "execution_started", "result"]
    assert read_result(events) == {"result": "paid"}


async def test_one_that_ends_at_once(two: Two) -> None:
    """All of it is heard, though it has ended when its start has."""
    two.gate.set()
    assert [name for name, _ in await two.stream()] == ALL


async def test_who_comes_while_it_runs(two: Two) -> None:
    """It hears how it ends, also where another server runs it; the first one may have left."""
    async with two.clients[0].http.post(
        two.clients[0].url + PATH, json={}, headers=HEADERS
    ) as answer:
        while b"execution_progress" not in await answer.content.readline():
            pass
    others = [asyncio.create_task(two.stream(number)) for number in (0, 1)]
    async with asyncio.timeout(BOUND):
        while (await two.clients[0].get("/v1/tasks?status=running")).json["items"] == []:
            pass
    two.gate.set()
    for each in others:
        assert read_result(await each) == {"result": "done"}
    assert two.ran == [1]


async def test_a_key_of_another_request(two: Two) -> None:
    """It is refused as such, with a status and no stream."""
    two.gate.set()
    await two.stream()
    answer = await two.clients[0].send("POST", PATH, json={"timeout": 5}, headers=HEADERS)
    assert (answer.status, answer.kind) == (409, "key-of-another-request")
