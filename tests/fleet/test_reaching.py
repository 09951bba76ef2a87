"""Is a head that stands still known from one that is slow, and how long is it waited for?"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.fleet.samples import BOUND, run_command
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
