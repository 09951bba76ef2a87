"""Are tasks of MCP clients the same at each server of a cluster, within one limit?"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from mcp import Client

from tests.cluster.conftest import CALM, Service
from tests.cluster.crew import BOUND
from tests.mcp_server.tasks.test_client_tasks import SOON, TakesTasks, send, start, until_over
from tests.mcp_server.test_transports import serving
from tool_engine import ClusterConfig, ConcurrencyConfig, ToolEngine, ToolEngineConfig
from tool_engine.mcp_server import MCPServer

pytestmark = pytest.mark.timeout(8 * BOUND)


class Seat:
    """One server of the cluster, and a client of it."""

    def __init__(self, engine: ToolEngine, client: Client) -> None:
        self.engine, self.client = engine, client


async def open_seat(stack: AsyncExitStack, url: str, service: Service, folder: Path) -> Seat:
    cluster = ClusterConfig(url=url, revision=1, bucket_limits={"ai": 2}, **CALM)
    config = ToolEngineConfig(tools_directory=str(folder), records=url, close_timeout=0.1)
    limits = ConcurrencyConfig(max_concurrent=50, queue_timeout=None, cluster=cluster)
    engine = ToolEngine(config, concurrency=limits)
    engine.tool(name="work", background="required", concurrency={"bucket": "ai"})(service.work)
    await stack.enter_async_context(engine)
    server = MCPServer(engine, task_after=SOON)
    address = await stack.enter_async_context(serving(engine, server))
    client = Client(address, mode="2026-07-28", extensions=[TakesTasks()])
    return Seat(engine, await stack.enter_async_context(client))


async def test_tasks_of_two_servers(url: str, service: Service, tmp_path: Path) -> None:
    """Begun at one, seen, cancelled and read at the other, whether they wait or run."""
    async with AsyncExitStack() as stack:
        seats = [await open_seat(stack, url, service, tmp_path) for _ in range(2)]
        stack.callback(service.gate.set)
        clients = [seat.client for seat in seats]
        tasks = [await start(clients[number % 2], "work") for number in range(6)]
        await service.until(2)
        for task in tasks:
            for client in clients:
                assert (await send(client, "tasks/get", task))["status"] == "working"
        # Each is cancelled where it was not begun.
        for number in (0, 1, 4, 5):
            await send(clients[(number + 1) % 2], "tasks/cancel", tasks[number])
        for number in (0, 1, 4, 5):
            ended = await until_over(clients[number % 2], tasks[number])
            assert ended["status"] == "cancelled"
        query = seats[0].engine.query_call_records
        service.gate.set()
        for number in (2, 3):
            for client in clients:
                ended = await until_over(client, tasks[number])
                assert ended["status"] == "completed"
                assert ended["result"]["content"][0]["text"] == "1"
        # Each engine writes its own a moment later.
        async with asyncio.timeout(BOUND):
            while len(records := await query()) < len(tasks):  # noqa: ASYNC110 - no event for it
                await asyncio.sleep(0.02)
    assert (service.most, service.ended) == (2, 2)
    assert Counter(each.outcome.value for each in records) == {"cancelled": 4, "succeeded": 2}
