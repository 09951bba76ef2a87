"""What does one PostgreSQL server carry: how many processes of one cluster, and listeners?

`python -m tests.benchmarks.cluster_sizes` prints it as tables of Markdown. Needs a PostgreSQL
server.
"""

from __future__ import annotations

import asyncio
import time
from statistics import median

import asyncpg  # type: ignore[import-untyped]

from tests.postgres_server import running_server
from tool_engine.admission.cluster.cluster_database import ClusterConnection, new_life
from tool_engine.admission.cluster.cluster_limits import ClusterLimits
from tool_engine.admission.cluster.coordinator import Coordinator
from tool_engine.admission.cluster.lease_messages import Hello, Sync
from tool_engine.admission.cluster.saved_state import save_state
from tool_engine.admission.cluster.shared_row import SharedRow

SIZES = (1, 10, 100, 300, 1000)
LISTENERS = (0, 10, 20, 40)
SECONDS = 2.0
LIMITS = ClusterLimits(1, buckets={"ai": 2})


async def _measure_messages(url: str, size: int) -> tuple[int, float, float, float]:
    """Bytes of the state, milliseconds of a message, and how many there can be a second.

    The last is how many words of processes that are idle there can be, which write nothing.
    """
    state = Coordinator(LIMITS, ttl=1e6)
    lives = [new_life() for _ in range(size)]
    for number, life in enumerate(lives):
        state.hear(Hello(life, f"web-{number}#{number:06x}", 1, True, LIMITS), 0.0)
    written = save_state(state)
    connection = ClusterConnection(url, f"of {size}", lambda _: None, lambda: None)
    await connection.open(lives[0], lambda _: written)
    # The start of the server is noted; else all would have to greet first.
    version = (await connection.read()).version
    await connection.swap(version, written, [], is_durable=True, restarts=True)
    times, row, op = [], SharedRow(), 1
    until = time.perf_counter() + SECONDS
    try:
        while (began := time.perf_counter()) < until:
            op += 1
            row.forget()  # another process has written since: the worst case
            await row.write(Sync(lives[0], op), connection)
            times.append(time.perf_counter() - began)
        words, until = [], time.perf_counter() + SECONDS
        while (began := time.perf_counter()) < until:
            await row.write(Sync(lives[0], op), connection)
            words.append(time.perf_counter() - began)
    finally:
        connection.abort()
    return len(written), median(times) * 1000, 1 / median(times), 1 / median(words)


async def _measure_notes(url: str, listeners: int, elsewhere: str | None = None) -> float:
    """How many notifications a second reach one session while others listen, too."""
    sessions = [await asyncpg.connect(elsewhere or url) for _ in range(listeners)]
    speaker, hearer = await asyncpg.connect(url), await asyncpg.connect(url)
    heard = asyncio.Event()
    try:
        for number, each in enumerate(sessions):
            await each.add_listener(f"other_{number}", print)
        await hearer.add_listener("here", lambda *_: heard.set())
        count, until = 0, time.perf_counter() + SECONDS
        while time.perf_counter() < until:
            heard.clear()
            await speaker.execute("SELECT pg_notify('here', 'x')")
            await heard.wait()
            count += 1
        return count / SECONDS
    finally:
        for each in (*sessions, speaker, hearer):
            await each.close()


async def _measure() -> None:
    with running_server(waits_for_disk=True) as server:
        url = await asyncio.to_thread(server.fresh_database)
        print("| processes | bytes of the state | ms a message | messages a second | idle |")
        print("|---|---|---|---|---|")
        for size in SIZES:
            length, each, rate, idle = await _measure_messages(url, size)
            print(f"| {size:,} | {length:,} | {each:.2f} | {rate:,.0f} | {idle:,.0f} |")
        print("\n| listeners | notifications a second |\n|---|---|")
        for listeners in LISTENERS:
            print(f"| {listeners} | {await _measure_notes(url, listeners):,.0f} |")
        other = await asyncio.to_thread(server.fresh_database)
        rate = await _measure_notes(url, LISTENERS[-1], other)
        print(f"| {LISTENERS[-1]} in another database | {rate:,.0f} |")


if __name__ == "__main__":
    asyncio.run(_measure())
