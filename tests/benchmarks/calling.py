"""How many calls does the HTTP API answer, beside a bare Starlette app that echoes what it gets?

Each server has a process of its own and the same uvicorn; eight callers, each with a connection
that stays open, send to one of them at a time, and the two take turns. What counts is the
processor time of the server: on a busy machine the rate says what else ran. As a program: one of
the servers, `python -m tests.benchmarks.calling api`; without a word it measures.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

from tests.benchmarks import report

__all__ = ["calling"]

BARE = "Starlette, which echoes"
API = "tool-engine, POST /v1/tools/echo/calls"
CALLERS = 8
ROUNDS = 11
"""For each pair of processes."""
CALLS = 1_600
"""For each turn of a round."""
WARM_UP = 3_200
BUDGET = 0.85
"""The least part of the bare app's rate."""
PAIRS = 3
"""Pairs of processes: where a process lies in memory is worth some hundredths, either way."""
TOKEN = "token-of-ann"
ANSWER_HEAD = b"HTTP/1.1 200 OK\r\n"
BODY = {"arguments": {"message": "hello"}}


class Caller(asyncio.Protocol):
    """Sends the same request again and again, each when the answer to the last is there.

    It costs little: what is measured are the servers.
    """

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._transport: Any = None
        self._left = 0
        self._done: asyncio.Future[None] | None = None
        self._answer = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    async def send(self, count: int) -> None:
        """Sends so many."""
        self._left = count
        self._done = asyncio.get_running_loop().create_future()
        self._transport.write(self._request)
        await self._done

    def close(self) -> None:
        self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(ConnectionError("the server has closed the connection"))

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, end, body = self._answer.partition(b"\r\n\r\n")
        if not end:
            return
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if len(body) < length:
            return
        assert self._done is not None
        if not head.startswith(ANSWER_HEAD) or b"hello" not in body:
            self._done.set_exception(AssertionError(self._answer.decode()))
            return
        self._answer = b""
        self._left -= 1
        if self._left:
            self._transport.write(self._request)
        else:
            self._done.set_result(None)


def make_request(place: str) -> bytes:
    """A call as clients send it."""
    body = json.dumps(BODY).encode()
    lines = (
        "POST /v1/tools/echo/calls HTTP/1.1",
        f"Host: {place}",
        f"Authorization: Bearer {TOKEN}",
        "Accept: */*",
        "User-Agent: benchmark",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def connect(url: str) -> list[Caller]:
    place = urlsplit(url)
    request = make_request(place.netloc)
    loop = asyncio.get_running_loop()
    made = [
        await loop.create_connection(lambda: Caller(request), str(place.hostname), place.port or 0)
        for _ in range(CALLERS)
    ]
    return [caller for _, caller in made]


async def send_all(callers: list[Caller], count: int, pid: int) -> float:
    """Sends so many requests in all; how many a second of the server's processor time answers."""
    began = read_time(pid)
    await asyncio.gather(*(each.send(count // CALLERS) for each in callers))
    return count / (read_time(pid) - began)


def read_time(pid: int) -> float:
    """The seconds of processor time that a process has used; of a clock where none says so."""
    threads = Path(f"/proc/{pid}/task")
    if not threads.exists():
        return time.perf_counter()
    spent = (each / "schedstat" for each in threads.iterdir())
    return sum(int(each.read_text().split()[0]) for each in spent) / 1e9


@contextmanager
def server(kind: str) -> Iterator[tuple[str, int]]:
    """Runs a server; its URL, and its process."""
    words = [sys.executable, "-m", "tests.benchmarks.calling", kind]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), process.pid
    finally:
        process.kill()
        process.communicate()


async def measure_rates() -> tuple[dict[str, list[float]], list[float]]:
    """The rates of one pair of processes, round by round, and their ratios."""
    with server("bare") as bare, server("api") as api:
        pids = {BARE: bare[1], API: api[1]}
        callers = {BARE: await connect(bare[0]), API: await connect(api[0])}
        rates: dict[str, list[float]] = {BARE: [], API: []}
        for name, each in callers.items():
            await send_all(each, WARM_UP, pids[name])
        for number in range(ROUNDS):
            for name in (BARE, API) if number % 2 else (API, BARE):
                rates[name].append(await send_all(callers[name], CALLS, pids[name]))
        for caller in (*callers[BARE], *callers[API]):
            caller.close()
    return rates, [mine / its for mine, its in zip(rates[API], rates[BARE], strict=True)]


async def calling() -> bool:
    """Prints the table; whether the median of all rounds keeps the budget."""
    found = [await measure_rates() for _ in range(PAIRS)]
    rates = {name: median(rate for each, _ in found for rate in each[name]) for name in (BARE, API)}
    ratio = median(each for _, ratios in found for each in ratios)
    report.rates(f"Requests in a second of an HTTP server's own time, {CALLERS} callers", rates)
    shown = ", ".join(f"{median(ratios):.2f}" for _, ratios in found)
    print(f"(pairs of processes: {shown})")
    return report.budget(f"{BARE} / {API}", 1 / ratio, round(1 / BUDGET, 3), "x")


# The servers.


def make_bare() -> Any:
    """A Starlette app that reads JSON and sends it back."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def echo(request: Request) -> JSONResponse:
        return JSONResponse(await request.json())

    return Starlette(routes=[Route("/v1/tools/{name}/calls", echo, methods=["POST"])])


async def serve_bare() -> None:
    import uvicorn

    # Its connections rest while the other one is asked.
    config = uvicorn.Config(
        make_bare(), port=0, log_config=None, access_log=False, timeout_keep_alive=75
    )
    program = uvicorn.Server(config)
    serving = asyncio.create_task(program.serve())
    while not program.started:  # noqa: ASYNC110 - it tells no one
        await asyncio.sleep(0.01)
    port = program.servers[0].sockets[0].getsockname()[1]
    print(f"http://127.0.0.1:{port}", flush=True)
    await serving


def write_files(folder: Path) -> str:
    """Writes a tool, and the tokens of one client."""
    tools = folder / "tools"
    tools.mkdir()
    parameter = {"name": "message", "type": "string", "required": True, "description": "What."}
    tool = {
        "name": "echo",
        "description": "Says it again.",
        "effect": "read",
        "parameters": [parameter],
        "entry": {"type": "builtin", "handler": "echo"},
    }
    (tools / "echo.yaml").write_text(json.dumps(tool))
    tokens = folder / "tokens.yaml"
    known = hashlib.sha256(TOKEN.encode()).hexdigest()
    tokens.write_text(json.dumps([{"name": "ann", "sha256": known}]))
    return str(tokens)


async def serve_api() -> None:
    from tool_engine import ToolEngine, ToolEngineConfig
    from tool_engine.access.listening import serve_app
    from tool_engine.server import create_app

    with tempfile.TemporaryDirectory() as folder:
        tokens = await asyncio.to_thread(write_files, Path(folder))
        config = ToolEngineConfig(tools_directory=f"{folder}/tools", keep_events=1_000)
        async with ToolEngine(config) as engine:
            app = await asyncio.to_thread(create_app, engine, auth=tokens, rate="1000000/s")
            await serve_app(app, "127.0.0.1", 0, lambda url: print(url, flush=True), "")


if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.exit(0 if asyncio.run(calling()) else 1)
    asyncio.run(serve_bare() if sys.argv[1] == "bare" else serve_api())
