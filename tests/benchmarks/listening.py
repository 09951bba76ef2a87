"""How soon does an event reach many that listen over HTTP?

The server runs in a process of its own: `python -m tests.benchmarks.listening`.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from http.client import HTTPConnection
from statistics import median
from typing import Any

import msgspec

from tests.benchmarks import report

__all__ = ["listening"]

READERS = 100
CALLS = 100
BUDGET = 10.0
"""Milliseconds until the last of the readers has an event."""
BODY = b'{"arguments": {"a": 1, "b": 2}}'


async def listening() -> bool:
    """Prints how long events are on their way; whether the budget is kept."""
    with _run_server() as port:
        delays = await _measure_delays(port)
    times = {"the first reader": median(each[0] for each in delays)}
    times["the last reader"] = median(each[-1] for each in delays)
    report.seconds(f"From an event to {READERS} readers over HTTP, in the median", times)
    return report.budget(
        "an event, to the last reader", 1000 * times["the last reader"], BUDGET, " ms"
    )


@contextmanager
def _run_server() -> Iterator[int]:
    """Runs a server of its own process; its port."""
    words = [sys.executable, "-m", "tests.benchmarks.listening"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield int(server.stdout.readline().rpartition(":")[2])
        finally:
            server.kill()


async def _measure_delays(port: int) -> list[list[float]]:
    """The seconds after which each reader has an event, for each event."""
    readers = [await _open_reader(port) for _ in range(READERS)]
    client = HTTPConnection("127.0.0.1", port)
    delays = []
    for _ in range(CALLS):
        waiting = [asyncio.create_task(_read_event(reader)) for reader, _ in readers]
        await asyncio.to_thread(_call_tool, client)
        delays.append(sorted(await asyncio.gather(*waiting)))
    client.close()
    for _, writer in readers:
        writer.close()
    return delays


async def _open_reader(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    path = "/v1/events?types=execution_completed"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    await reader.readuntil(b":\n\n")
    return reader, writer


async def _read_event(reader: asyncio.StreamReader) -> float:
    """The seconds that the next event was on its way."""
    while not (line := await reader.readline()).startswith(b"data: "):
        pass
    arrived = time.time()
    event = msgspec.json.decode(line.removeprefix(b"data: "))
    return arrived - datetime.fromisoformat(event["timestamp"]).timestamp()


def _call_tool(client: HTTPConnection) -> None:
    client.request("POST", "/v1/tools/add/calls", BODY, {"Content-Type": "application/json"})
    client.getresponse().read()


async def serve() -> None:
    """Serves one tool until it is killed."""
    from tool_engine import ToolEngine, ToolEngineConfig
    from tool_engine.access.listening import serve_app
    from tool_engine.server import create_app

    with tempfile.TemporaryDirectory() as folder:
        async with ToolEngine(ToolEngineConfig(tools_directory=folder)) as engine:

            @engine.tool(effect="read")
            async def add(a: int, b: int) -> int:
                """Add two numbers."""
                return a + b

            def tell(url: Any) -> None:
                print(url, flush=True)

            await serve_app(create_app(engine), "127.0.0.1", 0, tell, "")


if __name__ == "__main__":
    asyncio.run(serve())
