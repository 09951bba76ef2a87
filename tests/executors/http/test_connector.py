"""What is dialled, and how much of it is read at once."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from aiohttp.resolver import ThreadedResolver

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.http.addresses import AddressRefusedError, AllowList
from tool_engine.executors.http.connector import GuardedResolver


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
