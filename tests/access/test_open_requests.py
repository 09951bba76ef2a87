"""How many requests may a principal have open at once, and who else is hurt by them?"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.access.conftest import JSON, TOKEN, head, speak, status_of
from tests.mcp_server.test_hostile import headers_of, request_of
from tests.mcp_server.test_transports import serving
from tests.server.conftest import BOUND, Client, served, write_tokens
from tests.studio.conftest import Browser
from tool_engine import ConfigurationError, ToolEngine
from tool_engine.access.guard import Guard
from tool_engine.access.open_requests import OpenRequests
from tool_engine.server import create_app
from tool_engine.server.app import App

LISTEN = request_of("subscriptions/listen", notifications={"toolsListChanged": True})


async def make_app(engine: ToolEngine, folder: Path, **options: Any) -> App:
    tokens = write_tokens(folder / "tokens.json")
    return await asyncio.to_thread(create_app, engine, auth=str(tokens), **options)


async def answer_in_time(client: Client, path: str) -> int:
    """The status once there is room again: a server hears later of a client that leaves."""
    async with asyncio.timeout(BOUND):
        while (status := (await client.get(path)).status) == 429:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.01)
    return status


async def open_stream(client: Client) -> aiohttp.ClientResponse:
    return await client.http.get(f"{client.url}/v1/events", headers=client.headers)


async def test_streams_of_one_principal(engine: ToolEngine, tmp_path: Path) -> None:
    """One more than it may have is refused with a cure; others, and what is public, are heard."""
    async with served(await make_app(engine, tmp_path, max_open=2)) as service:
        ann, bob = service.client("ann"), service.client("bob")
        streams = [await open_stream(ann) for _ in range(2)]
        assert [each.status for each in streams] == [200, 200]
        refused = await ann.get("/v1/events")
        assert (refused.status, refused.kind) == (429, "too-many-open")
        assert refused.headers["retry-after"] == "1"
        assert "end some streams" in refused.json["detail"]
        assert "--max-open" in refused.json["detail"]
        assert (await ann.call("add", a=1, b=2)).status == 429
        assert (await bob.call("add", a=1, b=2)).status == 200
        assert (await service.client(None).get("/healthz")).status == 200
        streams[0].close()
        assert await answer_in_time(ann, "/v1/tools") == 200
        streams[1].close()


async def test_waits_of_one_principal(engine: ToolEngine, tmp_path: Path) -> None:
    """What waits for a call or a task counts as what streams does."""
    async with served(await make_app(engine, tmp_path, max_open=2)) as service:
        ann = service.client("ann")
        calling = asyncio.create_task(ann.call("endless"))
        async with asyncio.timeout(BOUND):
            while not await engine.calls.list():  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0)
        begun = await ann.send(
            "POST", "/v1/tools/endless/calls", json={}, headers={"prefer": "respond-async"}
        )
        path = begun.headers["location"]
        waiting = asyncio.create_task(ann.get(f"{path}?wait=60"))
        async with asyncio.timeout(BOUND):
            while (await ann.get("/v1/tools")).status == 200:  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0)
        for each in (calling, waiting):
            each.cancel()
        await asyncio.gather(calling, waiting, return_exceptions=True)
        assert await answer_in_time(ann, path) == 200
        assert (await ann.send("DELETE", path)).json["is_cancelled"] is True


async def test_listeners_over_mcp(engine: ToolEngine, tmp_path: Path) -> None:
    """Clients of MCP and of the API share what their principal may have."""
    async with served(await make_app(engine, tmp_path, max_open=1, mcp=True)) as service:
        ann = service.client("ann")
        said = {**headers_of(LISTEN), **ann.headers}
        listening = await ann.http.post(f"{ann.url}/mcp", json=LISTEN, headers=said)
        assert listening.status == 200
        for refused in (
            await ann.send("POST", "/mcp", json=LISTEN, headers=said),
            await ann.get("/v1/events"),
        ):
            assert (refused.status, refused.kind) == (429, "too-many-open")
        assert (await service.client("bob").get("/v1/tools")).status == 200
        listening.close()
        assert await answer_in_time(ann, "/v1/tools") == 200


async def test_pages_of_the_studio(engine: ToolEngine, tmp_path: Path) -> None:
    """They count with what their principal has open in other ways."""
    app = await make_app(engine, tmp_path, max_open=1, studio=True)
    async with served(app) as service, Browser(service.url) as browser:
        await browser.open("/studio/sign-in")
        assert (await browser.sign_in("token-of-ann")).status == 200
        stream = await open_stream(service.client("ann"))
        refused = await browser.open("/studio/")
        assert refused.status == 429
        assert "end some streams" in refused.words
        stream.close()
        async with asyncio.timeout(BOUND):
            while (await browser.open("/studio/")).status == 429:  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0.01)


async def test_a_server_of_mcp_alone(engine: ToolEngine) -> None:
    """Clients of this machine, whom no token names, are one principal."""
    async with (
        serving(engine, max_open=1) as url,
        aiohttp.ClientSession(headers=headers_of(LISTEN)) as http,
        http.post(url, json=LISTEN) as first,
        http.post(url, json=LISTEN) as second,
    ):
        assert (first.status, second.status) == (200, 429)
        assert "urn:tool-engine:too-many-open" in await second.text()


async def test_every_end_of_a_request_counts(engine: ToolEngine, tmp_path: Path) -> None:
    """Whatever becomes of a request, its place is free again."""
    body = head("POST /v1/tools/add/calls", TOKEN, JSON, "Content-Length: 20\r\n")
    form = head("POST /v1/tools/add/calls", TOKEN, "Content-Length: 2\r\n") + "{}"
    async with served(await make_app(engine, tmp_path, max_open=1)) as service:
        ann = service.client("ann")
        statuses = [
            status_of(await speak(service.url, form)),
            (await ann.get("/v1/nothing")).status,
            (await ann.get("/v1/tools/nothing")).status,
            (await ann.send("POST", "/v1/tools/add/calls", data=b"{", headers=AS_JSON)).status,
            (await ann.get("/v1/tools?x=1")).status,
        ]
        assert statuses == [415, 404, 404, 400, 400]
        _, writer = await asyncio.open_connection(*service.url.removeprefix("http://").split(":"))
        writer.write(body.encode() + b"{")
        await writer.drain()
        writer.close()
        stream = await open_stream(ann)
        stream.close()
        assert await answer_in_time(ann, "/v1/tools") == 200


AS_JSON = {"content-type": "application/json"}


async def test_an_app_that_fails() -> None:
    """It leaves no place taken."""

    async def fail(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError("broken")

    guarded = Guard(fail, auth=None, open_requests=OpenRequests(1))
    headers = [(b"host", b"localhost")]
    place = {"type": "http", "method": "GET", "path": "/", "client": ("127.0.0.1", 1)}
    for _ in range(3):
        with pytest.raises(RuntimeError, match="broken"):
            await guarded({**place, "headers": headers, "query_string": b""}, None, None)


def test_a_bound_that_is_none() -> None:
    """It is a number of requests, or None for any number; nothing is remembered of who left."""
    for wrong in (0, -1, True, 1.5, "2"):
        with pytest.raises(ConfigurationError, match="max_open"):
            OpenRequests(wrong)  # type: ignore[arg-type]
    counted = OpenRequests(None)
    for _ in range(1000):
        counted.enter("ann")
    for _ in range(1000):
        counted.leave("ann")
    assert repr(counted) == "<OpenRequests {}>"
