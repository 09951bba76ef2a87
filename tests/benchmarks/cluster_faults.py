"""How long do others wait when a process of a cluster dies, its server crashes, or sessions end?"""

from __future__ import annotations

import asyncio
from itertools import pairwise
from statistics import median
from typing import Any

from tests.benchmarks import report
from tests.cluster.crew import BOUND, Crew
from tests.cluster.provider import Provider, open_provider

KILL_BUDGET, RESTART_BUDGET, PAUSE_BUDGET = 0.6, 1.0, 0.5
"""Seconds from kill -9 of a holder, from the start of a crashed server, and between two starts of
calls while all sessions are ended: until a call starts."""
_ROUNDS = 3
_CUT = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = 'tests' AND pid <> pg_backend_pid()"
)


async def measure_faults(server: Any) -> bool:
    """Measures all three; whether each budget is kept, and no call was lost that must not be."""
    now = asyncio.get_running_loop().time
    kills, restarts, pauses, lost = [], [], [], 0
    for _ in range(_ROUNDS):
        async with open_provider() as provider:
            crew = Crew(await asyncio.to_thread(server.fresh_database), provider.port)
            try:
                kills.append(await _kill_holder(crew, provider))
                for _ in range(2):
                    await provider.until(len(provider.started) + 100)
                    ended = now()
                    await asyncio.to_thread(server.ask, _CUT)
                    await provider.until(len(provider.started) + 100)
                    pauses.append(_find_longest(provider, ended))
                await asyncio.to_thread(server.crash)
                await asyncio.to_thread(server.start)
                started, began = len(provider.started), now()
                await provider.until(started + 1)
                restarts.append(max(0.0, now() - began))
                await provider.until(started + 100)
                lost += await _count_lost(crew)
            finally:
                await crew.end()
    kept = report.budget("kill -9 of a holder until the next start", max(kills), KILL_BUDGET, " s")
    kept &= report.budget(
        "a crashed server that is back until the next start", max(restarts), RESTART_BUDGET, " s"
    )
    kept &= report.budget(
        "the pause as all sessions are ended, half of them", median(pauses), PAUSE_BUDGET, " s"
    )
    kept &= report.budget("the same, the longest", max(pauses), PAUSE_BUDGET, " s")
    return kept & report.budget("calls lost by crash and ended sessions", lost, 0, "")


async def _kill_holder(crew: Crew, provider: Provider) -> float:
    """Seconds until others have what a process had that is killed."""
    holder = await crew.start("holder", 2, 60.0)
    await provider.until(2)
    for name in ("one", "other"):
        await crew.start(name, 4, 0.005)
    await asyncio.sleep(0.5)  # they wait by then
    began = asyncio.get_running_loop().time()
    holder.kill()
    await provider.until(3)
    crew.running.remove(holder)
    return asyncio.get_running_loop().time() - began


def _find_longest(provider: Provider, since: float) -> float:
    times = sorted(each for each in provider.times if each >= since - 0.05)
    return max(late - early for early, late in pairwise(times))


async def _count_lost(crew: Crew) -> int:
    """Calls that were lost in those processes that go on."""
    lost = 0
    for process in crew.running:
        process.stdin.close()
        async with asyncio.timeout(BOUND):
            lost += int((await process.stdout.read()).decode().split()[-1])
    crew.running.clear()
    return lost
