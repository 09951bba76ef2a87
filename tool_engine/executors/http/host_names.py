"""How are host names looked up so that a silent name server delays no other work?

The system's look-up blocks a thread, for many seconds where a name server is silent. asyncio's few
threads serve all blocking work; names have their own.
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import Any, Final

from aiohttp.abc import AbstractResolver, ResolveResult

MAX_THREADS: Final = 16
_NUMERIC: Final = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


class NameThreads:
    def __init__(self) -> None:
        self._lock = Lock()
        self._pool: ThreadPoolExecutor | None = None

    def look_up(self, host: str, port: int, family: socket.AddressFamily) -> Future[list[Any]]:
        ask = partial(
            socket.getaddrinfo,
            host,
            port,
            family=family,
            type=socket.SOCK_STREAM,
            flags=socket.AI_ADDRCONFIG,
        )
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="tool-names")
            return self._pool.submit(ask)

    def close(self) -> None:
        """Let the threads end, without waiting; another look-up starts new ones."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False)


class NameResolver(AbstractResolver):
    def __init__(self, threads: NameThreads) -> None:
        self._threads = threads

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await asyncio.wrap_future(self._threads.look_up(host, port, family))
        return [
            ResolveResult(
                hostname=host,
                host=_address_text(address),
                port=address[1],
                family=kind,
                proto=protocol,
                flags=_NUMERIC,
            )
            for kind, _, protocol, _, address in found
        ]

    async def close(self) -> None:
        """Do nothing: the threads belong to the executor."""


def _address_text(address: tuple[Any, ...]) -> str:
    zone = address[3] if len(address) > 3 else 0
    return f"{address[0]}%{zone}" if zone else str(address[0])
