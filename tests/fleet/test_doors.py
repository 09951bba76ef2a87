"""Does a tool on a fleet keep its promises through each door: HTTP, tasks, MCP, sessions, loops?"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from mcp import Client

from tests.agent.spoken import SpokenModel
from tests.agent.world import Turn, call
from tests.fleet.samples import Bench, define_tool
from tests.mcp_server.conftest import ERAS, text_of
from tests.mcp_server.test_transports import serving
from tests.ray_cluster import is_alive
from tests.server.conftest import Client as HTTPClient
from tests.server.conftest import served
from tool_engine.agent.loop import AgentLoop
from tool_engine.server import create_app
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.session import ToolSession

pytestmark = [pytest.mark.ray, pytest.mark.asyncio(loop_scope="package")]
ASYNC = {"prefer": "respond-async"}


@pytest_asyncio.fixture(scope="module", loop_scope="package")
async def warm_engine(shared_engine: Bench) -> None:
    """Workers that have started: a server of a test has seconds, and they may take more."""
    shared_engine.add_tool("report", "far_report")
    texts = {"here": "", "pid": "", "loop": "", "anap": "0", "far_report": "1"}
    results = await asyncio.gather(*(shared_engine.call(*each) for each in texts.items()))
    assert all(each.is_success for each in results)


@pytest.fixture
def bench(warm_engine: None, shared_bench: Bench) -> Bench:
    """The engine that tests share."""
    return shared_bench


@contextlib.asynccontextmanager
async def caller(bench: Bench) -> AsyncIterator[HTTPClient]:
    """A client of a server of the engine's tools."""
    app = await asyncio.to_thread(create_app, bench.engine)
    async with served(app) as service:
        yield service.client(None)


async def check_ended(bench: Bench, end: Callable[[], Awaitable[Any]]) -> None:
    """What a call has begun is gone, and its slot free, when its door has said that it is over."""
    (pid,) = await bench.noted()
    await end()
    await bench.becomes_free()
    assert bench.file.with_suffix(".cleaned").exists(), "the handler was cancelled, not killed"
    assert is_alive(pid), "its worker stays"


async def test_calls_over_http(bench: Bench) -> None:
    """Each has its result; one that is ended by its id, or whose client leaves, ends there too."""
    async with caller(bench) as client:
        answers = await asyncio.gather(*(client.call("here", text=str(n)) for n in range(20)))
        assert [each.json["output"]["result"][0] for each in answers] == [*map(str, range(20))]
        running = asyncio.create_task(client.call("loop", text=str(bench.file)))

        async def end_by_id() -> None:
            (listed,) = (await client.get("/v1/calls")).json["items"]
            await client.send("DELETE", f"/v1/calls/{listed['call_id']}")
            assert (await running).json["error_type"] == "cancelled"

        await check_ended(bench, end_by_id)


async def test_a_client_that_leaves(bench: Bench) -> None:
    """Its call is cancelled where it runs."""
    async with caller(bench) as client:
        running = asyncio.create_task(client.call("loop", text=str(bench.file)))

        async def leave() -> None:
            running.cancel()
            await asyncio.wait([running])

        await check_ended(bench, leave)


async def test_tasks(bench: Bench) -> None:
    """A task has its result later, shows how far its handler is, and ends with its work."""
    async with caller(bench) as client:

        async def start(name: str, text: str) -> str:
            body = {"arguments": {"text": text}}
            answer = await client.send("POST", f"/v1/tools/{name}/calls", json=body, headers=ASYNC)
            assert answer.status == 202
            return str(answer.headers["location"])

        path = await start("far_report", "5")
        task = (await client.get(f"{path}?wait=60")).json
        assert (task["status"], task["result"]["output"]) == ("succeeded", {"result": "5"})
        path = await start("loop", str(bench.file))

        async def cancel() -> None:
            assert (await client.send("DELETE", path)).json["is_cancelled"] is True
            assert (await client.get(f"{path}?wait=60")).json["status"] == "cancelled"

        await check_ended(bench, cancel)


@pytest.mark.parametrize("era", ERAS)
async def test_calls_over_mcp(bench: Bench, era: str) -> None:
    """A result, a failure in words, progress; a cancelled request ends its work."""
    heard: list[float] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)

    async with serving(bench.engine) as url, Client(url, mode=era) as client:
        result = await client.call_tool("far_report", {"text": "3"}, progress_callback=note)
        assert not result.is_error, text_of(result)
        assert heard == sorted(heard)
        assert heard[-1:] == [3]
        result = await client.call_tool("anap", {"text": "no number"})
        assert result.is_error
        assert "could not convert" in text_of(result)
        running = asyncio.create_task(client.call_tool("loop", {"text": str(bench.file)}))

        async def cancel() -> None:
            running.cancel()
            await asyncio.wait([running])

        await check_ended(bench, cancel)


async def test_calls_of_a_model(bench: Bench) -> None:
    """A conversation's calls run there beside one another, and a broken-off turn ends them."""
    session = ToolSession(bench.engine, "far", ToolCallConfig())
    turns = [
        Turn(calls=[call(1, "here", text="a"), call(2, "pid", text="b")]),
        Turn(text="Both are there."),
        Turn(calls=[call(3, "loop", text=str(bench.file))]),
    ]
    loop = AgentLoop(session, SpokenModel("anthropic", turns))
    answer = await loop.run("Go.")
    assert answer.text == "Both are there."
    assert answer.usage.calls == 2
    turn = asyncio.create_task(loop.run("Again."))

    async def break_off() -> None:
        turn.cancel()
        await asyncio.wait([turn])

    await check_ended(bench, break_off)


async def test_equal_calls_share_a_run(bench: Bench) -> None:
    """`single_flight`: one run for all who ask alike; those that follow leave, and it goes on."""
    concurrency = {"key": "params.text", "collision": "single_flight"}
    tool = {**define_tool("one_loop", "loop"), "effect": "read", "concurrency": concurrency}
    bench.engine.register_tool(tool)
    calls = [asyncio.create_task(bench.call("one_loop")) for _ in range(5)]
    await bench.noted()
    for each in calls[1:]:
        each.cancel()
    await asyncio.wait(calls[1:])
    assert len(await bench.noted()) == 1

    async def leave() -> None:
        calls[0].cancel()
        await asyncio.wait([calls[0]])

    await check_ended(bench, leave)
    assert len(await bench.noted()) == 1


async def test_a_tool_that_calls_one_there(bench: Bench) -> None:
    """`context.call` from here: its result comes back, and its end is the caller's."""

    async def outer(text: str, context: Any) -> Any:
        return await context.call("loop" if text else "here", {"text": text})

    bench.engine.register_tool(define_local("outer"), outer)
    assert (await bench.call("outer", "")).is_success
    running = asyncio.create_task(bench.call("outer"))

    async def cancel() -> None:
        running.cancel()
        await asyncio.wait([running])

    await check_ended(bench, cancel)


def define_local(name: str) -> dict[str, Any]:
    """The definition of a tool that runs here."""
    return {key: value for key, value in define_tool(name, "pid").items() if key != "entry"}


async def test_a_cancellation_by_the_engine(bench: Bench) -> None:
    """`engine.calls.cancel`: its caller gets an ended call, not an exception."""
    running = asyncio.create_task(bench.call("loop"))

    async def cancel() -> None:
        (listed,) = await bench.engine.calls.list()
        assert await bench.engine.calls.cancel(listed.call_id)
        assert (await running).error_type == "cancelled"

    await check_ended(bench, cancel)
