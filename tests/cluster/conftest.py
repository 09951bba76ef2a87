"""What do engines that share limits call, and who makes them?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.crew import BOUND, Crew
from tests.cluster.provider import Provider, open_provider
from tests.effort import IS_WHOLE
from tests.postgres import PostgresServer, running_server
from tool_engine import (
    ClusterConfig,
    ConcurrencyConfig,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionResult,
)

TTL = 1.2
BRIEF: dict[str, Any] = {"lease_ttl": TTL, "session_grace": 0.3}
"""Where a test asks for the end of a lease; on a busy machine others would meet it."""
CALM: dict[str, Any] = {"lease_ttl": 60.0, "session_grace": 20.0, "idle_time": 60.0}
Make = Callable[..., ToolEngine]
REPETITIONS = 20


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """What is marked as `repeated` is, at whole effort."""
    if IS_WHOLE and metafunc.definition.get_closest_marker("repeated") is not None:
        metafunc.fixturenames.append("repetition")
        metafunc.parametrize("repetition", range(REPETITIONS))


if IS_WHOLE:

    @pytest.fixture(scope="session")
    def postgres_server() -> Iterator[PostgresServer]:
        """One that waits for the disk, as those of users do."""
        with running_server(waits_for_disk=True) as server:
            yield server


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


class BrokenService:
    """What fails as long as it is broken, and counts how often it was tried."""

    def __init__(self) -> None:
        self.is_broken, self.tries = True, 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def fetch(self) -> int:
        """Fetch from the service."""
        self.tries += 1
        await self.gate.wait()
        if self.is_broken:
            raise ConnectionError("no service")
        return 1

    async def probe(self, *engines: ToolEngine) -> list[ToolExecutionResult]:
        """Call it twice from each; one is let through, and ends when the others have ended."""
        self.tries = 0
        self.gate.clear()
        calls = [asyncio.create_task(each.execute("fetch")) for each in engines * 2]
        async with asyncio.timeout(BOUND):
            while sum(each.done() for each in calls) < len(calls) - 1:
                await asyncio.wait(
                    [each for each in calls if not each.done()],
                    return_when=asyncio.FIRST_COMPLETED,
                )
            self.gate.set()
            return await asyncio.gather(*calls)


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
async def url(postgres_server: PostgresServer) -> str:
    return await asyncio.to_thread(postgres_server.fresh_database)


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """One that may be crashed."""
    with running_server(waits_for_disk=IS_WHOLE) as found:
        yield found


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with open_provider() as provider:
        yield provider


@pytest.fixture
async def crew(url: str, provider: Provider) -> AsyncIterator[Crew]:
    crew = Crew(url, provider.port)
    yield crew
    await crew.end()


@pytest.fixture
async def make(url: str, service: Service, tmp_path: Path) -> AsyncIterator[Make]:
    """Makes an engine with a tool in the bucket `ai`, which two may use in all."""
    made: list[ToolEngine] = []

    def make_engine(concurrency: dict[str, Any] | None = None, **fields: Any) -> ToolEngine:
        cluster = {"revision": 1, "bucket_limits": {"ai": 2}, **CALM, **fields}
        own = concurrency or {"max_concurrent": 50, "queue_timeout": None}
        limits = ConcurrencyConfig(cluster=ClusterConfig(**{"url": url, **cluster}), **own)
        engine = ToolEngine(
            ToolEngineConfig(
                tools_directory=str(tmp_path), process=f"p{len(made)}", close_timeout=0.1
            ),
            concurrency=limits,
        )
        engine.tool(name="work", concurrency={"bucket": "ai"})(service.work)
        made.append(engine)
        return engine

    yield make_engine
    service.gate.set()
    for engine in made:
        await engine.close()
