"""What if the server has other settings than those that it comes with?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg  # type: ignore[import-untyped]
import pytest

from tests.cluster.conftest import Make, Service
from tests.cluster.crew import BOUND
from tests.postgres import PostgresServer
from tool_engine.admission.cluster import controller as cluster_controller
from tool_engine.admission.cluster.cluster_database import ClusterConnection, read_state
from tool_engine.admission.cluster.outage import describe_loss
from tool_engine.admission.cluster.saved_state import load_state
from tool_engine.errors import ClusterUnavailableError

Set = Callable[[str], Awaitable[None]]


@pytest.fixture
async def set_all(postgres_server: PostgresServer, url: str) -> AsyncIterator[Set]:
    """Gives a setting to all sessions of the database from now on."""
    administrator = await asyncpg.connect(postgres_server.url("postgres"))

    async def set_to(words: str) -> None:
        await administrator.execute(f"ALTER DATABASE tests SET {words}")

    yield set_to
    await administrator.execute("ALTER DATABASE tests RESET ALL")
    await administrator.close()


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
async def test_transactions_that_do_not_see_what_others_write(
    make: Make, service: Service, set_all: Set, level: str
) -> None:
    """Those that come at once make the tables one after the other, and see those of the first."""
    await set_all(f"default_transaction_isolation = '{level}'")
    engines = [make() for _ in range(4)]
    service.gate.set()
    async with asyncio.timeout(BOUND):
        await asyncio.gather(*(each.load() for each in engines))
        results = await asyncio.gather(*(each.execute("work") for each in engines * 5))
    assert all(each.is_success for each in results)
    assert service.most <= 2


async def test_sessions_that_end_when_they_say_nothing(
    make: Make, service: Service, set_all: Set, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session shows that its process is there, and says little while a call runs."""
    opened, original = [], ClusterConnection.open

    async def note(self: ClusterConnection, life: str, *more: object) -> None:
        opened.append(life)
        await original(self, life, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(ClusterConnection, "open", note)
    await set_all("idle_session_timeout = '50ms'")
    engine = make()
    await engine.load()
    call = asyncio.create_task(engine.execute("work"))
    await service.until(1)
    await asyncio.sleep(0.5)
    service.gate.set()
    assert (await call).is_success
    assert len(opened) == 1


async def test_commits_that_do_not_wait_for_the_disk(make: Make, server: PostgresServer) -> None:
    """A crash may not forget who might hold something, or a restart waits for too few."""
    url = await asyncio.to_thread(server.fresh_database)
    for words in (
        "ALTER SYSTEM SET wal_writer_delay = '10s'",
        "SELECT pg_reload_conf()",
        "ALTER DATABASE tests SET synchronous_commit = off",
    ):
        await asyncio.to_thread(server.ask, words)
    engine = make(url=url)
    await engine.load()
    await asyncio.to_thread(server.crash)
    await asyncio.to_thread(server.start)
    found = await read_state(url, "default")
    assert found is not None
    assert len(load_state(found.state).lives) == 1


def test_what_a_server_says_at_length_is_one_line() -> None:
    """As `DETAIL: Consistent recovery state has not been yet reached.` of one that starts."""
    said = "the database system is not yet accepting connections"
    error = asyncpg.CannotConnectNowError.new({"M": said, "C": "57P03", "D": "Not yet."})
    assert str(error).splitlines() == [said, "DETAIL:  Not yet."]
    assert describe_loss(error) == f"CannotConnectNowError: {said}"


async def test_a_user_with_too_few_connections(
    make: Make, service: Service, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is said names the cure, and once that is done the process comes in."""
    monkeypatch.setattr(cluster_controller, "_PATIENCE", 1.0)
    administrator = await asyncpg.connect(url)
    await administrator.execute("DROP ROLE IF EXISTS few")
    await administrator.execute("CREATE ROLE few LOGIN PASSWORD 'few' CONNECTION LIMIT 1")
    await administrator.execute("GRANT ALL ON SCHEMA public TO few")
    few = url.replace(url.split("@")[0], "postgresql://few:few")
    other = await asyncpg.connect(few)
    engine = make(url=few)
    with pytest.raises(ClusterUnavailableError, match="raise max_connections, or the connection"):
        await engine.load()
    await administrator.execute("ALTER ROLE few CONNECTION LIMIT 2")
    service.gate.set()
    async with asyncio.timeout(BOUND):
        await engine.load()
        assert (await engine.execute("work")).is_success
    await other.close()
    await engine.close()
    for words in ("DROP OWNED BY few", "DROP ROLE few"):
        await administrator.execute(words)
    await administrator.close()
