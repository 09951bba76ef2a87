"""How much longer does an engine with fifty servers take to start when one of them is dead?

The others answer over HTTP. The dead one is an address that takes no connection.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

from tests.benchmarks import report
from tests.benchmarks.clients import serve_over_http
from tests.benchmarks.measure import RUNS
from tests.mcp_servers.deaf import deaf_socket

__all__ = ["starting"]

LIVE: Final = "49 servers that answer"
DEAD: Final = "the same, and one that is dead"
SERVERS: Final = 49
ROUNDS: Final = 7
BUDGET: Final = 0.2
"""Seconds beyond the slowest of those that answer."""


async def starting(directory: str) -> bool:
    """Prints the table; whether the budget is kept."""
    await asyncio.to_thread(Path(directory).mkdir, exist_ok=True)
    words = ["-m", "tests.benchmarks.serving", "bare", "http", "1"]
    with serve_over_http(words) as url, deaf_socket() as listening:
        live = {f"live{number}": {"url": url} for number in range(SERVERS)}
        dead = {"url": f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"}
        servers = {LIVE: live, DEAD: {**live, "dead": dead}}
        await start_engine(directory, live)
        runs = [await start_often(directory, servers) for _ in range(RUNS)]
    more = median(
        median(with_dead - alone for alone, with_dead in zip(*times.values(), strict=True))
        for times in runs
    )
    figures = {name: median(each) for name, each in runs[-1].items()}
    report.seconds("Time to start an engine", figures, LIVE)
    return report.budget("what a dead server adds to it", max(more, 0.0), BUDGET, " s")


async def start_often(directory: str, servers: dict[str, Any]) -> dict[str, list[float]]:
    """Seconds of each start, in turns."""
    times: dict[str, list[float]] = {LIVE: [], DEAD: []}
    for number in range(ROUNDS):
        for name in (LIVE, DEAD) if number % 2 else (DEAD, LIVE):
            times[name].append(await start_engine(directory, servers[name]))
    return times


async def start_engine(directory: str, servers: dict[str, Any]) -> float:
    """Seconds until the tools of the servers are there."""
    from tool_engine import ToolEngine, ToolEngineConfig

    started = time.perf_counter()
    async with ToolEngine(ToolEngineConfig(directory, mcp_servers=servers)) as engine:
        spent = time.perf_counter() - started
        assert len(engine.list_names()) >= SERVERS
    return spent
