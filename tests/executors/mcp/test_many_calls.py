"""However many calls go over a connection, are given up or lose their server: none stays."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.server import Server
from mcp.shared.message import SessionMessage

from tests.effort import IS_WHOLE, share_of
from tests.executors.mcp.conftest import COMMAND, LIMIT, count_running, until
from tests.executors.mcp.test_hostile_servers import PROGRAM
from tool_engine import (
    ConcurrencyConfig,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
)
from tool_engine.executors.mcp.mcp_source import MCPSource
from tool_engine.executors.mcp.stdio import StdioTransport
from tool_engine.model.progress import ToolProgress


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[ToolEngine]:
    """One that lets many calls run at once."""
    (tmp_path / "tools").mkdir()
    config = ToolEngineConfig(
        tools_directory=str(tmp_path / "tools"),
        concurrency=ConcurrencyConfig(max_concurrent=300, queue_size=300),
    )
    async with ToolEngine(config) as engine:
        yield engine


def pending(source: MCPSource) -> int:
    """How many requests wait for an answer, beside that which hears of changes."""
    peer = source.connection._peer
    assert peer is not None
    session: Any = peer._client.session
    return len(session._dispatcher._pending) - len(session._listen_routes)


async def test_random_cancels(engine: ToolEngine, source: MCPSource) -> None:
    """Calls that are given up at any moment leave nothing, and the connection works on."""
    await engine.add_source(source)
    chance = random.Random(5)  # noqa: S311 - no secret
    connection = source.connection._peer

    async def give_up(name: str, turns: int) -> None:
        task = asyncio.create_task(engine.execute(name, {"text": "x"}))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])

    total = share_of(1_000)
    for _ in range(0, total, 50):
        async with asyncio.timeout(LIMIT), asyncio.TaskGroup() as group:
            for _ in range(50):
                name = chance.choice(["slow", "echo"])
                group.create_task(give_up(name, chance.randrange(60)))
    await until(lambda: pending(source) == 0)
    assert count_running(engine) == 0
    assert source.connection._running == 0
    assert (await engine.execute("echo", {"text": "on"})).is_success
    assert source.connection._peer is connection


async def test_many_at_once(engine: ToolEngine, source: MCPSource) -> None:
    """Each of many parallel calls gets its own answer."""
    await engine.add_source(source)
    async with asyncio.timeout(LIMIT), asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(engine.execute("echo", {"text": str(number)}))
            for number in range(200)
        ]
    texts = [task.result().output["content"][0]["text"] for task in tasks]
    assert texts == [str(number) for number in range(200)]


async def test_many_kills(engine: ToolEngine) -> None:
    """Each call whose server is killed ends typed, and the next one finds a new server."""
    source = MCPSource("evil", command=[sys.executable, PROGRAM, "calls"])
    await engine.add_source(source)
    for _ in range(share_of(100)):
        result = await engine.execute("die", {}, ToolExecutionContext(timeout=LIMIT))
        assert result.error_type == "worker_lost"
        after = await engine.execute("plain", {}, ToolExecutionContext(timeout=LIMIT))
        assert after.is_success, after.error


@pytest.mark.timeout(3_600)
async def test_many_notices(engine: ToolEngine) -> None:
    """However often a server reports, its caller hears of it ten times a second at most."""
    count = 300_000 if IS_WHOLE else 10_000
    await engine.add_source(
        MCPSource("evil", command=[sys.executable, PROGRAM, "calls", str(count)])
    )
    heard: list[ToolProgress] = []
    context = ToolExecutionContext(timeout=3_500, on_progress=heard.append)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = await engine.execute("flood_progress", {}, context)
    assert result.is_success, result.error
    assert 1 <= len(heard) <= 2 + 10 * result.execution_time
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < 30  # MiB, where all notices take 48


async def test_a_full_pipe(engine: ToolEngine) -> None:
    """A server that does not read holds no call beyond its deadline."""
    source = MCPSource("evil", command=[sys.executable, PROGRAM, "calls"])
    await engine.add_source(source)
    await engine.execute("stop", {}, ToolExecutionContext(timeout=0.1))
    context = ToolExecutionContext(timeout=0.5)
    async with asyncio.timeout(LIMIT), asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(engine.execute("plain", {"text": "x" * 50_000}, context))
            for _ in range(20)
        ]
    assert {task.result().error_type for task in tasks} == {"timeout"}
    await until(lambda: not source.connection._running)


COUNTING = """
import json, sys
count = 0
for line in sys.stdin:
    count += 1
    if "last" in line:
        params = {"level": "info", "data": count}
        note = {"jsonrpc": "2.0", "method": "notifications/message", "params": params}
        print(json.dumps(note), flush=True)
