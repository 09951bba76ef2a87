"""Who can hold a server up?"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from asyncio.selector_events import BaseSelectorEventLoop
from typing import Any

import aiohttp
import pytest

from tests.access.conftest import TOKEN, head, speak, status_of
from tests.mcp_server.test_transports import HEADERS, META
from tests.server.conftest import BOUND, Client, Service, served
from tool_engine import ToolEngine
from tool_engine.access import client_connection, listener, listening
from tool_engine.access.listening import serve_app
from tool_engine.server import create_app

PIECE = b"x" * (1 << 20)
PIECES = 200


async def test_more_connections_than_it_takes(
    engine: ToolEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One too many is answered 503, and when others have left the next is served."""
    monkeypatch.setattr(listener, "_MOST_CONNECTIONS", 4)
    async with served(create_app(engine)) as service:
        host, port = service.url.removeprefix("http://").split(":")
        async with contextlib.AsyncExitStack() as held:
            for _ in range(4):
                _, writer = await asyncio.open_connection(host, int(port))
                held.callback(writer.close)
            assert status_of(await speak(service.url, head("GET /v1/tools"))) == 503
        answer = await speak(service.url, head("GET /v1/tools"))
        while status_of(answer) == 503:  # until it has seen that they have left
            answer = await speak(service.url, head("GET /v1/tools"))
        assert status_of(answer) == 200


async def test_clients_that_still_send_when_they_are_refused(
    engine: ToolEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They read why; the newest may send their requests to the end, and then are hung up on."""
    monkeypatch.setattr(listener, "_MOST_CONNECTIONS", 0)
    monkeypatch.setattr(client_connection, "_MOST_REFUSED", 1)
    async with served(create_app(engine)) as service, contextlib.AsyncExitStack() as clients:
        host, port = service.url.removeprefix("http://").split(":")
        for _ in range(2):
            reader, writer = await asyncio.open_connection(host, int(port))
            clients.callback(writer.close)
            assert status_of((await reader.read()).decode()) == 503
        for line in (b"GET /v1/tools HTTP/1.1\r\n", b"Host: here\r\n", b"\r\n"):
            writer.write(line)
            await writer.drain()
            await asyncio.sleep(0)
        async with asyncio.timeout(BOUND):
            while not writer.transport.is_closing():
                writer.write(b"x")
                await asyncio.sleep(0)


async def test_a_client_that_comes_while_it_ends(
    engine: ToolEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not waited for, and its connection is closed."""
    app = create_app(engine)
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    clients: list[socket.socket] = []
    taken: list[Any] = []
    end = listening._Server.shutdown
    take = BaseSelectorEventLoop._accept_connection2  # type: ignore[attr-defined]

    def note_taken(*args: Any) -> Any:
        taken.append(args)
        return take(*args)

    async def end_late(server: Any, sockets: Any) -> None:
        """End in the turn in which the loop has taken a connection that nothing knows yet."""
        clients.append(socket.create_connection((host, int(port)), timeout=BOUND))
        while not taken:  # noqa: ASYNC110 - turns of the loop are what it is about
            await asyncio.sleep(0)
        await end(server, sockets)

    monkeypatch.setattr(BaseSelectorEventLoop, "_accept_connection2", note_taken)
    monkeypatch.setattr(listening._Server, "shutdown", end_late)
    serving = asyncio.create_task(
        serve_app(app, "127.0.0.1", 0, ready.set_result, "", grace=10 * BOUND, on_end=app.end)
    )
    host, port = (await ready).removeprefix("http://").split(":")
    serving.cancel()
    async with asyncio.timeout(BOUND):
        await asyncio.gather(serving, return_exceptions=True)
    with clients[0] as client:
        assert await asyncio.to_thread(client.recv, 1) == b""


async def test_it_ends_at_once(engine: ToolEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not look now and then whether it is to end, and an idle connection is closed."""
    monkeypatch.setattr(listening, "_DATE_PERIOD", 10 * BOUND)
    async with asyncio.timeout(BOUND), served(create_app(engine)) as service:
        assert (await service.client("ann").get("/healthz")).status == 200


async def test_a_socket_is_no_way_around(service: Service) -> None:
    """A request that would become a socket is one as any other, and is closed elsewhere."""
    upgrade = (
        "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    )
    for token, status in (("", 401), (TOKEN, 200)):
        request = head("GET /v1/tools", token, upgrade)
        asked = request.replace("Connection: close", "Connection: close, Upgrade")
        assert status_of(await speak(service.url, asked)) == status
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await service.app({"type": "websocket", "path": "/v1/events", "headers": []}, None, send)
    assert sent == [{"type": "websocket.close"}]  # answered 403, by servers that have sockets


async def test_requests_that_the_end_cuts_off(
    engine: ToolEngine, caplog: pytest.LogCaptureFixture
) -> None:
    """Each has an answer that says so, whatever it waits for, and its call has an end."""
    app = create_app(engine, mcp=True)
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve_app(app, "127.0.0.1", 0, ready.set_result, "", grace=0.1))
    stream = {"accept": "text/event-stream"}
    params = {"name": "endless", "arguments": {}, "_meta": META}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    said = {**HEADERS, "Mcp-Method": "tools/call", "Mcp-Name": "endless"}
    async with asyncio.timeout(BOUND), aiohttp.ClientSession() as http:
        client = Client(http, await ready, None)
        asked = [
            client.call("endless"),
            client.send("POST", "/v1/tools/endless/calls", json={}, headers=stream),
            client.send("POST", "/v1/tools/pay/calls", json={"arguments": {"amount": 1}}),
            client.send("POST", "/mcp", json=message, headers=said),
        ]
        tasks = [asyncio.create_task(each) for each in asked]
        while len(await engine.calls.list()) < len(tasks):  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0)
        serving.cancel()
        called, streamed, waited, _ = await asyncio.gather(*tasks)
        await asyncio.gather(serving, return_exceptions=True)
    for answer in (called, waited):
        assert (answer.status, answer.kind) == (503, "server-ended")
    last = streamed.text.strip().rpartition("\n\n")[2]
    assert last.startswith("event: problem\ndata: ")
    assert "urn:tool-engine:server-ended" in last
    outcomes = {each.outcome.value for each in await engine.query_call_records()}
    assert outcomes == {"cancelled"}
    assert "Exception" not in caplog.text


async def test_what_no_client_reads_is_not_kept_in_memory() -> None:
    """An app that sends much waits for a client that does not keep up."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[str] = loop.create_future()
    begun = asyncio.Event()
    sent = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal sent
        if scope["type"] != "http":
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(PIECES):
            await send({"type": "http.response.body", "body": PIECE, "more_body": True})
            sent += 1
            begun.set()
        await send({"type": "http.response.body", "body": b""})

    serving = asyncio.create_task(serve_app(app, "127.0.0.1", 0, ready.set_result, "/"))
    async with asyncio.timeout(3 * BOUND):
        host, port = (await ready).split("/")[2].split(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 16)
        writer.write(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        await begun.wait()
        assert sent < PIECES
        size = 0
        while size < PIECES * len(PIECE):
            size += len(await reader.read(1 << 20))
        writer.close()
        serving.cancel()
        await asyncio.wait([serving])
