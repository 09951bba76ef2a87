"""Where are host names looked up, so that a silent name server delays no other work?"""

from __future__ import annotations

import socket
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import Any, Final

MAX_THREADS: Final = 16


class NameThreads:
    """Threads for looking up host names, so that a silent name server delays no other work.

    The system's look-up blocks a thread, for many seconds where a name server is silent. asyncio's
    few threads serve all blocking work.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._pool: ThreadPoolExecutor | None = None

    def look_up(
        self, host: str, port: int, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> Future[list[Any]]:
        """Return what will be the answer of `socket.getaddrinfo`; ask without waiting."""
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
