"""What do several servers on one database share, behind a proxy?"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest

from tests.postgres import PostgresServer
from tests.server.process import HEADERS, ServerProcess, server_process, write_tools
from tests.server.proxies import NGINX, nginx_proxy, plain_proxy
from tool_engine import ToolEngine, ToolEngineConfig

BOUND = 60.0
HOST = "tools.example"
SAY = "/v1/tools/say/calls"
HELLO = {"arguments": {"message": "hello"}}


class Replicas(NamedTuple):
    servers: list[ServerProcess]
    http: aiohttp.ClientSession
    """Through the proxy: each request goes to the other server than the one before."""
    is_nginx: bool

    async def ask(self, method: str, path: str, **options: Any) -> Any:
        async with self.http.request(method, path, **options) as answer:
            assert answer.status in (200, 202), await answer.text()
            return await answer.json()


@pytest.fixture(
    params=[
        "plain",
        pytest.param("nginx", marks=pytest.mark.skipif(NGINX is None, reason="no nginx here")),
    ]
)
async def replicas(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_server: PostgresServer
) -> AsyncIterator[Replicas]:
    records = await asyncio.to_thread(postgres_server.fresh_database)
    async with contextlib.AsyncExitStack() as stack:
        servers = [
            await stack.enter_async_context(
                server_process(tmp_path, "--allowed-host", HOST, "--grace", "2", records=records)
            )
            for _ in range(2)
        ]
        urls = [each.url for each in servers]
        proxy = plain_proxy(urls) if request.param == "plain" else nginx_proxy(urls, tmp_path)
        url = await stack.enter_async_context(proxy)
        http = aiohttp.ClientSession(
            url,
            headers={**HEADERS, "host": HOST},
            connector=aiohttp.TCPConnector(force_close=True),
        )
        await stack.enter_async_context(http)
        await stack.enter_async_context(asyncio.timeout(BOUND))
        yield Replicas(servers, http, request.param == "nginx")


async def test_what_is_shared(replicas: Replicas) -> None:
    """Tasks, records, requests for consent and keys are those of all servers."""
    ask = replicas.ask
    for _ in range(3):
        task = await ask("POST", SAY, json=HELLO, headers={"prefer": "respond-async"})
        for _ in range(2):
            found = await ask("GET", f"/v1/tasks/{task['id']}?wait=30")
            assert found["status"] == "succeeded"
    key = {"idempotency-key": "k"}
    results = await asyncio.gather(*(ask("POST", SAY, json=HELLO, headers=key) for _ in range(4)))
    assert len({each["metadata"]["call_id"] for each in results}) == 1
    # A call waits at one of them, and is answered at the other.
    waiting = asyncio.create_task(ask("POST", "/v1/tools/shout/calls", json=HELLO))
    requests: list[Any] = []
    while not requests:
        requests = (await ask("GET", "/v1/approvals"))["items"]
    await ask("POST", f"/v1/approvals/{requests[0]['token']}", json={"is_allowed": True})
    assert (await waiting)["output"] == {"message": "hello"}
    for _ in range(2):
        while len((await ask("GET", "/v1/records"))["items"]) != 5:  # written in batches
            pass


async def test_a_stream_through_a_proxy(replicas: Replicas) -> None:
    """What happens comes as it happens, and a client that leaves ends its call."""
    said = {"accept": "text/event-stream"}
    body = {"arguments": {"delay": 60}}
    async with replicas.http.post("/v1/tools/pause/calls", json=body, headers=said) as answer:
        assert await answer.content.readline() == b"event: execution_started\n"
    records: list[Any] = []
    while not records:
        records = (await replicas.ask("GET", "/v1/records"))["items"]
    assert [each["error_type"] for each in records] == ["cancelled"]


async def test_one_ends(replicas: Replicas) -> None:
    """A task that was started at a server that has ended goes on at the other one."""
    tasks = [
        await replicas.ask("POST", SAY, json=HELLO, headers={"prefer": "respond-async"})
        for _ in range(6)
    ]
    one, two = replicas.servers
    assert await one.end() == (128 + signal.SIGTERM, "")
    if replicas.is_nginx:  # a proxy that finds a server gone asks the next one
        for _ in range(6):
            assert (await replicas.ask("POST", SAY, json=HELLO))["is_success"]
    async with aiohttp.ClientSession(two.url, headers=HEADERS) as http:
        for each in tasks:
            async with http.get(f"/v1/tasks/{each['id']}?wait=30") as answer:
                assert (await answer.json())["status"] == "succeeded"


async def test_a_killed_server_asks_no_more(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    """What a call waits for that a kill has ended is listed for some seconds, and no longer."""
    records = await asyncio.to_thread(postgres_server.fresh_database)
    async with contextlib.AsyncExitStack() as stack:
        one, two = [
            await stack.enter_async_context(server_process(tmp_path, records=records))
            for _ in range(2)
        ]
        first, second = [
            await stack.enter_async_context(aiohttp.ClientSession(each.url, headers=HEADERS))
            for each in (one, two)
        ]

        async def list_open() -> list[str]:
            # Else the test alone would keep the server busy.
            await asyncio.sleep(0.1)
            async with second.get("/v1/approvals") as answer:
                return [each["token"] for each in (await answer.json())["items"]]

        await stack.enter_async_context(asyncio.timeout(BOUND))
        waits = [
            asyncio.ensure_future(each.post("/v1/tools/shout/calls", json=HELLO))
            for each in (first, second)
        ]
        while len(before := await list_open()) < 2:
            pass
        await one.end(signal.SIGKILL)
        killed = time.monotonic()
        while len(left := await list_open()) == 2:
            pass
        assert time.monotonic() - killed < 15
        assert set(left) < set(before)
        # That of the call that still waits is renewed.
        while time.monotonic() - killed < 8:
            assert await list_open() == left
            await asyncio.sleep(0.1)
        async with second.post(f"/v1/approvals/{left[0]}", json={"is_allowed": True}) as answer:
            assert answer.status == 200
        assert (await waits[1]).status == 200
        await asyncio.wait([waits[0]])
        assert waits[0].exception() is not None


@pytest.mark.parametrize(
    "words", [("serve", "--no-auth", "--port", "0"), ("mcp", "serve", "--http", "127.0.0.1:0")]
)
async def test_started_by_another_program(tmp_path: Path, words: tuple[str, ...]) -> None:
    """A server that had no task at its start runs those that others keep for it."""
    tools, records = write_tools(tmp_path), f"sqlite:///{tmp_path / 'kept.db'}"
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tool_engine.cli", "--tools", str(tools), "--records", records),
        *words,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    config = ToolEngineConfig(tools_directory=str(tools), records=records, run_tasks=False)
    try:
        async with asyncio.timeout(BOUND):
            assert server.stderr is not None
            assert (await server.stderr.readline()).startswith(b"serving 3 tools")
            async with ToolEngine(config) as engine:
                handle = await engine.start("say", {"message": "hello"})
                assert (await handle.wait()).output == {"message": "hello"}
    finally:
        server.kill()
        await server.wait()


async def test_a_server_that_is_about_to_end_begins_no_task(tmp_path: Path) -> None:
    """What waits, or comes, while open requests end waits for the next server."""
    records = f"sqlite:///{tmp_path / 'kept.db'}"
    settings: dict[str, Any] = {"tools_directory": str(write_tools(tmp_path)), "records": records}
    config = ToolEngineConfig(**settings, run_tasks=False)
    async with (
        asyncio.timeout(BOUND),
        server_process(tmp_path, "--grace", "30", records=records) as server,
        aiohttp.ClientSession(server.url, headers=HEADERS) as http,
        ToolEngine(config) as engine,
    ):
        first = await engine.start("say", {"message": "before"})
        assert (await first.wait()).is_success
        body = {"arguments": {"delay": 3}}
        call = asyncio.create_task(http.post("/v1/tools/pause/calls", json=body))
        while not (await (await http.get("/v1/calls")).json())["items"]:
            pass
        server.process.send_signal(signal.SIGTERM)
        while (await http.get("/readyz")).status != 503:
            pass
        later = await engine.start("say", {"message": "after"})
        assert (await call).status == 200
        assert await server.process.wait() == 128 + signal.SIGTERM
        assert (await later.refresh()).status == "queued"
        async with server_process(tmp_path, records=records):
            assert (await later.wait()).output == {"message": "after"}
