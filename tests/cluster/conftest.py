"""What do engines that share limits call, and who makes them?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import PostgresServer
from tool_engine import ClusterConfig, ConcurrencyConfig, ToolEngine, ToolEngineConfig

BOUND = 20.0
TTL = 1.2
Make = Callable[..., ToolEngine]


class Service:
    """What the tools of all engines call: it counts how many are with it."""

    def __init__(self) -> None:
        self.running = self.most = self.ended = 0
        self.gate = asyncio.Event()
        self._changed = asyncio.Event()

    async def work(self) -> int:
        """Work until the gate is open."""
        self.running += 1
        self.most = max(self.most, self.running)
        self._changed.set()
        try:
            await self.gate.wait()
            await asyncio.sleep(0)
        finally:
            self.running -= 1
        self.ended += 1
        return 1

    async def until(self, running: int) -> None:
        async with asyncio.timeout(BOUND):
            while self.running < running:
                self._changed.clear()
                await self._changed.wait()


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
async def url(postgres_server: PostgresServer) -> str:
    return await asyncio.to_thread(postgres_server.fresh_database)


@pytest.fixture
async def make(url: str, service: Service, tmp_path: Path) -> AsyncIterator[Make]:
    """Makes an engine with a tool in the bucket `ai`, which two may use in all."""
    made: list[ToolEngine] = []

    def make_engine(**fields: Any) -> ToolEngine:
        cluster = {"revision": 1, "bucket_limits": {"ai": 2}, "lease_ttl": TTL, **fields}
        concurrency = ConcurrencyConfig(
            max_concurrent=50,
            queue_timeout=None,
            cluster=ClusterConfig(**{"url": url, **cluster}),
        )
        engine = ToolEngine(
            ToolEngineConfig(
                tools_directory=str(tmp_path), process=f"p{len(made)}", close_timeout=0.1
            ),
            concurrency=concurrency,
        )
        engine.tool(name="work", concurrency={"bucket": "ai"})(service.work)
        made.append(engine)
        return engine

    yield make_engine
    service.gate.set()
    for engine in made:
        await engine.close()
