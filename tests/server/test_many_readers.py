"""What do very many readers of events cost a server that they never read from?"""

from __future__ import annotations

import asyncio
import json
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.effort import IS_WHOLE
from tests.server.process import HEADERS, fetch, server_process

READERS = 10_000 if IS_WHOLE else 500
CALLS = 60
EVENT_SIZE = 5_000
MOST_EACH = 60 << 10
"""Bytes of the server's memory for each reader."""
OTHERS = 500
"""Open files that are no readers."""


@contextmanager
def open_readers(url: str, count: int) -> Iterator[None]:
    """Readers that hear that they are heard, and then read no more."""
    place = urlsplit(url)
    lines = [f"GET /v1/events HTTP/1.1\r\nHost: {place.netloc}\r\n"]
    lines += [f"{name}: {value}\r\n" for name, value in HEADERS.items()]
    request = ("".join(lines) + "\r\n").encode()
    sockets = []
    try:
        for _ in range(count):
            found = socket.socket()
            sockets.append(found)
            found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            found.settimeout(60)
            found.connect((place.hostname, place.port))
            found.sendall(request)
        for found in sockets:
            assert found.recv(12) == b"HTTP/1.1 200"
        yield
    finally:
        for found in sockets:
            found.close()


def read_memory(pid: int) -> int:
    """The bytes of memory that a process has."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) << 10


def call(url: str) -> None:
    body = {"arguments": {"message": "x" * EVENT_SIZE}}
    assert json.loads(fetch(f"{url}/v1/tools/say/calls", body))["is_success"]


def bound_memory(pid: int, url: str, count: int) -> None:
    call(url)
    before = read_memory(pid)
    with open_readers(url, count):
        for _ in range(CALLS):
            call(url)
        each = (read_memory(pid) - before) / count
    call(url)
    assert each < MOST_EACH, f"{each / 1024:.0f} KB for each of {count} readers"


@pytest.mark.timeout(600)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc here")
async def test_readers_that_never_read(tmp_path: Path) -> None:
    """Calls are answered meanwhile, and what is kept for each reader is bounded."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = hard if hard != resource.RLIM_INFINITY else READERS + OTHERS
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))  # the server's too
    try:
        count = min(READERS, max(soft, most) - OTHERS)
        async with server_process(tmp_path) as server:
            await asyncio.to_thread(bound_memory, server.process.pid, server.url, count)
            code, said = await server.end()
            assert (code, said) == (143, "")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
