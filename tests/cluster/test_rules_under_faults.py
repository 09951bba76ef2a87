"""Do processes keep shared keys and rates while some are killed, stopped and cut off?"""

from __future__ import annotations

import asyncio
import signal

import pytest

from tests.cluster.crew import Crew
from tests.cluster.provider import Provider
from tests.effort import IS_WHOLE
from tests.postgres import PostgresServer

CALLS, PERIOD = 10, 0.5
ROUNDS = 5 if IS_WHOLE else 1
CUT = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = 'tests' AND pid <> pg_backend_pid()"
)


@pytest.fixture
async def url(server: PostgresServer) -> str:
    return await asyncio.to_thread(server.fresh_database)


async def try_all(server: PostgresServer, provider: Provider, crew: Crew, seconds: float) -> None:
    """Kills, stops, cuts and crashes what can be, and waits after each for more calls."""
    crew.ttl, crew.grace = 3.0, 1.0  # else some may lose their calls, and go on for a moment
    await crew.start("first", 6, seconds)
    await crew.start("second", 6, seconds)
    for number in range(ROUNDS):
        doomed = await crew.start(f"doomed{number}", 6, seconds)
        await provider.until(len(provider.started) + 15)
        doomed.kill()
        await provider.until(len(provider.started) + 15)
        await asyncio.to_thread(server.ask, CUT)
        await provider.until(len(provider.started) + 15)
        stopped = await crew.start(f"stopped{number}", 6, seconds)
        await provider.until(len(provider.started) + 15)
        stopped.send_signal(signal.SIGSTOP)
        await provider.until(len(provider.started) + 15)
        stopped.send_signal(signal.SIGCONT)
        await provider.until(len(provider.started) + 15)
        await asyncio.to_thread(server.crash)
        await asyncio.to_thread(server.start)
        await provider.until(len(provider.started) + 15)


async def test_a_rate(server: PostgresServer, provider: Provider, crew: Crew) -> None:
    """Never more starts in any window than the rate says, and no start is kept for good."""
    crew.limits = {"bucket_rates": {"ai": {"calls": CALLS, "period": PERIOD}}}
    await try_all(server, provider, crew, 0.0)
    times = sorted(provider.times)
    spans = [late - early for early, late in zip(times, times[CALLS:], strict=False)]
    assert min(spans) >= PERIOD
    # When all is well again, the rate is used.
    await provider.until(len(provider.started) + 5 * CALLS)


async def test_a_key(server: PostgresServer, provider: Provider, crew: Crew) -> None:
    """One call of a conversation at a time, wherever it runs, and all conversations go on."""
    crew.limits = {"key_limits": {"conversation_id": 1}}
    await try_all(server, provider, crew, 0.01)
    assert provider.most_of_one == 1
    assert provider.most >= 3
