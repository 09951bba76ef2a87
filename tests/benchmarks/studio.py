"""What does an open page of the studio cost the server, and how far is it behind?

An engine is called so that it publishes about 200 events a second; a page that is open reads the
live view in a process of its own. Then, how soon is a page there where there is much to show? As a
program: the server, which measures itself.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any

from tests.benchmarks import report

__all__ = ["studio"]

SECONDS = 5.0
"""Of each turn."""
ROUNDS = 3
PAUSE = 0.009
"""Seconds between two calls, each of which has three events."""
WORK = 0.05
"""Seconds of each call."""
COST_BUDGET = 5.0
"""Percent of a processor for an open page."""
DELAY_BUDGET = 100.0
"""Milliseconds from a call's start until its page shows it, in half of all cases."""
LOOKS = 25
PAGE_BUDGET = 1_000.0
"""Milliseconds until a page of many tools or records is there, at best."""
TOOLS = 10_000
RECORDS = 100_000
PAGES = {
    "10,000 tools": "tools",
    "10,000 tools, by use": "tools?sort=calls",
    "10,000 tools, searched": "tools?query=tool+{turn}",
    "100,000 records": "history",
    "100,000 records, filtered": "history?outcome=failed&caller=nobody",
}


def studio() -> bool:
    """Prints the figures; whether each budget is kept."""
    words = [sys.executable, "-m", "tests.benchmarks.studio"]
    found = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
    print("\nAn open live page of the studio, at", round(found["rate"]), "events a second")
    kept = report.budget("processor for a page", found["cost"], COST_BUDGET, " %")
    kept &= report.budget("a call's start on the page", found["delay"], DELAY_BUDGET, " ms")
    for name in PAGES:
        kept &= report.budget(f"a page of {name}", found[name], PAGE_BUDGET, " ms")
    return kept


async def measure_pages() -> dict[str, float]:
    from tool_engine import ConcurrencyConfig, ToolEngine, ToolEngineConfig

    limits = ConcurrencyConfig(max_concurrent=10, bucket_limits={"http": 8})
    with tempfile.TemporaryDirectory() as folder:
        config = ToolEngineConfig(tools_directory=folder, keep_events=1_000, concurrency=limits)
        async with ToolEngine(config) as engine:

            @engine.tool(effect="read", concurrency={"bucket": "http"})
            async def fetch(number: int) -> int:
                """Fetch a page.

                Args:
                    number: Which.
                """
                await asyncio.sleep(WORK)
                return number

            @engine.tool(effect="read")
            async def mark() -> None:
                """Run until it is seen."""
                await asyncio.Event().wait()

            async with _serve(engine) as url:
                found = await _measure_busy(engine, url)
    return found | await _measure_many()


@asynccontextmanager
async def _serve(engine: Any) -> AsyncIterator[str]:
    from tool_engine.access.listening import serve_app
    from tool_engine.server import create_app

    app = await asyncio.to_thread(create_app, engine, studio=True)
    ready = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(
        serve_app(app, "127.0.0.1", 0, ready.set_result, "", grace=0.1, on_end=app.end)
    )
    try:
        yield await ready
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def _measure_many() -> dict[str, float]:
    """Milliseconds until each page is there, where there are many tools and records."""
    from tool_engine import ToolEngine, ToolEngineConfig

    entry = {"type": "http", "request": {"url": "http://127.0.0.1:1/"}}
    with tempfile.TemporaryDirectory() as name:
        for first in range(0, TOOLS, 500):
            tools = [
                {"name": f"tool_{each}", "description": f"Do {each}. " + "x " * 200, "entry": entry}
                for each in range(first, first + 500)
            ]
            text = "\n---\n".join(map(json.dumps, tools))
            Path(name, f"{first}.yaml").write_text(text)  # noqa: ASYNC240 - nothing else runs
        records = f"sqlite:///{name}/calls.db"
        async with ToolEngine(ToolEngineConfig(tools_directory=name, records=records)) as engine:

            @engine.tool(effect="read")
            async def done() -> None:
                """Be done."""

            for _ in range(RECORDS):
                await engine.execute("done")
            async with _serve(engine) as url:
                return {page: await _time_page(f"{url}/studio/{at}") for page, at in PAGES.items()}


async def _time_page(url: str) -> float:
    words = ("curl", "-s", "--fail", "-o", "/dev/null", "-w", "%{time_total}")
    times = []
    for turn in range(ROUNDS):
        address = url.format(turn=turn)  # what was searched once is known
        curl = await asyncio.create_subprocess_exec(*words, address, stdout=asyncio.subprocess.PIPE)
        text, _ = await curl.communicate()
        assert curl.returncode == 0, url
        times.append(1_000 * float(text))
    return min(times)


async def _measure_busy(engine: Any, url: str) -> dict[str, float]:
    await _keep_busy(engine, 1.0)
    alone, watched = [], []
    for _ in range(ROUNDS):
        alone.append(await _keep_busy(engine, SECONDS))
        page = await asyncio.create_subprocess_exec(
            *("curl", "-sN", f"{url}/studio/live/stream"), stdout=asyncio.subprocess.DEVNULL
        )
        await _keep_busy(engine, 1.0)
        watched.append(await _keep_busy(engine, SECONDS))
        page.kill()
        await page.wait()
    cost = median(each[0] for each in watched) - median(each[0] for each in alone)
    rate = median(each[1] for each in watched)
    return {"cost": 100 * cost, "rate": rate, "delay": 1_000 * await _measure_delay(engine, url)}


async def _keep_busy(engine: Any, seconds: float) -> tuple[float, float]:
    """The processor time and the events of a second."""
    before, began = _spent(), time.monotonic()
    first = engine.get_event_statistics()["sequence"]
    calls: set[asyncio.Task[Any]] = set()
    while time.monotonic() - began < seconds:
        call = asyncio.create_task(engine.execute("fetch", {"number": len(calls)}))
        calls.add(call)
        call.add_done_callback(calls.discard)
        await asyncio.sleep(PAUSE)
    await asyncio.gather(*calls)
    passed = time.monotonic() - began
    events = engine.get_event_statistics()["sequence"] - first
    return (_spent() - before) / passed, events / passed


def _spent() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def _measure_delay(engine: Any, url: str) -> float:
    """The median of seconds from a call's start until a page has it."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"GET /studio/live/stream HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n"
    writer.write(head.encode())
    delays = []
    for _ in range(LOOKS):
        call = asyncio.create_task(engine.execute("mark", {}))
        began = time.monotonic()
        await _read_until(reader, b">mark<")
        delays.append(time.monotonic() - began)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await asyncio.sleep(0.2)
        while reader._buffer:  # type: ignore[attr-defined]
            await reader.read(1 << 20)
    writer.close()
    return median(delays)


async def _read_until(reader: asyncio.StreamReader, mark: bytes) -> None:
    said = b""
    while mark not in said:
        said += await reader.read(1 << 16)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure_pages())))
