"""An app that is mounted in another one works, whether or not that one starts it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import aiohttp
import pytest
import uvicorn
from mcp import Client
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.mcp_server.conftest import ERAS, text_of
from tests.mcp_server.test_transports import HEADERS, LIST
from tool_engine import ConfigurationError, ToolEngine
from tool_engine.mcp_server import MCPServer
from tool_engine.server import create_app

DEADLINE = 200.0
WORDS = {"a": 1, "b": 2}


@asynccontextmanager
async def serving(app: Any, *, lifespan: str = "on") -> AsyncIterator[str]:
    """Serves an app at a free port, as people do; gives its URL."""
    config = uvicorn.Config(app, port=0, log_config=None, access_log=False, lifespan=lifespan)  # type: ignore[arg-type]
    program = uvicorn.Server(config)
    task = asyncio.create_task(program.serve())
    try:
        async with asyncio.timeout(DEADLINE):
            while not program.started:  # noqa: ASYNC110 - nothing says so
                await asyncio.sleep(0.01)
            port = program.servers[0].sockets[0].getsockname()[1]
            yield f"http://127.0.0.1:{port}"
    finally:
        program.should_exit = True
        async with asyncio.timeout(DEADLINE):
            await task
        for left in asyncio.all_tasks():
            if getattr(left.get_coro(), "__qualname__", "") == "_shutdown_watcher":
                left.cancel()


async def add_up(url: str, era: str) -> str:
    async with asyncio.timeout(DEADLINE), Client(url, mode=era) as client:
        return text_of(await client.call_tool("add", WORDS))


def lives() -> list[asyncio.Task[Any]]:
    """The tasks of apps that have started by themselves."""
    return [each for each in asyncio.all_tasks() if each.get_name() == "tool-engine-app"]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("place", "path", "address"),
    [
        ("/mcp", "/", "/mcp/"),
        ("/mcp", "/", "/mcp"),
        ("/", "/mcp", "/mcp"),
        ("/a/b", "/c", "/a/b/c"),
    ],
)
async def test_it_starts_by_itself_where_it_is_mounted(
    engine: ToolEngine, era: str, place: str, path: str, address: str
) -> None:
    """Where people mount it, at an address with a slash at its end or without one."""
    app = Starlette(routes=[Mount(place, MCPServer(engine).app(path))])
    async with serving(app) as url:
        for _ in range(2):
            assert await add_up(f"{url}{address}", era) == "3"
        assert len(lives()) == 1
        await engine.close()
        assert not lives()


@pytest.mark.parametrize("era", ERAS)
async def test_the_http_api_with_mcp_is_mounted_too(engine: ToolEngine, era: str) -> None:
    app = Starlette(routes=[Mount("/tools", create_app(engine, mcp=True))])
    async with serving(app) as url:
        assert await add_up(f"{url}/tools/mcp", era) == "3"


async def test_many_first_requests_start_it_once(engine: ToolEngine) -> None:
    app = Starlette(routes=[Mount("/", MCPServer(engine).app())])
    async with serving(app) as url:
        found = await asyncio.gather(*(add_up(f"{url}/mcp", era) for era in ERAS * 8))
        assert found == ["3"] * 16
        assert len(lives()) == 1


async def test_a_first_request_that_is_given_up_starts_it_all_the_same(
    engine: ToolEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what it carries is not carried by all that comes later."""
    mark: ContextVar[str] = ContextVar("mark", default="")
    marks: list[str] = []
    subscribe = engine.subscribe

    def note_mark(*args: Any) -> Any:
        marks.append(mark.get())
        return subscribe(*args)

    monkeypatch.setattr(engine, "subscribe", note_mark)
    app = MCPServer(engine).app()
    scope = {"type": "http", "method": "GET", "path": "/mcp", "query_string": b"", "root_path": ""}
    scope |= {"headers": [(b"host", b"localhost")], "client": ("127.0.0.1", 1), "scheme": "http"}
    sent: list[Any] = []
    mark.set("first")
    first = asyncio.create_task(app(scope, asyncio.Event().wait, sent.append))
    while not lives():  # noqa: ASYNC110 - nothing says so
        await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    assert (first.cancelled(), sent) == (True, [])
    async with serving(app, lifespan="off") as url:
        assert await add_up(f"{url}/mcp", "legacy") == "3"
    assert len(lives()) == 1
    assert marks == ["", ""]


