"""May there be a pooler between a process and the database of its cluster?"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest

from tests.cluster.conftest import Make
from tests.cluster.crew import BOUND
from tests.listening import wait_until_it_listens
from tests.ports import free_port
from tests.postgres import PostgresServer
from tool_engine.admission.cluster import cluster_database
from tool_engine.errors import ConfigurationError

NOBODY = 65534
Pool = Callable[[str], Awaitable[str]]


@pytest.fixture
async def pool(postgres_server: PostgresServer, url: str, tmp_path: Path) -> AsyncIterator[Pool]:
    """Starts a pgbouncer of a mode; the URL of the database behind it."""
    found = shutil.which("pgbouncer")
    if found is None:
        pytest.skip("pgbouncer is not installed")
    # How deep it lies depends on who runs the tests.
    for folder in (tmp_path, *tmp_path.parents):
        if folder == Path(tempfile.gettempdir()):
            break
        folder.chmod(0o755)
    running = AsyncExitStack()
    log = running.enter_context((tmp_path / "log").open("wb"))

    def end(process: asyncio.subprocess.Process) -> None:
        with suppress(ProcessLookupError):  # it has ended, and the test says so
            process.kill()

    async def start(mode: str) -> str:
        (tmp_path / "users").write_text(f'"owner" "{postgres_server.password}"\n')
        port = free_port()
        settings = {
            "listen_addr": "127.0.0.1",
            "listen_port": port,
            "auth_type": "scram-sha-256",
            "auth_file": tmp_path / "users",
            "pool_mode": mode,
            "default_pool_size": 3,
            "ignore_startup_parameters": "extra_float_digits",
            "unix_socket_dir": "",
        }
        lines = [f"{name} = {value}" for name, value in settings.items()]
        server = f"tests = host=127.0.0.1 port={postgres_server.port} dbname=tests"
        (tmp_path / "settings").write_text(
            "\n".join(["[databases]", server, "[pgbouncer]", *lines]) + "\n"
        )
        process = await asyncio.create_subprocess_exec(
            *(found, str(tmp_path / "settings")),
            user=NOBODY,
            group=NOBODY,
            stdout=log,
            stderr=log,
        )
        running.push_async_callback(process.wait)
        running.callback(end, process)
        async with asyncio.timeout(BOUND):
            await wait_until_it_listens(process, port, log.name)
        return url.replace(f":{postgres_server.port}/", f":{port}/")

    async with running:
        yield start


async def test_a_pool_of_sessions(pool: Pool, make: Make) -> None:
    """Each process has a session of its own there: it takes part, and shares its units."""
    url = await pool("session")
    one, other = make(url=url), make(url=url)
    async with asyncio.timeout(BOUND), one.controller.slot("ai"), other.controller.slot("ai"):
        assert one.cluster is not None
        assert (await one.cluster.snapshot()).used == {"bucket:ai": 2}


@pytest.mark.parametrize("mode", ["transaction", "statement"])
async def test_a_pool_that_shares_sessions(pool: Pool, make: Make, mode: str) -> None:
    """It works as long as hardly anybody uses it, and then a lock is another one's."""
    engine = make(url=await pool(mode))
    with pytest.raises(ConfigurationError, match="or of a pool in session mode"):
        await engine.load()


@pytest.mark.parametrize("mode", ["transaction", "statement"])
async def test_many_who_come_to_such_a_pool_at_once(pool: Pool, make: Make, mode: str) -> None:
    """As replicas do: each is in the way of what the others look for, and all are refused."""
    url = await pool(mode)
    engines = [make(url=url) for _ in range(4)]
    loading = [engine.load() for engine in engines]
    for found in await asyncio.gather(*loading, return_exceptions=True):
        assert "or of a pool in session mode" in str(found)


async def test_a_pool_of_statements_where_nothing_is_seen(
    pool: Pool, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As others disturb each look: it ends the connection, and was taken for an outage."""
    monkeypatch.setattr(cluster_database, "_ROUNDS", 0)
    engine = make(url=await pool("statement"))
    with pytest.raises(ConfigurationError, match="in its transaction or statement mode; give"):
        await engine.load()
