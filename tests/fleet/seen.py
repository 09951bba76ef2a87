"""What can others see of the Ray that `fleet="local"` starts? Read from the system's own tables."""

from __future__ import annotations

import contextlib
import ipaddress
import os
from collections.abc import Iterable
from pathlib import Path


def check_seen_here_alone(pids: Iterable[int]) -> None:
    """These processes listen, and connect, on loopback only; no dashboard, no statistics."""
    pids = {*pids}
    sockets = sockets_of(pids)
    assert len(sockets) > 5, "Ray's processes speak to each other"
    # What listens has no other side: its address is all zeros.
    nowhere = ("0.0.0.0", "::")  # noqa: S104 - nothing is bound to it here
    outer = [
        pair
        for pair in sockets
        if not ipaddress.ip_address(pair[0]).is_loopback
        or not (pair[1] in nowhere or ipaddress.ip_address(pair[1]).is_loopback)
    ]
    assert outer == []
    words = {pid: _read_file(pid, "cmdline") for pid in pids}
    # What is left of the dashboard keeps a few tables: it has no pages.
    boards = [each for each in words.values() if b"dashboard/dashboard.py" in each]
    assert all(b"--minimal" in each and b"--disable-frontend" in each for each in boards)
    # Others of Ray's processes write their titles over what they were started with.
    heads = [pid for pid, each in words.items() if b"/gcs_server" in each]
    for pid in heads:
        assert b"RAY_USAGE_STATS_ENABLED=0" in _read_file(pid, "environ").split(b"\0")
    assert len(heads) == 1


def sockets_of(pids: Iterable[int]) -> list[tuple[str, str]]:
    """The own and the other address of each TCP socket that these processes have open."""
    open_files = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for file in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    open_files.add(os.readlink(file))  # noqa: PTH115 - of something that is no path
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if f"socket:[{words[9]}]" in open_files:
                found.append((_read_address(words[1]), _read_address(words[2])))
    return found


def _read_address(text: str) -> str:
    """An address as the tables of the kernel write it: words of four bytes, each back to front."""
    data = bytes.fromhex(text.partition(":")[0])
    turned = b"".join(data[at : at + 4][::-1] for at in range(0, len(data), 4))
    address = ipaddress.ip_address(turned)
    return str(getattr(address, "ipv4_mapped", None) or address)


def _read_file(pid: int, name: str) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/{name}").read_bytes()
    return b""
