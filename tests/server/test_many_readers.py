"""What do very many readers of events cost a server that they never read from?"""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import socket
import urllib.error
from collections import Counter
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
MOST_LEFT = 8 << 10
"""Bytes that it may take more for each, where as many come once more."""
OTHERS = 500
"""Open files that are no readers."""


@contextmanager
def open_readers(url: str, count: int) -> Iterator[Counter[bytes]]:
    """Readers that read how they are answered, and then no more."""
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
            found.connect((place.hostname, place.port))
            found.sendall(request)
        yield Counter(found.recv(12)[-3:] for found in sockets)
    finally:
        for found in sockets:
            found.close()


@contextmanager
def most_files(count: int) -> Iterator[int]:
    """So many files may be open, also in processes that are started, or fewer; how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = count if hard == resource.RLIM_INFINITY else min(count, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    try:
        yield most
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def read_memory(pid: int) -> int:
    """The bytes of memory that a process has, but for pages of files, which come by and by."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) << 10


def call(url: str) -> None:
    body = {"arguments": {"message": "x" * EVENT_SIZE}}
    assert json.loads(fetch(f"{url}/v1/tools/say/calls", body))["is_success"]


def count_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def read_peak(pid: int, url: str, count: int) -> int:
    """The memory beside readers that never read, once what is kept for them is full."""
    with open_readers(url, count) as answered:
        assert answered == {b"200": count}
        for _ in range(CALLS):
            call(url)
        return read_memory(pid)


def bound_memory(pid: int, url: str, count: int) -> None:
    call(url)
    before, files = read_memory(pid), count_files(pid)
    peaks = []
    for _ in range(3):
        peaks.append(read_peak(pid, url, count))
        while count_files(pid) > files + OTHERS // 10:
            call(url)  # which learns of those that have left
    each = (peaks[0] - before) / count
    assert each < MOST_EACH, f"{each / 1024:.0f} KB for each of {count} readers"
    more = (peaks[2] - peaks[1]) / count
    assert more < MOST_LEFT, f"{more / 1024:.1f} KB are left of each of {count} readers"
    print(f"{each / 1024:.1f} KB a reader, {more / 1024:.1f} KB left")


@pytest.mark.timeout(3_600)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc here")
async def test_readers_that_never_read(tmp_path: Path) -> None:
    """Calls are answered; what is kept for each is bounded, and used again once it has left."""
    with most_files(READERS + OTHERS) as most:
        async with server_process(tmp_path) as server:
            count = min(READERS, most - OTHERS)
            await asyncio.to_thread(bound_memory, server.process.pid, server.url, count)
            assert await server.end() == (143, "")


def test_connections_for_which_there_is_no_room(tmp_path: Path) -> None:
    """They are refused in words, nothing is logged, and there is room again once some leave."""

    async def press() -> None:
        async with contextlib.AsyncExitStack() as stack:
            with most_files(256):
                server = await stack.enter_async_context(server_process(tmp_path))
            await asyncio.to_thread(fill_up, server.url)
            assert await server.end() == (143, "")

    def fill_up(url: str) -> None:
        with open_readers(url, 300) as answered:
            assert answered == {b"200": 128, b"503": 172}
            with pytest.raises(urllib.error.HTTPError) as refused:
                call(url)
            problem = json.load(refused.value)
            assert problem["type"] == "urn:tool-engine:too-many-connections"
            assert "try again later" in problem["detail"]
        call(url)

    asyncio.run(press())
