"""Is there one way to read where a body ends, and an end to waiting for it?"""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Iterator

import pytest

from tests.access.conftest import JSON, TOKEN, head, speak, status_of
from tests.server.conftest import BOUND, Service
from tool_engine import ToolEngine

CALL = "POST /v1/tools/add/calls"
BODY = '{"arguments": {"a": 1, "b": 2}}'
CHUNKED = "Transfer-Encoding: chunked\r\n"


@pytest.mark.parametrize("path", [CALL, "GET /healthz", "DELETE /v1/calls/x", "POST /nix"])
async def test_a_length_and_chunks(service: Service, engine: ToolEngine, path: str) -> None:
    """A proxy that goes by the length sees a second request where the body goes on."""
    text = f"{len(BODY):x}\r\n{BODY}\r\n0\r\n\r\n"
    hidden = "GET /v1/engine HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    for headers in (("Content-Length: 4\r\n", CHUNKED), (CHUNKED, "Content-Length: 4\r\n")):
        request = head(path, TOKEN, JSON, *headers).replace("Connection: close\r\n", "")
        answer = await speak(service.url, request + text + hidden)
        assert answer.count("HTTP/1.1") == 1
        assert status_of(answer) == 400
        assert "two-lengths" in answer
    assert await engine.query_call_records() == []


@pytest.mark.parametrize(
    "chunks",
    [
        f"3\r\n{BODY}\r\n0\r\n\r\n",
        "-1\r\n",
        "0x5\r\nabcde\r\n0\r\n\r\n",
        f"5;{'x' * 70_000}",
        "5 5\r\nabcde\r\n0\r\n\r\n",
    ],
)
async def test_chunks_that_are_none(service: Service, engine: ToolEngine, chunks: str) -> None:
    answer = await speak(service.url, head(CALL, TOKEN, JSON, CHUNKED) + chunks)
    assert status_of(answer) == 400
    assert await engine.query_call_records() == []


@pytest.mark.parametrize("path", ["GET /v1/tools", "DELETE /v1/calls/x", "OPTIONS /nix"])
async def test_a_body_where_none_belongs(
    service: Service, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """It holds no connection for longer than any other body."""
    monkeypatch.setattr("tool_engine.access.bodies._LONGEST_WAIT", 0.1)
    request = head(path, TOKEN, JSON, "Content-Length: 1000\r\n").replace(
        "Connection: close\r\n", ""
    )
    host, port = service.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request.encode() + b"{")
    async with asyncio.timeout(BOUND):
        answer = await reader.read()  # until the server closes
    writer.close()
    assert status_of(answer.decode()) == 408


@pytest.mark.parametrize(
    ("path", "length", "status"),
    [("GET /healthz", 2, 400), ("GET /v1/tools", 2, 415), ("GET /v1/tools", 5 << 20, 413)],
)
async def test_bodies_where_none_belongs(
    service: Service, path: str, length: int, status: int
) -> None:
    """They are held to what holds for all bodies; who has no token sends none."""
    request = head(path, TOKEN, f"Content-Length: {length}\r\n")
    assert status_of(await speak(service.url, request)) == status


async def test_chunks_before_there_were_any(service: Service, engine: ToolEngine) -> None:
    """A proxy of HTTP/1.0 hands them on without knowing where they end."""
    text = f"{len(BODY):x}\r\n{BODY}\r\n0\r\n\r\n"
    request = head(CALL, TOKEN, JSON, CHUNKED).replace("HTTP/1.1", "HTTP/1.0")
    answer = await speak(service.url, request + text)
    assert status_of(answer) == 400
    length = head(CALL, TOKEN, JSON, f"Content-Length: {len(BODY)}\r\n")
    known = length.replace("HTTP/1.1", "HTTP/1.0")
    assert status_of(await speak(service.url, known + BODY)) == 200
    assert len(await engine.query_call_records()) == 1


async def test_a_body_that_is_packed(service: Service, engine: ToolEngine) -> None:
    """What stands in it is another thing for who unpacks it."""
    length = f"Content-Length: {len(BODY)}\r\n"
    answer = await speak(
        service.url, head(CALL, TOKEN, JSON, length, "Content-Encoding: gzip\r\n") + BODY
    )
    assert status_of(answer) == 415
    assert "send it without Content-Encoding" in answer
    assert await engine.query_call_records() == []


async def test_a_body_that_comes_in_parts(service: Service) -> None:
    """It is waited for, and read as one."""
    host, port = service.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    length = f"Content-Length: {len(BODY)}\r\n"
    for part in (head(CALL, TOKEN, JSON, length), BODY[:7], BODY[7:20], BODY[20:]):
        writer.write(part.encode())
        await writer.drain()
        await service.client("ann").get("/v1/tools")  # so that each comes by itself
    async with asyncio.timeout(BOUND):
        answer = await reader.read()
    writer.close()
    assert status_of(answer.decode()) == 200
    assert '"result":3' in answer.decode()


def _parts(size: int) -> Iterator[bytes]:
    for _ in range(size >> 16):
        yield b"x" * (1 << 16)


@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize(
    ("headers", "size", "status"),
    [
        ((TOKEN, JSON), 5 << 20, 413),
        ((TOKEN, JSON), 30 << 20, 413),
        ((JSON,), 3 << 20, 401),
        ((TOKEN,), 3 << 20, 415),
        ((TOKEN, JSON, "Origin: http://other.example\r\n"), 5 << 20, 403),
    ],
)
async def test_the_answer_to_a_body_that_is_refused(
    service: Service, headers: tuple[str, ...], size: int, status: int, is_chunked: bool
) -> None:
    """A client that reads the answer once it has sent all gets it, and no reset connection."""
    address = service.url.removeprefix("http://")
    named = dict(line.strip().split(": ", 1) for line in headers)

    def send() -> tuple[int, str]:
        connection = http.client.HTTPConnection(address, timeout=BOUND)
        body = _parts(size) if is_chunked else b"x" * size
        connection.request("POST", "/v1/tools/add/calls", body, named, encode_chunked=is_chunked)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())["type"]

    said, kind = await asyncio.to_thread(send)
    assert (said, kind.startswith("urn:tool-engine:")) == (status, True)


async def test_a_body_that_is_refused_and_does_not_come(service: Service) -> None:
    """It is waited for, but not for long."""
    request = head(CALL, JSON, f"Content-Length: {5 << 20}\r\n")
    async with asyncio.timeout(BOUND):
        assert status_of(await speak(service.url, request)) == 413
