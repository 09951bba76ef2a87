"""Who can hold a server up?"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from tests.access.conftest import TOKEN, head, speak, status_of
from tests.server.conftest import Service, served
from tool_engine import ToolEngine
from tool_engine.access import listening
from tool_engine.server import create_app


async def test_more_connections_than_it_takes(
    engine: ToolEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One too many is answered 503, and when others have left the next is served."""
    monkeypatch.setattr(listening, "_MOST_CONNECTIONS", 4)
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
