"""Does a limit of a cluster hold at a service that tools on a fleet call, whichever part dies?"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest
import pytest_asyncio

from tests.cluster.provider import Provider, open_provider
from tests.effort import IS_WHOLE
from tests.fleet.samples import BOUND, ROUNDS
from tests.postgres import PostgresServer
from tests.ray_cluster import is_alive, tree_of

pytestmark = [
    pytest.mark.ray,
    pytest.mark.asyncio(loop_scope="package"),
    pytest.mark.timeout(240 + 30 * ROUNDS),  # in each an engine starts
]
ASK = """
import asyncio, os, time
async def ask(name, port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{name} {os.getpid()} {time.monotonic()}\\n".encode())
    await reader.readline()
    await asyncio.sleep(0.05)
    writer.write_eof()
    await reader.read()
    writer.close()
"""
PARTS = ("guest", "actor", "driver", "engine") if IS_WHOLE else ("guest", "engine")
"""What is killed: what is within, and what all else ends with; the proof kills each."""
ENGINE = """
import asyncio, sys
from tool_engine import ConcurrencyConfig, ToolEngine, ToolEngineConfig, ToolExecutionContext
from tool_engine import ClusterConfig
url, name, folder, port = sys.argv[1:]
sys.path.insert(0, folder)
def parameter(name, kind):
    return {"name": name, "type": kind, "required": True, "description": name}
async def main():
    # What an engine has begun on a fleet is gone a moment after it: so long nobody has its unit.
    cluster = ClusterConfig(
        url=url, revision=1, bucket_limits={"ai": 2}, session_grace=4.0, lease_ttl=20.0
    )
    config = ConcurrencyConfig(max_concurrent=100, queue_timeout=None, cluster=cluster)
    settings = ToolEngineConfig(folder + "/none", auto_reload=False, fleet="auto")
    engine = ToolEngine(settings, concurrency=config)
    engine.register_tool({
        "name": "ask", "description": "A sample", "category": "ai",
        "parameters": [parameter("name", "string"), parameter("port", "integer")],
        "entry": {"type": "custom", "handler": "asks_of_fleets:ask",
                  "config": {"isolation": "ray", "resources": {"cpus": 0}}},
    })
    async def call():
        while True:
            context = ToolExecutionContext(timeout=100.0)
            await engine.execute("ask", {"name": name, "port": int(port)}, context)
    calls = [asyncio.create_task(call()) for _ in range(4)]
    await asyncio.to_thread(sys.stdin.read)
    for each in calls: each.cancel()
    await asyncio.wait(calls)
    await engine.close()
asyncio.run(main())
"""


class Engines:
    """Processes with an engine each, whose tools on the fleet call one service.

    Args:
        words: What they are started with, beside their names.
        provider: The service.
    """

    def __init__(self, words: list[str], provider: Provider) -> None:
        self._words = words
        self._provider = provider
        self._running: list[asyncio.subprocess.Process] = []
        self._random = Random(3)  # noqa: S311 - it has to be the same each time

    async def start(self, name: str) -> None:
        """Starts one; returns when a call of it has reached the service."""
        url, *others = self._words
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", ENGINE, url, name, *others), stdin=asyncio.subprocess.PIPE
        )
        self._running.append(process)
        while name not in self._provider.started:
            await self._provider.until(len(self._provider.started) + 1, BOUND)

    async def kill_part(self, part: str) -> None:
        """Kills the process of a handler that is with the service, what is above it, or the newest
        engine or its driver; an engine is started anew.
        """
        newest = self._running[-1]
        if part == "engine":
            newest.kill()
            await newest.wait()
            await self.start(f"engine {len(self._running)}".replace(" ", "-"))
            return
        if part == "driver":
            below = await asyncio.to_thread(tree_of, newest.pid)
            _kill(next(pid for pid in below - {newest.pid} if is_alive(pid)))
            return
        async with asyncio.timeout(BOUND):
            while not (guests := [*+self._provider.conversations]):  # noqa: ASYNC110 - as it is
                await asyncio.sleep(0)
        guest = int(self._random.choice(guests))
        above = await asyncio.to_thread(_list_above, guest)
        _kill(guest if part == "guest" else above[3])

    async def end(self) -> None:
        """Kills all of them."""
        for each in self._running:
            if each.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    each.kill()
                await each.wait()


@pytest_asyncio.fixture(loop_scope="package")
async def provider() -> AsyncIterator[Provider]:
    async with open_provider() as made:
        yield made


async def test_each_part_is_killed_in_turn(
    handlers: Path, postgres_server: PostgresServer, provider: Provider
) -> None:
    """C10, DESIGN 10.3: the caller holds the lease; never more than two are with the service."""
    url = await asyncio.to_thread(postgres_server.fresh_database)
    (handlers / "asks_of_fleets.py").write_text(ASK)
    engines = Engines([url, str(handlers), str(provider.port)], provider)
    try:
        await engines.start("one")
        await engines.start("two")
        for _ in range(ROUNDS):
            for part in PARTS:
                await engines.kill_part(part)
                await provider.until(len(provider.started) + 10, BOUND)
                assert provider.most <= 2, part
    finally:
        await engines.end()
    async with asyncio.timeout(BOUND):
        while provider.running:  # noqa: ASYNC110 - the end of work on a node rings no bell
            await asyncio.sleep(0.01)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _list_above(pid: int) -> list[int]:
    """A handler's process, its guardian, what was started, and the actor."""
    found = [pid]
    for _ in range(3):
        words = Path(f"/proc/{found[-1]}/stat").read_text().rpartition(")")[2].split()
        found.append(int(words[1]))
    return found
