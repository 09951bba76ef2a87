"""What if the server of the database is another one from now on, or its clock is set?"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import asyncpg  # type: ignore[import-untyped]
import pytest

from tests.cluster.conftest import BRIEF, Make, Service
from tests.cluster.crew import BOUND
from tests.postgres import PostgresServer
from tool_engine.admission.cluster import cluster_database, member
from tool_engine.admission.cluster.cluster_database import ClusterConnection
from tool_engine.errors import ConfigurationError

END_ALL = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'tests'"


@pytest.mark.parametrize("on_unavailable", ["refuse", "local"])
async def test_a_server_that_refuses_a_process_for_a_while(
    make: Make, service: Service, postgres_server: PostgresServer, on_unavailable: str
) -> None:
    """As while a password is changed: it comes back by itself, and calls say why until then."""
    administrator = await asyncpg.connect(postgres_server.url("postgres"))
    service.gate.set()
    try:
        await administrator.execute("CREATE ROLE changed SUPERUSER LOGIN PASSWORD 'changed'")
        engine = make(
            **BRIEF,
            url=postgres_server.url("tests", "changed", "changed"),
            on_unavailable=on_unavailable,
        )
        await engine.load()
        await administrator.execute("ALTER ROLE changed NOLOGIN")
        await administrator.execute(END_ALL)
        async with asyncio.timeout(BOUND):
            if on_unavailable == "refuse":
                while (refused := await engine.execute("work")).error_type != "rejected":  # noqa: ASYNC110 - only calls say it
                    await asyncio.sleep(0.01)
                assert "let this user connect" in str(refused.error)
                assert refused.metadata["error_details"]["retry_after"] > 0
            assert engine.cluster is not None
            while engine.cluster.count()["connected"]:  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(0.01)
            if on_unavailable == "local":
                assert (await engine.execute("work")).is_success
            await administrator.execute("ALTER ROLE changed LOGIN")
            while not engine.cluster.count()["connected"]:  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(0.01)
            while not (await engine.execute("work")).is_success:  # noqa: ASYNC110 - only calls say it
                await asyncio.sleep(0.01)
        await engine.close()
    finally:
        owned = await asyncpg.connect(postgres_server.url("tests"))
        await owned.execute("DROP OWNED BY changed CASCADE; DROP ROLE changed")
        await owned.close()
        await administrator.close()


async def test_an_engine_that_was_refused_loads_again(
    make: Make, service: Service, postgres_server: PostgresServer
) -> None:
    """Once the database is there, it needs no new engine, nor does a look at the cluster."""
    administrator = await asyncpg.connect(postgres_server.url("postgres"))
    service.gate.set()
    try:
        await administrator.execute("DROP DATABASE IF EXISTS later WITH (FORCE)")
        engine = make(url=postgres_server.url("later"))
        assert engine.cluster is not None
        for attempt in (engine.load, engine.cluster.snapshot):
            with pytest.raises(ConfigurationError, match="is not there"):
                await attempt()
        await administrator.execute("CREATE DATABASE later")
        await engine.load()
        assert (await engine.execute("work")).is_success
        await engine.close()
    finally:
        await administrator.execute("DROP DATABASE IF EXISTS later WITH (FORCE)")
        await administrator.close()


async def test_a_server_that_can_only_be_read_by_now(
    make: Make,
    service: Service,
    postgres_server: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As after a switch to another one: calls say why, and it is asked more and more seldom."""
    opened = 0
    original = ClusterConnection.open

    async def count(self: ClusterConnection, *arguments: object) -> None:
        nonlocal opened
        opened += 1
        await original(self, *arguments)  # type: ignore[arg-type]

    service.gate.set()
    engine = make(**BRIEF)
    await engine.load()
    assert (await engine.execute("work")).is_success
    connection = await asyncpg.connect(postgres_server.url("postgres"))
    try:
        set_to = "ALTER DATABASE tests SET default_transaction_read_only = "
        await connection.execute(f"{set_to}on")
        monkeypatch.setattr(ClusterConnection, "open", count)
        monkeypatch.setattr(member, "_AGAIN", (0.2, 1.0))
        began = time.monotonic()
        await connection.execute(END_ALL)
        async with asyncio.timeout(BOUND):
            while (refused := await engine.execute("work")).error_type != "rejected":  # noqa: ASYNC110 - only calls say it
                await asyncio.sleep(0.01)
        assert "read-only transaction" in str(refused.error)
        # A fifth of a second, then twice as long each time; without a pause there are dozens.
        assert opened <= 4 + (time.monotonic() - began)
        await connection.execute(f"{set_to}off")
        await connection.execute(END_ALL)
        async with asyncio.timeout(BOUND):
            while not (await engine.execute("work")).is_success:  # noqa: ASYNC110 - only calls say it
                await asyncio.sleep(0.05)
    finally:
        await connection.execute("ALTER DATABASE tests RESET ALL")
        await connection.close()


async def test_a_server_that_is_too_old(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """As this one would be for a version that needs a newer one."""
    monkeypatch.setattr(cluster_database, "_OLDEST", 990000)
    engine = make()
    with pytest.raises(ConfigurationError, match="needs PostgreSQL 99 or newer, and its server is"):
        await engine.load()
    refused = await engine.execute("work")
    assert (refused.error_type, "needs PostgreSQL" in str(refused.error)) == ("rejected", True)


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the clock of the database, as all processes read it from now on."""
    original, by = cluster_database._read_clock, [0.0]

    def read(said: float, asked: float) -> tuple[float, float]:
        return original(said + by[0], asked)

    monkeypatch.setattr(cluster_database, "_read_clock", read)
    return lambda seconds: by.__setitem__(0, seconds)


async def test_a_clock_that_is_set_back(
    make: Make, service: Service, set_clock: Callable[[float], None]
) -> None:
    """What was to last for moments lasts no hour: starts of a rate, a pause, a lease, a breaker."""
    rate = {"ai": {"calls": 2, "period": 0.3}}
    engines = [make(**BRIEF, bucket_rates=rate) for _ in range(2)]
    service.gate.set()
    for each in engines:
        await each.load()
        assert (await each.execute("work")).is_success
    engines[0].controller.pause_bucket("ai", 0.2)
    set_clock(-3600.0)
    async with asyncio.timeout(BOUND):
        for each in engines * 3:
            assert (await each.execute("work")).is_success
    # One that has gone without a word is given up, too.
    service.gate.clear()
    lost = [asyncio.create_task(engines[0].execute("work")) for _ in range(2)]
    await service.until(2)
    set_clock(-7200.0)
    gone = engines[0].controller.member  # type: ignore[attr-defined]
    gone._running.cancel()
    async with asyncio.timeout(BOUND):
        await asyncio.gather(*lost)
        service.gate.set()
        assert (await engines[1].execute("work")).is_success
