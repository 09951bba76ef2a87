"""What can others see of the Ray that `fleet="local"` starts? Read from the system's own tables."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.samples import BOUND, HANDLERS, fleet_engine, has_ended
from tests.ray_cluster import needs_ray, tree_of

pytestmark = [pytest.mark.ray, needs_ray]


def sockets_of(pids: set[int]) -> list[tuple[str, str]]:
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


async def test_it_is_seen_on_this_machine_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It listens, and connects, on loopback only; no dashboard, no statistics; nothing is left."""
    (tmp_path / "handlers_of_fleets.py").write_text(HANDLERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    settings: dict[str, Any] = {"fleet": "local", "close_timeout": 30.0}
    async with asyncio.timeout(2 * BOUND), fleet_engine(tmp_path, "here", **settings) as bench:
        result = await bench.call("here", "hello")
        assert result.is_success, result.error
        backend: Any = bench.engine._registry.places.find("ray")
        pids = await asyncio.to_thread(tree_of, backend.connection.pid)
        sockets = await asyncio.to_thread(sockets_of, pids)
        assert len(sockets) > 5, "Ray's processes speak to each other"
        # What listens has no other side: its address is all zeros.
        outer = [
            pair
            for pair in sockets
            if not ipaddress.ip_address(pair[0]).is_loopback
            or (
                pair[1] not in ("0.0.0.0", "::")  # noqa: S104 - nothing is bound to it here
                and not ipaddress.ip_address(pair[1]).is_loopback
            )
        ]
        assert outer == []
        words = [await asyncio.to_thread(_read_file, pid, "cmdline") for pid in pids]
        # What is left of the dashboard keeps a few tables: it has no pages.
        boards = [each for each in words if b"dashboard/dashboard.py" in each]
        assert all(b"--minimal" in each and b"--disable-frontend" in each for each in boards)
        # Others of Ray's processes write their titles over what they were started with.
        heads = [pid for pid, each in zip(pids, words, strict=True) if b"/gcs_server" in each]
        for pid in heads:
            about = await asyncio.to_thread(_read_file, pid, "environ")
            assert b"RAY_USAGE_STATS_ENABLED=0" in about.split(b"\0")
        assert len(heads) == 1
    for pid in pids:
        await asyncio.wait_for(has_ended(pid), BOUND)
    sys.modules.pop("handlers_of_fleets", None)
