"""What errors about limits that processes share say to do is done, and it works."""

from __future__ import annotations

import asyncio
import ctypes
import os
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.contracts.test_cures_of_errors import names_cure
from tests.postgres import PostgresServer
from tests.relay import Relay
from tool_engine import (
    ClusterConfig,
    ClusterUnavailableError,
    ConcurrencyConfig,
    LeaseLostError,
    ToolEngine,
    ToolEngineConfig,
)
from tool_engine.admission import ToolConcurrencyController
from tool_engine.admission.cluster import cluster_database
from tool_engine.admission.cluster import controller as cluster_controller
from tool_engine.admission.cluster.cluster_database import ClusterConnection, new_life
from tool_engine.admission.cluster.cluster_limits import ClusterLimits
from tool_engine.admission.cluster.coordinator import Coordinator
from tool_engine.admission.cluster.looking import read_cluster
from tool_engine.admission.cluster.saved_state import save_state
from tool_engine.cli.app import run
from tool_engine.errors import ConfigurationError, EngineClosedError

NEXT = (
    "admission/cluster/cluster_limits.py: give the new limits revision …, or take those that there "
    "are"
)
PRIMARY = "admission/cluster/cluster_database.py: give the URL of the primary server"
NEWER = "admission/cluster/cluster_database.py: upgrade it, or give the URL of a newer one"
OWN = "admission/cluster/cluster_database.py: give the URL of a database of its own, or remove them"
DIRECT = (
    "admission/cluster/cluster_database.py: give the URL of the server itself, or of a pool in "
    "session mode"
)
USER = (
    "admission/cluster/cluster_database.py: correct the user and the password of its URL, or let "
    "this user connect"
)
CREATED = "admission/cluster/cluster_database.py: create it, or correct its name in the URL"
RIGHTS = (
    "admission/cluster/cluster_database.py: give the user the right to create tables in the "
    "schema, and to use those that are there"
)
REMOVED = (
    "admission/cluster/saved_state.py: run one version in all its processes, or remove its row "
    "from the table tool_cluster"
)
ANOTHER = "admission/cluster/controller.py: make a new engine for another one"
START = (
    "admission/cluster/controller.py: start it, correct cluster.url, or let calls go on without it "
    "with on_unavailable='local'"
)
VARIABLE = (
    "config.py: set the variable TOOL_ENGINE_PROCESS, or in a program give process=os.environ[...]"
)
AGAIN = "admission/slot.py: look at it, then do it again"
CALL_AGAIN = "calls/call.py: look whether the tool has run, then call it again"
SETTINGS = "model/settings/cluster.py: "
A_URL = (
    f"{SETTINGS}give that of a PostgreSQL database, such as "
    "postgresql://user:${env:PASSWORD}@host/coordination"
)
LONGER = f"{SETTINGS}raise it, or lower the grace"
ALONE = (
    "admission/refusal.py: give the config to an engine, ToolEngine(concurrency=config), and use "
    "engine.controller, or leave cluster out"
)
LOOKING = "admission/cluster/looking.py: "
ELSEWHERE = f"{LOOKING}start it, or give another URL"
LATER = f"{LOOKING}ask again once it does"
ANEW = "admission/cluster/member.py: make a new one"
COMMAND = "cli/serving/cluster_command.py: "
NAMED = (
    f"{COMMAND}give its database with `tool-engine --cluster URL ...`, the variable "
    "TOOL_ENGINE_CLUSTER, or [concurrency.cluster] of the settings"
)
MADE = f"{COMMAND}start one, or name another with `name` in [concurrency.cluster]"
REACHED = (
    "admission/cluster/outage.py: see that it runs and can be reached, or set on_unavailable to "
    "'local'"
)
OF_LOOKS = {ANEW, ELSEWHERE, LATER, NAMED, MADE, REACHED}
OF_SETTINGS = {A_URL, LONGER, ALONE}
OF_CALLS = {AGAIN, CALL_AGAIN}
OF_DATABASES = {PRIMARY, NEWER, OWN, DIRECT, USER, CREATED, RIGHTS, REMOVED}
TRIED = {NEXT, ANOTHER, START, VARIABLE, *OF_DATABASES, *OF_CALLS, *OF_SETTINGS, *OF_LOOKS}
LIMITS = ClusterLimits(1, buckets={"ai": 2})


