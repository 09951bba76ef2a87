"""What errors about limits that processes share say to do is done, and it works."""

from __future__ import annotations

import asyncio

import pytest

from tests.contracts.test_cures_of_errors import names_cure
from tests.postgres import PostgresServer
from tool_engine.admission.cluster import cluster_database
from tool_engine.admission.cluster.cluster_database import ClusterConnection, new_life
from tool_engine.admission.cluster.cluster_limits import ClusterLimits
from tool_engine.admission.cluster.coordinator import Coordinator
from tool_engine.admission.cluster.saved_state import save_state
from tool_engine.errors import ConfigurationError

NEXT = (
    "admission/cluster/cluster_limits.py: give the new limits revision …, or take those that there "
    "are"
)
PRIMARY = "admission/cluster/cluster_database.py: give the URL of the primary server"
DIRECT = (
    "admission/cluster/cluster_database.py: give the URL of the server itself, or of a pool of "
    "sessions"
)
TRIED = {NEXT, PRIMARY, DIRECT}
LIMITS = ClusterLimits(1, buckets={"ai": 2})


def test_limits_that_contradict() -> None:
    with pytest.raises(ConfigurationError) as raised:
        ClusterLimits(1, buckets={"ai": 3}).outranks(LIMITS)
    assert names_cure(NEXT, str(raised.value)), raised.value
    assert ClusterLimits(2, buckets={"ai": 3}).outranks(LIMITS)
    assert not ClusterLimits(1, buckets={"ai": 2}).outranks(LIMITS)


async def open_connection(url: str) -> None:
    connection = ClusterConnection(url, "tests", lambda text: None, lambda: None)
    await connection.open(new_life(), save_state(Coordinator(LIMITS)))
    connection.abort()


async def test_a_database_that_can_only_be_read(postgres_server: PostgresServer) -> None:
    script = "ALTER DATABASE readers SET default_transaction_read_only = on"
    url = await asyncio.to_thread(postgres_server.fresh_database, script, "readers")
    with pytest.raises(ConfigurationError) as raised:
        await open_connection(url)
    assert names_cure(PRIMARY, str(raised.value)), raised.value
    await open_connection(await asyncio.to_thread(postgres_server.fresh_database))


async def test_notifications_that_do_not_arrive(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a pooler: what one statement leaves in a session is not there for the next."""
    url = await asyncio.to_thread(postgres_server.fresh_database)
    with monkeypatch.context() as patch:
        patch.setattr(cluster_database, "PATIENCE", 1.0)
        patch.setattr(ClusterConnection, "_hear_note", lambda *_: None)
        with pytest.raises(ConfigurationError) as raised:
            await open_connection(url)
    assert names_cure(DIRECT, str(raised.value)), raised.value
    await open_connection(url)
