"""A server that says nothing holds up no start: how long it is waited for, and what comes later."""

import asyncio
import re
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.executors.mcp.conftest import serve_http, until
from tests.mcp_servers.deaf import deaf_socket
from tests.mcp_servers.programs import PROGRAM, entry, program
from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.mcp_servers import hub

CONNECTED = 3.0
"""Seconds that an address has which takes connections, and answers nothing."""
PATIENCE = 200.0
LONG = 600.0
"""Seconds that no test takes."""
WAITED = re.compile(r"within (\d+\.\d) s, as others have")


def engine_of(folder: Path, **servers: Any) -> ToolEngine:
    config = ToolEngineConfig(str(folder), mcp_servers=servers, mcp_start_timeout=LONG)
    return ToolEngine(config)


@pytest.fixture(scope="module")
def live() -> Iterator[str]:
    """The address of a server that answers."""
    with serve_http() as url:
        yield url


@asynccontextmanager
async def forwarding(
    url: str, gate: asyncio.Event, sock: socket.socket | None = None
) -> AsyncIterator[str]:
    """An address that takes connections, and passes on what is said once the gate is open."""
    host, port = url.split("/")[2].split(":")
    writers: list[asyncio.StreamWriter] = []

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await gate.wait()
        inner, out = await asyncio.open_connection(host, int(port))
        await asyncio.gather(pass_on(reader, out), pass_on(inner, writer))

    if sock is None:
        server = await asyncio.start_server(take, "127.0.0.1", 0)
    else:
        server = await asyncio.start_server(take, sock=sock)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    finally:
        gate.set()
        server.close()
        for each in writers:
            each.close()


def waited_for(engine: ToolEngine, words: str) -> float:
    """For how long the load waited, by the one error that there is."""
    ((_, error),) = engine.load_errors
    assert words in error
    found = WAITED.search(error)
    assert found is not None, error
    return float(found[1])


async def test_an_address_that_takes_no_connection_is_not_waited_for(
    tmp_path: Path, live: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where all others have answered; its tools come once it takes one."""
    # Whatever else a start waits for takes longer than the test may.
    monkeypatch.setattr(hub, "_ADDRESS_PATIENCE", LONG)
    gate = asyncio.Event()
    gate.set()
    with deaf_socket() as listening:
        deaf = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        async with engine_of(tmp_path, deaf={"url": deaf}, live={"url": live}) as engine:
            waited_for(engine, "the server 'deaf' has not been reached")
            assert (await engine.execute("echo", {"text": "hi"})).is_success
            async with forwarding(live, gate, listening):
                await until(lambda: "deaf_echo" in engine.index)
                await until(lambda: engine.load_errors == [])


async def test_of_fifty_servers_a_dead_one_keeps_none_waiting(
    tmp_path: Path, live: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start ends with the answer of the slowest that lives; the dead one is tried on."""
    monkeypatch.setattr(hub, "_ADDRESS_PATIENCE", LONG)
    monkeypatch.setattr(hub, "_DIALLING_PATIENCE", 0.0)
    with deaf_socket() as listening:
        dead = {"url": f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"}
        servers = {f"live{number}": {"url": live} for number in range(49)}
        async with engine_of(tmp_path, dead=dead, **servers) as engine:
            waited_for(engine, "the server 'dead' has not been reached")
            assert {f"{name}_echo" for name in servers} <= set(engine.list_names())
            states = engine.list_mcp_servers()
            assert [each.name for each in states if not each.is_connected] == ["dead"]
            calls = (engine.execute(f"{name}_echo", {"text": name}) for name in servers)
            assert all(each.is_success for each in await asyncio.gather(*calls))


async def test_an_address_that_takes_a_connection_is_waited_for(tmp_path: Path, live: str) -> None:
    """It may be slow: others that are there long before do not make it late."""
    gate = asyncio.Event()
    asyncio.get_running_loop().call_later(CONNECTED / 3, gate.set)
    async with (
        forwarding(live, gate) as slow,
        engine_of(tmp_path, slow={"url": slow}, live={"url": live}) as engine,
    ):
        assert engine.load_errors == []
        assert "slow_echo" in engine.index


async def test_an_address_that_is_silent_holds_up_no_start(tmp_path: Path, live: str) -> None:
    """It accepts and never answers; what others give is there, and it is named."""
    gate = asyncio.Event()
    async with (
        forwarding(live, gate) as silent,
        engine_of(tmp_path, silent={"url": silent}, one=entry("one")) as engine,
    ):
        assert (await engine.execute("echo", {"text": "hi"})).is_success
        assert waited_for(engine, "the server 'silent' has not answered") >= CONNECTED
        assert "its tools come when it does" in engine.load_errors[0][1]


async def test_a_program_is_waited_for_whatever_else_is_not_reached(
    tmp_path: Path, live: str
) -> None:
    """It may have to be fetched first."""
    begin = tmp_path / "begin"
    code = f"""import os, runpy, time
while not os.path.exists({str(begin)!r}):
    time.sleep(0.01)
runpy.run_path({str(PROGRAM)!r}, run_name="__main__")"""
    slow = {**entry("slow"), **program("-c", code)}
    asyncio.get_running_loop().call_later(CONNECTED / 3, begin.touch)
    with deaf_socket() as listening:
        deaf = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        servers = {"deaf": {"url": deaf}, "live": {"url": live}, "slow": slow}
        async with engine_of(tmp_path, **servers) as engine:
            waited_for(engine, "the server 'deaf' has not been reached")
            assert "slow_echo" in engine.index


async def test_names_that_nobody_answers_for_keep_no_other_server_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its threads nor its time: each program is started in a thread, too."""
    released, look_up = threading.Event(), socket.getaddrinfo

    def be_silent(host: Any, *others: Any, **options: Any) -> Any:
        if str(host).endswith(".example"):
            released.wait(LONG)
            raise socket.gaierror("no answer")
        return look_up(host, *others, **options)

    monkeypatch.setattr(socket, "getaddrinfo", be_silent)
    silent = {f"silent_{n}": {"url": f"http://{n}.example/mcp"} for n in range(40)}
    try:
        async with asyncio.timeout(PATIENCE), engine_of(tmp_path, **silent, one=entry()) as engine:
            assert (await engine.execute("echo", {"text": "hi"})).is_success
            errors = [text for _, text in engine.load_errors]
            assert len(errors) == len(silent)
            assert all("has not been reached within" in text for text in errors)
            released.set()
    finally:
        released.set()
