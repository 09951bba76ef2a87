"""What does a call of a server's tool cost through the engine, beside the SDK's own client?

Both call the SDK's bare server, in turns. Counted is the processor time of this process: in memory
that of the server too, else only the client's.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from statistics import median
from typing import Any

from tests.benchmarks import report
from tests.benchmarks.measure import RUNS
from tests.benchmarks.serving import make_bare

__all__ = ["clients"]

SDK = "mcp, Client.call_tool"
ENGINE = "tool-engine, engine.execute"
BUDGETS = {"stdio": 1.15, "http": 1.15, "in memory": 1.15}
ROUNDS = 21
CALLS = 100
"""For each turn of a round."""
ARGUMENTS = {"a": 1, "b": 2}


async def clients(directory: str) -> bool:
    """Prints the tables; whether each budget is kept."""
    # FastMCP, which other tables have imported, prints a line for each request.
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    kept = True
    for way, limit in BUDGETS.items():
        runs = [await call_times(way, directory) for _ in range(RUNS)]
        ratio = median(
            median(mine / its for mine, its in zip(times[ENGINE], times[SDK], strict=True))
            for times in runs
        )
        figures = {name: median(each) for name, each in runs[-1].items()}
        report.seconds(f"Processor time of a client for 1,000 calls, {way}", figures, SDK)
        kept &= report.budget(f"{ENGINE} / {SDK}", ratio, limit, "x")
    return kept


async def call_times(way: str, directory: str) -> dict[str, list[float]]:
    """Seconds for 1,000 calls, for each round."""
    times: dict[str, list[float]] = {SDK: [], ENGINE: []}
    async with callers(way, directory) as found:
        for call in found.values():
            await time_calls(call)
        for number in range(ROUNDS):
            for name in (SDK, ENGINE) if number % 2 else (ENGINE, SDK):
                times[name].append(await time_calls(found[name]))
    return times


async def time_calls(call: Callable[[], Awaitable[object]]) -> float:
    started = time.process_time()
    for _ in range(CALLS):
        await call()
    return 1_000 * (time.process_time() - started) / CALLS


@contextmanager
def serve_over_http(words: list[str]) -> Iterator[str]:
    """Run the server and return its address."""
    with subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.kill()


@asynccontextmanager
async def callers(
    way: str, directory: str
) -> AsyncIterator[dict[str, Callable[[], Awaitable[object]]]]:
    """What calls the tool, over connections that are open."""
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters

    from tool_engine import MCPSource, ToolEngine, ToolEngineConfig

    words = ["-m", "tests.benchmarks.serving", "bare", way, "1"]
    async with AsyncExitStack() as stack:
        target: Any
        if way == "stdio":
            target = StdioServerParameters(command=sys.executable, args=words)
            source = MCPSource("bare", command=[sys.executable, *words])
        elif way == "http":
            target = stack.enter_context(serve_over_http(words))
            source = MCPSource("bare", url=target)
        else:
            target, source = make_bare(1), MCPSource("bare", in_memory=make_bare(1))
        client = await stack.enter_async_context(Client(target))
        engine = await stack.enter_async_context(ToolEngine(ToolEngineConfig(directory)))
        await engine.add_source(source)

        async def call_by_engine() -> None:
            result = await engine.execute("add", ARGUMENTS)
            assert result.is_success, result.error

        async def call_by_client() -> None:
            result = await client.call_tool("add", ARGUMENTS)
            assert not result.is_error

        yield {SDK: call_by_client, ENGINE: call_by_engine}