def test_limits_that_contradict() -> None:
    with pytest.raises(ConfigurationError) as raised:
        ClusterLimits(1, buckets={"ai": 3}).outranks(LIMITS)
    assert names_cure(NEXT, str(raised.value)), raised.value
    assert ClusterLimits(2, buckets={"ai": 3}).outranks(LIMITS)
    assert not ClusterLimits(1, buckets={"ai": 2}).outranks(LIMITS)


def test_settings_that_cannot_be() -> None:
    fields = {"url": "postgresql://host/coordination", "session_grace": 5.0, "lease_ttl": 10.0}
    with pytest.raises(ConfigurationError) as raised:
        ConcurrencyConfig(cluster=fields)  # type: ignore[arg-type]
    assert names_cure(LONGER, str(raised.value)), raised.value
    for cured in ({"lease_ttl": 15.0}, {"session_grace": 3.0}):
        ConcurrencyConfig(cluster={**fields, **cured})  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError) as raised:
        ConcurrencyConfig(cluster={"name": "x"})  # type: ignore[arg-type]
    assert names_cure(A_URL, str(raised.value)), raised.value
    ClusterConfig(url="postgresql://user:${env:PASSWORD}@host/coordination")


def test_a_controller_alone(tmp_path: Path) -> None:
    cluster = ClusterConfig(url="postgresql://host/coordination", bucket_limits={"ai": 2})
    limits = ConcurrencyConfig(cluster=cluster)
    with pytest.raises(ConfigurationError) as raised:
        ToolConcurrencyController(limits)
    assert names_cure(ALONE, str(raised.value)), raised.value
    config = ToolEngineConfig(tools_directory=str(tmp_path))
    assert ToolEngine(config, concurrency=limits).controller.config.cluster == cluster
    ToolConcurrencyController(msgspec.structs.replace(limits, cluster=None))


async def test_a_cluster_that_is_not_there(
    postgres_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_controller, "_PATIENCE", 1.0)
    url = await asyncio.to_thread(postgres_server.fresh_database)
    nowhere = "postgresql://someone@127.0.0.1:1/none"

    def make(**fields: Any) -> ToolEngine:
        cluster = ClusterConfig(**{"bucket_limits": {"ai": 2}, **fields})
        config = ToolEngineConfig(tools_directory=str(tmp_path))
        return ToolEngine(config, concurrency=ConcurrencyConfig(cluster=cluster))

    engine = make(url=nowhere)
    with pytest.raises(ClusterUnavailableError) as raised:
        await engine.load()
    assert names_cure(START, str(raised.value)), raised.value
    await engine.close()
    for cured in (make(url=url), make(url=nowhere, on_unavailable="local")):
        async with cured:
            if cured.controller.config.cluster.url == url:  # type: ignore[union-attr]
                other = msgspec.structs.replace(cured.controller.config, cluster=None)
                with pytest.raises(ConfigurationError) as refused:
                    cured.controller.configure(other)
                assert names_cure(ANOTHER, str(refused.value)), refused.value


