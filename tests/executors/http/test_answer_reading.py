"""What of an answer is read, and when the reading stops."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.http.answer_reading import Budget

NOTHING = b"\0\0\0\xff\xff"
"""A block of deflate that stands for no byte."""


def test_budget() -> None:
    """What all answers of a call take is counted together."""
    budget = Budget(100)
    assert budget.spend(encoded=60, decoded=60)
    assert budget.spend(encoded=40, decoded=40)
    assert budget.spent == 100
    assert not budget.spend(decoded=1)


@pytest.fixture
async def endless() -> AsyncIterator[str]:
    """The URL of an answer that goes on and on, and decodes to nothing."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n")
        writer.write(gzip.compress(b"")[:10])
        try:
            while True:
                writer.write(NOTHING * 10_000)
                await writer.drain()
        except ConnectionError:
            writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


async def test_much_that_stands_for_nothing(run: Any, endless: str) -> None:
    """The bytes before decoding are limited, too, or an answer would be read for ever."""
    with pytest.raises(ToolExecutionError, match="larger than 1000 bytes"):
        await run.declared({"url": endless, "max_bytes": 1000})


async def test_exactly_as_much_as_there_may_be(run: Any, site: Any) -> None:
    """The limit itself is allowed, before and after decoding."""

    async def answer(request: web.Request) -> web.Response:
        if "packed" not in request.path:
            return web.Response(text="x" * 1000)
        packed = gzip.compress(b"x" * 1000)
        return web.Response(body=packed, headers={"Content-Encoding": "gzip"})

    site.answer = answer
    for path in ("/plain", "/packed"):
        url = site.url + path
        assert await run.declared({"url": url, "max_bytes": 1000}) == "x" * 1000
        with pytest.raises(ToolExecutionError, match="larger than 999 bytes"):
            await run.declared({"url": url, "max_bytes": 999})


@pytest.mark.parametrize(
    ("encoding", "reason"),
    [
        ("gzip, br", r"is encoded 2 times"),
        ("zstd", r"is encoded as 'zstd', which is not supported"),
        ("gzip", r"cannot be decompressed"),
    ],
)
async def test_what_cannot_be_decoded(run: Any, site: Any, encoding: str, reason: str) -> None:
    """The error names the server; the answer is not handed on as it came."""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=b"x" * 100, headers={"Content-Encoding": encoding})

    site.answer = answer
    with pytest.raises(ToolExecutionError, match=rf"the answer of {site.address} {reason}"):
        await run.request(url=site.url)


async def test_no_body_needs_no_decoding(run: Any, site: Any) -> None:
    """An empty answer has nothing that could be encoded wrongly."""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(status=204, headers={"Content-Encoding": "zstd"})

    site.answer = answer
    assert (await run.request(url=site.url))["body"] is None


async def test_what_is_asked_for(run: Any, site: Any) -> None:
    """Only encodings that can be decoded here are asked for."""
    await run.request(url=site.url)
    assert site.requests[0].headers["Accept-Encoding"] == "gzip, deflate, br"