"""


async def test_calls_that_end_before_their_server_reads() -> None:
    """None waits for it, and it never hears of them, but of those that the pipe has taken."""
    transport = StdioTransport([sys.executable, "-c", COUNTING], {}, None)
    async with asyncio.timeout(LIMIT), transport as (reads, writes):
        assert transport._process is not None
        os.kill(transport._process.pid, signal.SIGSTOP)
        async with asyncio.timeout(10):
            for number in range(3_000):
                call: dict[str, Any] = {"name": "x" * 1_000}
                request = types.JSONRPCRequest(
                    jsonrpc="2.0", id=number, method="tools/call", params=call
                )
                await writes.send(SessionMessage(request))
                await asyncio.sleep(0)
                ended = types.JSONRPCNotification(
                    jsonrpc="2.0", method="notifications/cancelled", params={"requestId": number}
                )
                await writes.send(SessionMessage(ended))
        last = types.JSONRPCRequest(jsonrpc="2.0", id=3_000, method="last", params={})
        await writes.send(SessionMessage(last))
        os.kill(transport._process.pid, signal.SIGCONT)
        message = (await anext(aiter(reads))).message
        # Pipe and buffer hold less than 200 calls, each of which has a word of its end.
        assert message.params["data"] < 600


async def test_answers_wait_for_a_server_that_does_not_read() -> None:
    """What it asks without end, and reads no answer of, takes no memory without end."""
    transport = StdioTransport([sys.executable, "-c", COUNTING], {}, None)
    async with asyncio.timeout(LIMIT), transport as (_, writes):
        assert transport._process is not None
        os.kill(transport._process.pid, signal.SIGSTOP)
        sent = 0

        async def answer() -> None:
            nonlocal sent
            result: dict[str, Any] = {"text": "x" * 1_000}
            while True:
                response = types.JSONRPCResponse(jsonrpc="2.0", id=sent, result=result)
                await writes.send(SessionMessage(response))
                sent += 1
                await asyncio.sleep(0)

        answering = asyncio.create_task(answer())
        for _ in range(10_000):
            await asyncio.sleep(0)
        assert sent < 2_000
        answering.cancel()
        await asyncio.wait([answering])


async def test_closing_in_calls(engine: ToolEngine) -> None:
    """Calls end with their engine, and the program does too."""
    await engine.add_source(MCPSource("odd", command=COMMAND))
    whoami = (await engine.execute("whoami", {})).output["content"][0]["text"]
    tasks = [asyncio.create_task(engine.execute("slow", {})) for _ in range(20)]
    await until(lambda: count_running(engine) == 20)
    async with asyncio.timeout(LIMIT):
        await engine.close()
        results = await asyncio.gather(*tasks)
    assert {result.error_type for result in results} <= {"cancelled", "engine_closed"}
    with pytest.raises(ProcessLookupError):
        os.kill(int(whoami.split()[0]), 0)


async def test_removing_in_calls(engine: ToolEngine) -> None:
    """Calls that run go on when their source is removed; the server ends after them."""
    source = MCPSource("odd", command=COMMAND)
    await engine.add_source(source)
    task = asyncio.create_task(engine.execute("steps", {"text": "3"}))
    await until(lambda: count_running(engine) == 1)
    await engine.remove_source(source)
    assert (await task).is_success
    await until(lambda: source.connection._owner is not None and source.connection._owner.done())


async def test_many_servers(engine: ToolEngine) -> None:
    """Servers that are dead or hang hold up none of the others."""

    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        tool = types.Tool(name="look", input_schema={"type": "object"})
        return types.ListToolsResult(tools=[tool])

    sources = [
        MCPSource(f"live{number}", in_memory=Server("live", on_list_tools=list_tools))
        for number in range(48)
    ]
    dead = MCPSource("dead", command=["/no/such/program"])
    hung = MCPSource("hung", command=[sys.executable, PROGRAM, "never"], connect_timeout=30.0)
    hanging = asyncio.create_task(engine.add_source(hung))
    async with asyncio.timeout(LIMIT):
        await asyncio.gather(*(engine.add_source(each) for each in (dead, *sources)))
    assert len([tool for tool in engine.index if tool.origin.startswith("mcp:live")]) == 48
    assert not hanging.done()
    assert "is not there; correct its command" in str(engine.load_errors)
    hanging.cancel()
    await asyncio.wait([hanging])


async def test_from_another_loop(engine: ToolEngine, source: MCPSource) -> None:
    """A call from a loop of another thread is answered there, can be given up, and reports."""
    await engine.add_source(source)
    heard: list[Any] = []

    async def call_there() -> tuple[Any, Any]:
        context = ToolExecutionContext(on_progress=heard.append)
        fine = await engine.execute("steps", {"text": "2"}, context)
        late = await engine.execute("slow", {}, ToolExecutionContext(timeout=0.2))
        return fine, late

    fine, late = await asyncio.to_thread(asyncio.run, call_there())
    assert fine.is_success
    assert heard
    assert late.error_type == "timeout"
    await until(lambda: pending(source) == 0)


async def test_a_killed_server_comes_back(engine: ToolEngine) -> None:
    """It is started again without a call that asks for it."""
    source = MCPSource("odd", command=COMMAND)
    await engine.add_source(source)
    whoami = (await engine.execute("whoami", {})).output["content"][0]["text"]
    os.kill(int(whoami.split()[0]), signal.SIGKILL)
    await until(lambda: not source.connection.is_connected)
    await until(lambda: source.connection.is_connected)
    again = (await engine.execute("whoami", {})).output["content"][0]["text"]
    assert again.split()[0] != whoami.split()[0]
