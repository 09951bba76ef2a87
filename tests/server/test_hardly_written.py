"""Is the same result the same answer in each way to it, also where JSON hardly holds it?

Looked at: a plain call, a stream, a key at two servers, a task, MCP; in memory, in a SQLite file
and in PostgreSQL.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from mcp import Client as MCPClient

from tests.server.conftest import Client, served
from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.mcp_server import MCPServer
from tool_engine.server import create_app

HUGE = 10**4300
VALUES = {
    "number": HUGE,
    "inside": {"a": [1, HUGE]},
    "half": "a\ud800",
    "half_key": {"a\udfff": ["\ud800"]},
}
Servers = tuple[list[Client], ToolEngine]


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
async def servers(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Servers]:
    """Two servers of one database; in memory the same one twice."""
    url = None
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'kept.db'}"
    elif request.param == "postgresql":
        server = request.getfixturevalue("postgres_server")
        url = await asyncio.to_thread(server.emptied_database)
    (tmp_path / "tools").mkdir()
    config = ToolEngineConfig(tools_directory=str(tmp_path / "tools"), records=url)
    async with AsyncExitStack() as stack:
        engines = []
        for _ in range(1 if url is None else 2):
            engine = await stack.enter_async_context(ToolEngine(config))
            engine.register_tool(
                {
                    "name": "odd",
                    "description": "returns what it is asked for",
                    "parameters": [
                        {
                            "name": "which",
                            "type": "string",
                            "required": True,
                            "description": "which",
                        }
                    ],
                },
                lambda which: VALUES[which],
            )
            engines.append(engine)
        clients = []
        for engine in (engines[0], engines[-1]):
            service = await stack.enter_async_context(served(create_app(engine)))
            clients.append(service.client(None))
        yield clients, engines[0]


async def ask_in_each_way(clients: list[Client], which: str) -> dict[str, Any]:
    """The result of each way over HTTP."""
    path, body = "/v1/tools/odd/calls", {"arguments": {"which": which}}
    first, other = clients

    async def call(client: Client, **headers: str) -> Any:
        said = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = await client.send("POST", path, json=body, headers=said)
        assert answer.status in (200, 202), answer.text
        return answer

    found = {"plain": (await call(first)).json}
    streamed = (await call(first, accept="text/event-stream")).text
    found["stream"] = json.loads(streamed.rpartition("event: result\ndata: ")[2])
    found["key"] = (await call(first, idempotency_key="k")).json
    found["the same key there"] = (await call(other, idempotency_key="k")).json
    where = (await call(first, prefer="respond-async")).headers["location"]
    found["task"] = (await first.get(f"{where}?wait=20")).json["result"]
    found["the same task there"] = (await other.get(f"{where}?wait=20")).json["result"]
    return found


@pytest.mark.parametrize("which", ["number", "inside"])
async def test_a_number_that_nobody_can_write(servers: Servers, which: str) -> None:
    """The tool has failed, and its error says what to return; not the server, nor its process."""
    clients, engine = servers
    found = await ask_in_each_way(clients, which)
    where = " at 'a[1]'" if which == "inside" else ""
    words = f"a number that it returned{where} has too many digits for JSON: return it as text"
    for way, result in found.items():
        assert result["error_type"] == "execution_error", way
        assert words in result["error"], way
    for mode in ("legacy", "2026-07-28"):
        async with MCPClient(MCPServer(engine)._server, mode=mode) as client:
            result = await client.call_tool("odd", {"which": which})
        assert result.is_error
        assert words in str(result.content[0])


@pytest.mark.parametrize("which", ["half", "half_key"])
async def test_half_of_a_surrogate_pair(servers: Servers, which: str) -> None:
    """It is the same text of six letters in each answer, which each reader takes."""
    clients, _ = servers
    found = await ask_in_each_way(clients, which)
    outputs = {way: result["output"] for way, result in found.items()}
    text = {"half": {"result": r"a\ud800"}, "half_key": {r"a\udfff": [r"\ud800"]}}[which]
    assert outputs == dict.fromkeys(outputs, text)
