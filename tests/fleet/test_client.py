"""Does a fleet elsewhere, `ray://HOST:PORT`, keep the promises, with a token for who may join?"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.effort import IS_WHOLE
from tests.fleet.samples import BOUND, HANDLERS, fleet_engine, has_ended
from tests.ports import free_port
from tests.ray_cluster import AS_OTHERS, MEMORY, is_alive, needs_ray, tree_of
from tool_engine.executors.fleet import connection

pytestmark = [pytest.mark.ray, needs_ray, pytest.mark.asyncio(loop_scope="module")]
PORTS = ("--port", "--ray-client-server-port", "--node-manager-port", "--object-manager-port")
SOON = 60.0
TURN = 22_999
"""Who has this port has the only head of this machine that takes clients from elsewhere."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A head node as operators start it, on loopback; nothing of it is left."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(_the_only_head())
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        # Short, for sockets are in it.
        folder = Path(tempfile.mkdtemp(prefix="te-", dir="/tmp"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        handlers = tmp_path_factory.mktemp("remote")
        (handlers / "handlers_of_fleets.py").write_text(HANDLERS)
        patch.syspath_prepend(str(handlers))
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        for name, value in AS_OTHERS.items():
            patch.setenv(name, value)
        patch.setenv("RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S", f"{BOUND:.0f}")
        patch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # so that it stays on loopback
        ports = [free_port() for _ in PORTS]
        words = [f"{name}={port}" for name, port in zip(PORTS, ports, strict=True)]
        words += ["--num-cpus=2", f"--object-store-memory={MEMORY}", f"--temp-dir={folder}"]
        patch.setenv("PYTHONUNBUFFERED", "1")
        said = handlers / "said"
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"),
                *("--node-ip-address=127.0.0.1", "--include-dashboard=false", *words),
            ],
            stdout=stack.enter_context(said.open("wb")),
            stderr=subprocess.STDOUT,
        )
        stack.callback(_end_head, process)
        _wait_until_started(said, ports[1], process)
        yield f"ray://127.0.0.1:{ports[1]}"


@contextlib.contextmanager
def _the_only_head() -> Iterator[None]:
    """Waits while another run of these tests has a head.

    Heads that begin together all take the port 23000 for their first client, and share it: a client
    comes to any of them.
    """
    until = time.monotonic() + 2 * BOUND
    with socket.socket() as turn:
        while True:
            try:
                turn.bind(("127.0.0.1", TURN))
            except OSError:
                assert time.monotonic() < until, "another run of these tests does not end"
                time.sleep(0.1)
            else:
                break
        yield


def _wait_until_started(said: Path, port: int, process: subprocess.Popen[bytes]) -> None:
    """Waits for the whole head: its port for clients listens before there is a node for them."""
    until = time.monotonic() + BOUND
    while time.monotonic() < until and process.poll() is None:
        if "Ray runtime started" in said.read_text():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
                return
        time.sleep(0.1)
    raise AssertionError(f"the head has not started; ended: {process.poll()}; {said.read_text()}")


def _end_head(process: subprocess.Popen[bytes]) -> None:
    # Asked to end, its server for clients waits half a minute for those that could come back.
    pids = tree_of(process.pid)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait(BOUND)
    until = time.monotonic() + BOUND
    while (left := [pid for pid in pids if is_alive(pid)]) and time.monotonic() < until:
        time.sleep(0.05)
    assert not left


@pytest.mark.timeout(600)
async def test_calls_elsewhere(address: str, tmp_path: Path) -> None:
    """A call, a large result, a deadline and a cancellation: what they promise, they keep there."""
    names = ("pid", "large", "wait", "loop")
    async with (
        asyncio.timeout(4 * BOUND),
        fleet_engine(tmp_path, *names, fleet=address, close_timeout=30.0) as bench,
    ):
        assert bench.engine.fleet is not None
        await bench.engine.fleet.join()  # which takes longer than a call may, on a busy machine
        result = await bench.call("pid")
        assert result.is_success, result.error
        assert len((await bench.call("large", "é")).output["result"]) == int(1.5 * 2**20)
        result = await bench.call("wait", "")
        assert result.is_success, result.error
        result = await bench.call("wait", seconds=1.0)
        assert result.error_type == "timeout"
        await asyncio.wait_for(bench.becomes_free(), SOON)
        bench.file.unlink(missing_ok=True)
        call = asyncio.create_task(bench.call("loop"))
        (pid,) = await bench.noted()
        call.cancel()
        await asyncio.wait([call])
        await asyncio.wait_for(bench.becomes_free(), SOON)
        assert bench.file.with_suffix(".cleaned").exists()
    await asyncio.wait_for(has_ended(pid), SOON)


@pytest.mark.skipif(not IS_WHOLE, reason="a second process for a client: make proof")
@pytest.mark.timeout(600)
async def test_the_process_for_a_client_ends_as_it_starts(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A head that is short of something does not say so for long; it is asked again meanwhile."""
    # As long as a busy machine takes for a driver and its server: the second try is to have both.
    monkeypatch.setattr(connection, "_SECONDS_TO_DOUBT", 30.0)
    async with (
        asyncio.timeout(4 * BOUND),
        fleet_engine(tmp_path, "pid", fleet=address, close_timeout=30.0) as bench,
    ):
        assert bench.engine.fleet is not None
        former = await asyncio.to_thread(_list_client_servers)
        joining = asyncio.create_task(bench.engine.fleet.join())
        await asyncio.to_thread(_kill_new_client_server, former)
        await joining
        result = await bench.call("pid")
        assert result.is_success, result.error


def _kill_new_client_server(former: set[int]) -> None:
    until = time.monotonic() + 2 * BOUND
    while time.monotonic() < until:
        for pid in _list_client_servers() - former:
            os.kill(pid, signal.SIGKILL)
            return
        time.sleep(0.01)
    raise AssertionError("the head has started no process for the client")


def _list_client_servers() -> set[int]:
    """Those of clients that have left stay for a while."""
    return {pid for pid in tree_of(os.getpid()) if "specific-server" in _read_words(pid)}


def _read_words(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


@pytest.mark.skipif(not IS_WHOLE, reason="Ray's client takes half a minute: make proof")
async def test_without_the_token(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has another token runs nothing there, and is told what to look at."""
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    async with asyncio.timeout(BOUND), fleet_engine(tmp_path, "pid", fleet=address) as bench:
        result = await bench.call("pid")
        assert not result.is_success
        assert "RAY_AUTH_TOKEN are the same here" in str(result.error)
