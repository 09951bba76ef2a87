"""How are apps served to clients that are slow?"""

from __future__ import annotations

import asyncio
from typing import Any

from tool_engine.access.listening import serve_app

PIECE = b"x" * (1 << 20)
PIECES = 200
BOUND = 30.0


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
    async with asyncio.timeout(BOUND):
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
