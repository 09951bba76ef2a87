"""Requests as bytes: what no client library would send."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from tests.server.conftest import BOUND
from tests.server.conftest import engine as engine
from tests.server.conftest import service as service

TOKEN = "Authorization: Bearer token-of-ann\r\n"
JSON = "Content-Type: application/json\r\n"


async def speak(url: str, text: str | bytes, *, until_end: bool = True) -> str:
    """What a server answers to bytes."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(text.encode() if isinstance(text, str) else text)
        await writer.drain()
        async with asyncio.timeout(BOUND):
            return (await reader.read() if until_end else await reader.read(65536)).decode()
    finally:
        writer.close()


def head(line: str, *headers: str, host: str = "127.0.0.1") -> str:
    return f"{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{''.join(headers)}\r\n"


def status_of(answer: str) -> int:
    return int(answer.split(" ", 2)[1])


@asynccontextmanager
async def answering(answer: Any) -> AsyncIterator[str]:
    """A server that answers each request by a function; gives its URL."""
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0]
    try:
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()
