"""How names are looked up."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest

from tool_engine.executors.http.host_names import MAX_THREADS, NameResolver, NameThreads

LIMIT = 20.0


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