async def test_looking_at_a_cluster(
    postgres_server: PostgresServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = await asyncio.to_thread(postgres_server.fresh_database)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TOOL_ENGINE_CLUSTER", raising=False)

    async def look(*words: str) -> str:
        code = await asyncio.to_thread(run, [*words, "cluster", "status"])
        said = capsys.readouterr()
        return said.out if code == 0 else said.err

    assert names_cure(NAMED, await look())
    assert names_cure(ELSEWHERE, await look("--cluster", "postgresql://a@127.0.0.1:1/none"))
    assert names_cure(MADE, await look("--cluster", url))
    cluster = ClusterConfig(url=url, bucket_limits={"ai": 2})
    config = ToolEngineConfig(tools_directory=str(tmp_path), process="web-1")
    async with ToolEngine(config, concurrency=ConcurrencyConfig(cluster=cluster)) as engine:
        assert "web-1" in await look("--cluster", url)
        monkeypatch.setenv("TOOL_ENGINE_CLUSTER", url)
        assert "web-1" in await look()
        monkeypatch.delenv("TOOL_ENGINE_CLUSTER")
        settings = f'[concurrency.cluster]\nurl = "{url}"\nname = "default"\n'
        (tmp_path / "tool-engine.toml").write_text(settings)
        assert "web-1" in await look()
        view = engine.cluster
        assert view is not None
        with monkeypatch.context() as patch:
            patch.setattr(ClusterConnection, "read", cut_off)
            with pytest.raises(ClusterUnavailableError) as raised:
                await view.snapshot()
        assert names_cure(LATER, str(raised.value)), raised.value
        assert (await view.snapshot()).processes[0].process == "web-1"
    with pytest.raises(EngineClosedError) as closed:
        await view.snapshot()
    assert names_cure(ANEW, str(closed.value)), closed.value
    async with ToolEngine(config, concurrency=ConcurrencyConfig(cluster=cluster)) as engine:
        assert engine.cluster is not None
        assert (await engine.cluster.snapshot()).processes[-1].process == "web-1"


@pytest.mark.parametrize("on_unavailable", ["refuse", "local"])
async def test_an_outage(
    postgres_server: PostgresServer, tmp_path: Path, on_unavailable: str
) -> None:
    """The database is cut off for longer than a ttl, and then it can be reached again."""
    url = await asyncio.to_thread(postgres_server.fresh_database)
    relay = Relay(postgres_server.port)
    await relay.restore()
    cluster = ClusterConfig(
        url=url.replace(f":{postgres_server.port}/", f":{relay.port}/"),
        bucket_limits={"ai": 2},
        lease_ttl=0.9,
        on_unavailable=on_unavailable,
    )
    config = ToolEngineConfig(tools_directory=str(tmp_path))

    async def work() -> int:
        """Return at once."""
        return 1

    async with (
        asyncio.timeout(20.0),
        ToolEngine(config, concurrency=ConcurrencyConfig(cluster=cluster)) as engine,
    ):
        engine.tool(concurrency={"bucket": "ai"})(work)
        assert (await engine.execute("work")).is_success
        await relay.cut()
        if on_unavailable == "refuse":
            while (ended := await engine.execute("work")).error_type != "rejected":  # noqa: ASYNC110 - only calls say it
                await asyncio.sleep(0.01)
            assert names_cure(REACHED, ended.error or ""), ended
            assert ended.metadata["error_details"]["retry_after"] == 1.0
        until = time.monotonic() + 2.0
        while on_unavailable == "local" and time.monotonic() < until:
            assert (await engine.execute("work")).is_success
            await asyncio.sleep(0.01)
        await relay.restore()
        while not (await engine.execute("work")).is_success:  # noqa: ASYNC110 - others say it
            await asyncio.sleep(0.01)
        assert (await engine.execute("work")).is_success
    await relay.cut()


async def cut_off(connection: ClusterConnection) -> None:
    raise ConnectionResetError("cut off")


async def test_calls_whose_slots_were_lost(postgres_server: PostgresServer, tmp_path: Path) -> None:
    url = await asyncio.to_thread(postgres_server.fresh_database)
    cluster = ClusterConfig(url=url, bucket_limits={"ai": 2}, lease_ttl=1.0)
    pauses = iter((1.1, 0.0))

    def stand_still() -> int:
        ctypes.PyDLL(None).usleep(int(next(pauses, 0.0) * 1e6))  # no other thread runs meanwhile
        return 1

    async def work() -> int:
        """Work, and stand still at first."""
        return stand_still()

    config = ToolEngineConfig(tools_directory=str(tmp_path))
    async with ToolEngine(config, concurrency=ConcurrencyConfig(cluster=cluster)) as engine:
        engine.tool(concurrency={"bucket": "ai"})(work)
        result = await engine.execute("work")
        assert names_cure(CALL_AGAIN, result.error or ""), result.error
        assert (await engine.execute("work")).is_success
        pauses = iter((1.1, 0.0))
        with pytest.raises(LeaseLostError) as raised:
            async with engine.controller.slot("ai"):
                stand_still()
        assert names_cure(AGAIN, str(raised.value)), raised.value
        async with engine.controller.slot("ai"):
            stand_still()


async def open_connection(url: str) -> None:
    connection = ClusterConnection(url, "tests", lambda text: None, lambda: None)
    await connection.open(new_life(), lambda _: save_state(Coordinator(LIMITS)))
    connection.abort()


async def test_a_database_that_can_only_be_read(postgres_server: PostgresServer) -> None:
    script = "ALTER DATABASE readers SET default_transaction_read_only = on"
    url = await asyncio.to_thread(postgres_server.fresh_database, script, "readers")
    with pytest.raises(ConfigurationError) as raised:
        await open_connection(url)
    assert names_cure(PRIMARY, str(raised.value)), raised.value
    await open_connection(await asyncio.to_thread(postgres_server.fresh_database))


async def test_a_server_that_is_too_old(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As this one would be for a version that needs a newer one."""
    url = await asyncio.to_thread(postgres_server.fresh_database)
    with monkeypatch.context() as patch:
        patch.setattr(cluster_database, "_OLDEST", 990000)
        with pytest.raises(ConfigurationError) as raised:
            await open_connection(url)
    assert names_cure(NEWER, str(raised.value)), raised.value
    await open_connection(url)


@pytest.mark.parametrize(
    "made",
    [
        "TABLE tool_cluster (x int)",
        "TABLE tool_cluster (name text PRIMARY KEY, version int, state text)",
        "TABLE tool_cluster_key (name text)",
        "TABLE tool_cluster_alive (started int)",
        "VIEW tool_cluster AS SELECT 1 AS x",
    ],
)
async def test_tables_of_another_program(postgres_server: PostgresServer, made: str) -> None:
    url = await asyncio.to_thread(postgres_server.fresh_database, f"CREATE {made}")
    with pytest.raises(ConfigurationError) as raised:
        await open_connection(url)
    kind, name = made.split()[:2]
    assert names_cure(OWN, str(raised.value)), raised.value
    assert f"({name})" in str(raised.value)
    await open_connection(await asyncio.to_thread(postgres_server.fresh_database, "", "others"))
    await asyncio.to_thread(postgres_server._do, "tests", f"DROP {kind} {name}")
    await open_connection(url)


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


async def test_a_database_that_is_not_there(postgres_server: PostgresServer) -> None:
    url = await asyncio.to_thread(postgres_server.fresh_database)
    with pytest.raises(ConfigurationError) as raised:
        await open_connection(f"{url}_of_none")
    assert names_cure(CREATED, str(raised.value)), raised.value
    await open_connection(url)
    with pytest.raises(ConfigurationError) as raised:
        await read_cluster(f"{url}_of_none", "tests")
    assert names_cure(CREATED, str(raised.value)), raised.value
    assert await read_cluster(url, "tests") is not None


async def test_a_server_that_refuses_a_user(postgres_server: PostgresServer) -> None:
    """It may not connect, or not use tables: what it is given then is enough."""
    role = "DROP ROLE IF EXISTS guest; CREATE ROLE guest LOGIN PASSWORD 'guest'"
    url = await asyncio.to_thread(postgres_server.fresh_database, role)
    await open_connection(url)
    guest = url.replace(url.split("@")[0], "postgresql://guest:guest")
    with pytest.raises(ConfigurationError) as raised:
        await open_connection(guest.replace(":guest@", ":wrong@"))
    assert names_cure(USER, str(raised.value)), raised.value
    with pytest.raises(ConfigurationError) as raised:
        await open_connection(guest)
    assert names_cure(RIGHTS, str(raised.value)), raised.value
    give = "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO guest"
    await asyncio.to_thread(
        postgres_server._do, "tests", f"{give}; GRANT ALL ON SCHEMA public TO guest"
    )
    await asyncio.to_thread(postgres_server._do, "tests", "GRANT USAGE ON SCHEMA public TO guest")
    await open_connection(guest)


async def test_a_state_of_another_version(postgres_server: PostgresServer) -> None:
    url = await asyncio.to_thread(postgres_server.fresh_database)
    await open_connection(url)
    damage = "UPDATE tool_cluster SET state = '\\x90'"
    await asyncio.to_thread(postgres_server._do, "tests", damage)
    with pytest.raises(ConfigurationError) as raised:
        await read_cluster(url, "tests")
    assert names_cure(REMOVED, str(raised.value)), raised.value
    await asyncio.to_thread(postgres_server._do, "tests", "DELETE FROM tool_cluster")
    assert await read_cluster(url, "tests") is None
    await open_connection(url)
    assert await read_cluster(url, "tests") is not None


def test_a_name_of_a_process_with_a_placeholder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """None is filled there: each process would bear the text itself."""
    with pytest.raises(ConfigurationError) as raised:
        ToolEngineConfig(process="${env:POD}")
    assert names_cure(VARIABLE, str(raised.value)), raised.value
    monkeypatch.setenv("POD", "pod-7")
    assert ToolEngineConfig(process=os.environ["POD"]).process == "pod-7"

    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools").mkdir()
    settings = tmp_path / "tool-engine.toml"
    settings.write_text('process = "${env:POD}"\n')
    assert run(["config"]) == 2
    assert names_cure(VARIABLE, capsys.readouterr().err)
    settings.write_text("")
    monkeypatch.setenv("TOOL_ENGINE_PROCESS", "pod-7")
    assert run(["config", "--json"]) == 0
    said = msgspec.json.decode(capsys.readouterr().out)["settings"]
    origin = "the variable TOOL_ENGINE_PROCESS"
    assert {"name": "process", "value": "pod-7", "origin": origin} in said
