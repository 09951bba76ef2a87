"""How much of the bare client's throughput is left when a request goes through the engine?

Both send the same requests to the same server on the loopback address, which runs in a process of
its own and answers without looking, so that what is measured is the client.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from tool_engine import ConcurrencyConfig, ToolEngine, ToolEngineConfig

__all__ = ["CONCURRENCY", "Rates", "http_rates"]

BARE = "aiohttp, bare"
THROUGH = "aiohttp, through the engine"
CONCURRENCY = 50
ROUNDS = 9
REQUESTS = 1500
"""For each turn of a round."""

_TOOL = """
name: item
description: Reads one item.
category: http
effect: read
parameters:
  - {{name: id, type: integer, required: true, description: The number of the item}}
entry:
  type: http
  request: {{url: "{origin}/items/{{id}}"}}
  allow: ["127.0.0.1:*"]
"""
_SERVER = r"""
import asyncio

BODY = b'{"id": 7, "name": "a thing", "tags": ["a", "b"]}'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
ANSWER = HEAD % len(BODY) + BODY


class Server(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.transport.write(ANSWER * data.count(b"\r\n\r\n"))


async def main():
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
"""

Send = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Rates:
    """Requests a second, of the round whose ratio is the median of all rounds."""

    bare: float
    through: float

    def by_name(self) -> dict[str, float]:
        """The rows of a table."""
        return {BARE: self.bare, THROUGH: self.through}


async def http_rates(directory: Path) -> Rates:
    """Measures both clients, in turns."""
    with _server() as origin:
        _write_tool(directory, origin)
        config = ToolEngineConfig(
            tools_directory=str(directory),
            auto_reload=False,
            concurrency=ConcurrencyConfig(max_concurrent=CONCURRENCY),
        )
        connector = aiohttp.TCPConnector(limit=0)
        async with ToolEngine(config) as engine, aiohttp.ClientSession(connector=connector) as bare:

            async def through() -> None:
                result = await engine.execute("item", {"id": 7})
                if not result.is_success:
                    raise AssertionError(f"the engine is wrong: {result}")

            async def plain() -> None:
                async with bare.get(f"{origin}/items/7") as response:
                    await response.json()

            return await _compare(plain, through)


def _write_tool(directory: Path, origin: str) -> None:
    directory.mkdir(exist_ok=True)
    (directory / "item.yaml").write_text(_TOOL.format(origin=origin), encoding="utf-8")


async def _compare(plain: Send, through: Send) -> Rates:
    await _rate(plain)
    await _rate(through)
    rounds = []
    for number in range(ROUNDS):
        order = (plain, through) if number % 2 else (through, plain)
        rates = {send: await _rate(send) for send in order}
        rounds.append(Rates(rates[plain], rates[through]))
    return sorted(rounds, key=lambda each: each.through / each.bare)[ROUNDS // 2]


async def _rate(send: Send) -> float:
    left = iter(range(REQUESTS))

    async def worker() -> None:
        for _ in left:
            await send()

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(CONCURRENCY):
            group.create_task(worker())
    return REQUESTS / (time.perf_counter() - began)


@contextmanager
def _server() -> Iterator[str]:
    command = [sys.executable, "-c", _SERVER]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            port = int(process.stdout.readline() if process.stdout else b"")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
