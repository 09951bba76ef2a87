"""What does an older client get that uses an id again before its request is answered?"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from tests.mcp_server.test_transports import serving
from tool_engine import ToolEngine
from tool_engine.mcp_server import http

LIMIT = 60.0
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
ABOUT: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {}}
ABOUT["clientInfo"] = {"name": "test", "version": "1"}

Send = Callable[..., Coroutine[Any, Any, tuple[int, Any]]]

pytestmark = pytest.mark.timeout(2 * LIMIT)


class Gates:
    """A tool that waits for its gate, and says which call it was."""

    def __init__(self, engine: ToolEngine) -> None:
        self.begun: dict[str, asyncio.Event] = {"a": asyncio.Event(), "b": asyncio.Event()}
        self.open = {"a": asyncio.Event(), "b": asyncio.Event()}

        @engine.tool
        async def wait(name: str) -> str:
            """Wait."""
            self.begun[name].set()
            await self.open[name].wait()
            return f"answer to {name}"


@asynccontextmanager
async def session_of(engine: ToolEngine) -> AsyncIterator[Send]:
    """A session of 2025-11-25; gives what sends a call and returns its status and answer."""
    async with asyncio.timeout(LIMIT), serving(engine) as url, aiohttp.ClientSession() as session:
        begin = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": ABOUT}
        async with session.post(url, json=begin, headers=HEADERS) as answer:
            said = {**HEADERS, "Mcp-Session-Id": answer.headers["mcp-session-id"]}
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        async with session.post(url, json=ready, headers=said):
            pass

        async def send(request_id: Any, name: str) -> tuple[int, Any]:
            params = {"name": "wait", "arguments": {"name": name}}
            call = {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}
            async with session.post(url, json=call, headers=said) as answer:
                text = await answer.text()
                return answer.status, json.loads(text.rpartition("data: ")[2])

        yield send


def text_of(answer: tuple[int, Any]) -> str:
    return str(answer[1]["result"]["content"][0]["text"])


@pytest.mark.parametrize("other", [7, "7"])
async def test_two_requests_at_once(engine: ToolEngine, other: Any) -> None:
    """The second is refused, and the first gets its own answer."""
    gates = Gates(engine)
    async with session_of(engine) as send:
        first = asyncio.create_task(send(7, "a"))
        await gates.begun["a"].wait()
        status, refused = await send(other, "b")
        assert status == 400
        assert refused["id"] == other
        assert (
            "a request with the id '7' is open in this session; give each its own"
            in (refused["error"]["message"])
        )
        gates.open["a"].set()
        assert text_of(await first) == "answer to a"
        assert not gates.begun["b"].is_set()


async def test_an_id_whose_client_left_before_the_answer(
    engine: ToolEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its call goes on, and what it answers is no answer to the next request of that id."""
    gates = Gates(engine)
    async with session_of(engine) as send:
        left = asyncio.create_task(send(7, "a"))
        await gates.begun["a"].wait()
        left.cancel()
        await asyncio.wait([left])
        gates.open["b"].set()
        for _ in range(2):
            status, refused = await send(7, "b")
            assert (status, "error" in refused) == (400, True), refused
            # Also while the answer is on its way.
            gates.open["a"].set()
        assert text_of(await send(8, "b")) == "answer to b"
        monkeypatch.setattr(http, "monotonic", lambda: time.monotonic() + http._ANSWER_PASSES)
        assert text_of(await send(7, "b")) == "answer to b"


async def test_one_id_for_all_requests(engine: ToolEngine) -> None:
    """One after the other: nothing is wrong with that here."""
    gates = Gates(engine)
    gates.open["a"].set()
    async with session_of(engine) as send:
        for _ in range(20):
            assert text_of(await send(1, "a")) == "answer to a"