@pytest.mark.parametrize("era", ERAS)
async def test_it_is_told_as_often_as_its_server_starts(engine: ToolEngine, era: str) -> None:
    """A server that tells it to start starts it each time, and it starts by itself no more."""
    app = MCPServer(engine).app()
    for _ in range(2):
        async with serving(app) as url:
            assert await add_up(f"{url}/mcp", era) == "3"
            assert not lives()


async def test_a_listener_hears_the_end_of_the_engine(engine: ToolEngine) -> None:
    """The stream of a client that listens ends with the engine that it listens to."""
    app = Starlette(routes=[Mount("/", MCPServer(engine).app())])
    asked = {**LIST, "method": "subscriptions/listen"}
    asked["params"] = {**LIST["params"], "notifications": {"toolsListChanged": True}}  # type: ignore[dict-item]
    headers = {**HEADERS, "Mcp-Method": "subscriptions/listen"}
    async with serving(app) as url, aiohttp.ClientSession() as http, asyncio.timeout(DEADLINE):
        async with http.post(f"{url}/mcp", json=asked, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            await answer.content.readline()
            await engine.close()
            await answer.content.read()
        async with http.post(f"{url}/mcp", json=LIST, headers=HEADERS) as answer:
            assert answer.status == 503
            assert "the engine is closed" in (await answer.json())["detail"]


async def test_one_server_on_two_loops_is_refused(engine: ToolEngine) -> None:
    """In words, at once, and what is served goes on; two servers of one engine work."""
    app = Starlette(routes=[Mount("/", MCPServer(engine).app())])
    found: dict[str, Any] = {}

    async def ask_there(served: Any) -> tuple[int, Any]:
        async with (
            serving(served) as url,
            aiohttp.ClientSession() as http,
            http.post(f"{url}/mcp", json=LIST, headers=HEADERS) as answer,
        ):
            return answer.status, await answer.json()

    def run_there(name: str, served: Any) -> None:
        found[name] = asyncio.run(asyncio.wait_for(ask_there(served), DEADLINE))

    async with serving(app) as url:
        assert await add_up(f"{url}/mcp", ERAS[0]) == "3"
        await asyncio.to_thread(run_there, "same", app)
        assert found["same"][0] == 500
        assert "make another MCPServer" in found["same"][1]["detail"]
        other = Starlette(routes=[Mount("/", MCPServer(engine).app())])
        await asyncio.to_thread(run_there, "other", other)
        assert found["other"][0] == 200
        assert await add_up(f"{url}/mcp", "legacy") == "3"


async def test_one_server_in_two_apps_on_two_loops_is_refused(engine: ToolEngine) -> None:
    """Each way of serving it says so."""
    server = MCPServer(engine)

    async def run_there() -> None:
        with pytest.raises(ConfigurationError, match="another event loop"):
            async with asyncio.timeout(DEADLINE), server._server.lifespan(server._server):
                pass

    async with server._server.lifespan(server._server):
        thread = threading.Thread(target=asyncio.run, args=(run_there(),))
        thread.start()
        await asyncio.to_thread(thread.join)
    async with server._server.lifespan(server._server):
        pass


async def test_one_server_on_one_loop_after_another(engine: ToolEngine) -> None:
    """A loop that is closed stands in the way of none, as in programs of tests."""

    async def serve_once(app: Any) -> str:
        async with serving(app, lifespan="off") as url:
            return await add_up(f"{url}/mcp", ERAS[0])

    app = MCPServer(engine).app()
    for _ in range(2):
        assert await asyncio.to_thread(asyncio.run, serve_once(app)) == "3"
