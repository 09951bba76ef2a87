"""What is dialled, and how much of it is read at once."""

from __future__ import annotations

import asyncio
import select
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp.resolver import ThreadedResolver

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.http.addresses import AddressRefusedError, AllowList
from tool_engine.executors.http.connector import GuardedResolver, NameResolver
from tool_engine.executors.http.name_threads import MAX_THREADS, NameThreads

LIMIT = 20.0


async def test_resolver() -> None:
    """A name stands for what it may stand for, and for nothing else."""
    async with asyncio.timeout(10):
        refusing = GuardedResolver(AllowList(), ThreadedResolver())
        with pytest.raises(AddressRefusedError):
            await refusing.resolve("localhost", 80)
        opened = GuardedResolver(AllowList.parse(["localhost:80"]), ThreadedResolver())
        found = await opened.resolve("localhost", 80)
        assert {result["host"] for result in found} <= {"127.0.0.1", "::1"}
        await opened.close()


async def test_little_is_read_at_once(run: Any, site: Any) -> None:
    """What is read at once is parsed at once, so it is less than asyncio would take."""
    await run.request(url=site.url)
    (session,) = run.executor._sessions.values()
    ((connection, *_),) = session.connector._conns.values()
    assert connection[0].transport.max_size == 64 * 1024


async def test_a_name_without_addresses(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server that knows the name, and no address of it, makes an error that says so."""
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [])
    with pytest.raises(ToolExecutionError, match="cannot be resolved: it has no address"):
        await run.request(url="http://a.example/")


class HangingUp:
    """A server that answers one request on each connection, and ends it when it is asked to."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listening.getsockname()[1]}/"
        self.served = 0
        self.may_end, self.has_ended = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            connection.recv(65_536)
            self.served += 1
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            self.may_end.wait(10)
            connection.close()
            self.has_ended.set()

    def close(self) -> None:
        self.may_end.set()
        self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        self.thread.join(10)


@pytest.fixture
def hanging_up() -> Iterator[HangingUp]:
    found = HangingUp()
    yield found
    found.close()


@pytest.mark.parametrize(("method", "has_poll"), [("GET", True), ("POST", True), ("POST", False)])
async def test_a_connection_that_the_server_has_given_up(
    run: Any, hanging_up: HangingUp, monkeypatch: pytest.MonkeyPatch, method: str, has_poll: bool
) -> None:
    """R2: a request is not sent on an idle connection that has ended, even where the event loop
    was busy and has not noticed it; looked at: the pools of processes, HTTP and SQL."""
    if not has_poll:  # as on Windows
        monkeypatch.delattr(select, "poll", raising=False)
    request = {"url": hanging_up.url, "method": method}
    assert await run.declared(request) == "ok"
    hanging_up.may_end.set()
    # Blocks the loop, as a slow step of it would.
    assert hanging_up.has_ended.wait(10)
    assert await run.declared(request) == "ok"
    assert hanging_up.served == 2


async def test_a_name_and_its_addresses() -> None:
    """What the system knows of a name is what is dialled; closing takes nothing from the next."""
    threads = NameThreads()
    resolver = NameResolver(threads)
    async with asyncio.timeout(LIMIT):
        for _ in range(2):
            (found,) = await resolver.resolve("127.0.0.1", 80)
            assert (found["host"], found["port"], found["family"]) == (
                "127.0.0.1",
                80,
                socket.AF_INET,
            )
            await resolver.close()
            threads.close()
            threads.close()
        with pytest.raises(socket.gaierror):
            await resolver.resolve("no.such.name.invalid", 80)
    threads.close()


async def test_silent_names_keep_nothing_else_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that nobody answers for take no thread from what else blocks (`asyncio.to_thread`)."""
    answered = threading.Event()

    def silent(host: str, port: int, **_: Any) -> list[Any]:
        answered.wait(LIMIT)
        return [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fe80::1", port, 0, 2))]

    monkeypatch.setattr(socket, "getaddrinfo", silent)
    threads = NameThreads()
    resolver = NameResolver(threads)
    asked = [asyncio.create_task(resolver.resolve("silent.example", 80)) for _ in range(64)]
    try:
        async with asyncio.timeout(LIMIT / 2):
            await asyncio.sleep(0)
            names = {t.name for t in threading.enumerate() if t.name.startswith("tool-names")}
            assert 0 < len(names) <= MAX_THREADS
            await asyncio.to_thread(str)
    finally:
        answered.set()
    for found in await asyncio.gather(*asked):
        # The zone stays: what has one is refused.
        assert [each["host"] for each in found] == ["fe80::1%2"]
    threads.close()
