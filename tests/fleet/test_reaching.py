"""Is a head that stands still known from one that is slow, and how long is it waited for?"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.samples import BOUND, run_command
from tests.ray_nodes import is_alive
from tool_engine import ToolEngine, ToolEngineConfig, ToolExecutionContext
from tool_engine.executors.fleet import driver_process
from tool_engine.executors.fleet.connection import FleetConnection, FleetLostError
from tool_engine.executors.fleet.reaching import check_answering


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """What takes connections, as the system does for a process that was stopped."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def place_of(listener: socket.socket) -> str:
    return f"127.0.0.1:{listener.getsockname()[1]}"


def test_a_head_that_stands_still(listener: socket.socket) -> None:
    """Ray itself waits for it without end."""
    with pytest.raises(TimeoutError, match=r"has said nothing for 0\.1 s: its process stands"):
        check_answering(place_of(listener), 0.1)


@pytest.mark.parametrize("said", [b"\0\0\0\4\0\0\0\0\0", b""], ids=["settings", "its end"])
def test_a_head_that_says_anything(listener: socket.socket, said: bytes) -> None:
    """Its settings, or that it wants to be talked to otherwise."""

    def answer() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(said)

    answering = threading.Thread(target=answer)
    answering.start()
    check_answering(place_of(listener), BOUND)
    answering.join()


def test_an_address_without_a_port() -> None:
    """Ray has its own words for it."""
    check_answering("somewhere", 0.1)


async def test_one_caller_waits_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has its typed error after its own time; another one goes on waiting."""
    monkeypatch.setattr(driver_process, "_START", "import time; time.sleep(1000)")
    monkeypatch.setattr(driver_process, "find_spec", lambda _: True)
    connection = FleetConnection("auto")
    patient = asyncio.create_task(connection.join())
    with pytest.raises(FleetLostError, match=r"not joined within 0\.05 s.*see that it runs"):
        await connection.join(0.05)
    assert not patient.done()
    await connection.close(0.1)
    with pytest.raises(FleetLostError, match="the engine was closed"):
        await patient


async def test_a_driver_that_cannot_begin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It says what it lacks, or what stands in the way of a module that Ray needs."""
    (tmp_path / "ray.py").write_text("from http import nothing_of_the_kind")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(driver_process, "find_spec", lambda _: True)
    connection = FleetConnection("auto")
    with pytest.raises(FleetLostError, match=r"Ray cannot be imported: ImportError: .*http"):
        await connection.join(BOUND)
    await connection.close(BOUND)


EMPTY = """
import json, socket, sys
with socket.socket(fileno=int(sys.argv[1])) as engine:
    words = json.dumps({"nodes": [], "ray": "2", "python": "3"}).encode()
    while engine.recv(1 << 16): engine.sendall(len(words).to_bytes(4, "big") + words)
"""
"""A driver of a fleet without nodes, in which no call can ever begin."""


def test_a_connection_that_is_closed_on_another_loop() -> None:
    """It says that it was closed, and not that its engine has gone elsewhere."""
    connection = FleetConnection("auto")
    asyncio.run(connection.close(BOUND))
    with pytest.raises(FleetLostError, match=r"^the engine was closed$"):
        asyncio.run(connection.join(BOUND))


@pytest.mark.parametrize("is_over", [True, False], ids=["ended", "resting"])
def test_an_engine_that_goes_to_another_loop(
    is_over: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It joins anew there, as on the loop before nothing is heard; no driver is left."""
    (tmp_path / "handlers_of_loops.py").write_text("def f(): return 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(driver_process, "_START", EMPTY)
    monkeypatch.setattr(driver_process, "find_spec", lambda _: True)
    with warnings.catch_warnings():
        # A transport cannot be closed once its loop is.
        warnings.simplefilter("ignore", ResourceWarning)
        pids = call_on_two_loops(tmp_path, is_over=is_over)
        gc.collect()
    assert pids[0] != pids[1]
    until = time.monotonic() + BOUND
    while any(map(is_alive, pids)) and time.monotonic() < until:
        time.sleep(0.005)
    assert not any(map(is_alive, pids))


def call_on_two_loops(folder: Path, *, is_over: bool) -> list[int]:
    """Calls a tool on one loop and on another, and closes its engine on a third; the drivers."""
    config = {"isolation": "ray", "resources": {"cpus": 0}}
    entry = {"type": "custom", "handler": "handlers_of_loops:f", "config": config}
    engine = ToolEngine(ToolEngineConfig(str(folder), fleet="auto", auto_reload=False))
    engine.register_tool({"name": "f", "description": "x", "entry": entry, "effect": "read"})
    pids: list[int] = []

    async def call() -> None:
        async with asyncio.timeout(BOUND):
            result = await engine.execute("f", {}, ToolExecutionContext(timeout=BOUND / 2))
        assert str(result.error).startswith("no node of the fleet can ever hold")
        backend: Any = engine._registry.places.find("ray")
        pids.append(backend.connection.pid)

    with contextlib.ExitStack() as stack:
        for _ in range(2):
            loop = asyncio.new_event_loop()
            stack.callback(loop.close)
            loop.run_until_complete(call())
            loop.run_until_complete(loop.shutdown_default_executor())
            if is_over:
                loop.close()
                assert engine.fleet is not None
                assert not engine.fleet.snapshot().is_joined
        asyncio.run(asyncio.wait_for(engine.close(), BOUND))
    return pids


@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: make ray")
async def test_the_command_ends(
    listener: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`fleet check` says what it could not join, within the time that it is given."""
    monkeypatch.setenv("RAY_ADDRESS", place_of(listener))
    (tmp_path / "tools").mkdir()
    (tmp_path / "tool-engine.toml").write_text('fleet = "auto"\nclose_timeout = 0.1\n')
    code, said = await run_command(tmp_path, "check", "--timeout", "0.2")
    assert (code, "the fleet 'auto' cannot be joined: it was not joined within 0.2 s" in said) == (
        1,
        True,
    ), said
