"""What becomes of a request of 2026-07-28 whose client leaves, or may not read its answer?"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.mcp_server.test_exchange import ask, call
from tests.mcp_server.test_transports import HEADERS, serving, write_tokens
from tool_engine import ToolEngine
from tool_engine.mcp_server import MCPServer, exchange

DEADLINE = 200.0
WAIT = {**HEADERS, "Mcp-Method": "tools/call", "Mcp-Name": "wait"}


class Waiting:
    """A tool that waits, and what it hears meanwhile."""

    def __init__(self, engine: ToolEngine, *, goes_on: bool = False) -> None:
        self.started = asyncio.Event()
        self.ended = asyncio.Event()

        @engine.tool
        async def wait(context: Any) -> str:
            """Wait."""
            await context.report_progress(1, 2, "begun")
            self.started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if not goes_on:
                    raise
            finally:
                self.ended.set()
            return "waited"


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens are looked at again at once."""
    monkeypatch.setattr("tool_engine.access.streams._LOOK", 0.01)
    monkeypatch.setattr("tool_engine.access.tokens._PAUSE", 0.0)


@pytest.mark.parametrize("goes_on", [False, True])
@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_call_whose_token_is_taken_back(
    engine: ToolEngine,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    soon: None,
    goes_on: bool,
    is_stream: bool,
) -> None:
    """Its client reads why, or the end of its stream; no answer, and no line of the server's."""
    tool = Waiting(engine, goes_on=goes_on)
    file = write_tokens(tmp_path / "tokens.yaml", ann="secret-a")
    headers = {**WAIT, "Authorization": "Bearer secret-a"}
    meta = {"progressToken": "p"} if is_stream else {}
    with caplog.at_level(logging.WARNING):
        async with (
            asyncio.timeout(DEADLINE),
            serving(engine, token_file=file) as url,
            aiohttp.ClientSession() as session,
        ):
            asking = asyncio.create_task(
                session.post(url, json=call("wait", {}, **meta), headers=headers)
            )
            await tool.started.wait()
            await asyncio.to_thread(write_tokens, tmp_path / "tokens.yaml", bob="secret-b")
            answer = await asking
            text = await answer.text()
            await tool.ended.wait()
    assert "waited" not in text
    if is_stream:
        assert (answer.status, text.count("data: ")) == (200, 1)
    else:
        assert answer.status == 401
        assert json.loads(text)["type"] == "urn:tool-engine:unknown-token"
    assert not [each for each in caplog.records if "ASGI" in each.getMessage()]
    assert len(await engine.query_call_records()) == 1


class Exchange:
    """One request to an app, as a server passes it on."""

    def __init__(self, message: Any) -> None:
        body = json.dumps(message).encode()
        names = {
            **WAIT,
            "Mcp-Method": message["method"],
            "Host": "127.0.0.1",
            "Content-Length": str(len(body)),
        }
        self._parts = [{"type": "http.request", "body": body, "more_body": False}]
        self.scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "POST",
            "path": "/mcp",
            "query_string": b"",
            "headers": [(name.lower().encode(), text.encode()) for name, text in names.items()],
            "client": ("127.0.0.1", 1),
        }
        self.leave = asyncio.Event()
        self.reads = asyncio.Event()
        self.reads.set()
        self.begins = asyncio.Event()
        self.sent: list[Any] = []

    async def receive(self) -> Any:
        if self._parts:
            return self._parts.pop()
        await self.leave.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)
        self.begins.set()
        await self.reads.wait()


async def turn_loop() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


@asynccontextmanager
async def started(server: MCPServer) -> AsyncIterator[Any]:
    """An app whose lifespan runs."""
    app = server.app()
    stages: asyncio.Queue[Any] = asyncio.Queue()
    is_up = asyncio.Event()

    async def note(message: Any) -> None:
        is_up.set()

    living = asyncio.create_task(app({"type": "lifespan"}, stages.get, note))
    stages.put_nowait({"type": "lifespan.startup"})
    await is_up.wait()
    yield app
    stages.put_nowait({"type": "lifespan.shutdown"})
    await living


async def test_a_client_that_leaves_and_has_read_nothing(
    engine: ToolEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is on its way to it does not hide that it has left."""
    monkeypatch.setattr(exchange, "_PING", 0.0)
    tool = Waiting(engine)
    asked = Exchange(call("wait", {}, progressToken="p"))
    asked.reads.clear()
    async with asyncio.timeout(DEADLINE), started(MCPServer(engine)) as app:
        answering = asyncio.create_task(app(asked.scope, asked.receive, asked.send))
        await tool.started.wait()
        await asked.begins.wait()
        await turn_loop()  # several pings are due
        asked.leave.set()
        await tool.ended.wait()
        await answering
    assert len(asked.sent) == 1


async def test_an_answer_that_says_how_long_it_is_goes_out_whole(engine: ToolEngine) -> None:
    """Else it would be one that no reader can tell from a cut connection."""

    @engine.tool
    async def wait() -> str:
        """Wait a moment."""
        await asyncio.sleep(0)
        return "waited"

    asked = Exchange(call("wait", {}))
    asked.reads.clear()
    async with asyncio.timeout(DEADLINE), started(MCPServer(engine)) as app:
        answering = asyncio.create_task(app(asked.scope, asked.receive, asked.send))
        await asked.begins.wait()
        asked.leave.set()
        await turn_loop()
        asked.reads.set()
        await answering
    head, body = asked.sent
    assert dict(head["headers"])[b"content-length"] == b"%d" % len(body["body"])
    assert not body["more_body"]


async def test_who_runs_a_request_is_not_cancelled_with_it(engine: ToolEngine) -> None:
    """Such as middleware around the app, whose own timeouts would go wrong else."""
    begun = asyncio.Event()

    async def write() -> str:
        begun.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "written"

    server = MCPServer(engine)
    server.add_prompt("wait", write)
    asked = Exchange(ask("prompts/get", name="wait"))
    async with asyncio.timeout(DEADLINE), started(server) as app:

        async def run() -> int:
            await app(asked.scope, asked.receive, asked.send)
            task = asyncio.current_task()
            assert task is not None
            return task.cancelling()

        answering = asyncio.create_task(run())
        await begun.wait()
        asked.leave.set()
        assert await answering == 0


async def test_a_server_that_ends_cancels_the_request(engine: ToolEngine) -> None:
    """A client that leaves at the same time does not hide it."""
    tool = Waiting(engine)
    asked = Exchange(call("wait", {}))
    async with asyncio.timeout(DEADLINE), started(MCPServer(engine)) as app:
        answering = asyncio.create_task(app(asked.scope, asked.receive, asked.send))
        await tool.started.wait()
        asked.leave.set()
        await asyncio.sleep(0)
        answering.cancel()
        await asyncio.wait([answering])
        assert answering.cancelled()
