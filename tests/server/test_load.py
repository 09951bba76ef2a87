"""What is left when very much has happened, and servers were killed in the middle of it?

`make proof` presses for ten minutes.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.effort import IS_WHOLE
from tests.server.load import Load
from tests.server.process import HEADERS, ServerProcess, server_process
from tests.server.test_many_readers import read_memory

SECONDS = 600.0 if IS_WHOLE else 10.0
KILLED, ENDED = 0.15, 0.15
"""Which parts of the time go by before the first server is killed, and the second one ended."""
MOST_GROWTH = 16 << 20
"""Bytes by which the memory of a server may grow after a third of its time."""
QUIET_LIMIT = 60.0


async def press_and_stop(server: ServerProcess, load: Load, seconds: float, number: int) -> None:
    """Stops a server in the middle of its work."""
    load.is_server_ending = False
    pressing = asyncio.create_task(load.press(server.url, seconds + 60))
    await asyncio.wait([pressing], timeout=seconds)
    load.is_server_ending = True
    code, said = await server.end(number)
    await pressing
    assert code == (-number if number == signal.SIGKILL else 128 + number), said
    assert said == ""


async def press_steadily(server: ServerProcess, load: Load, seconds: float) -> None:
    """Bounds how much memory a server takes on."""
    load.is_server_ending = False
    await load.press(server.url, seconds / 3)
    before = read_memory(server.process.pid)
    await load.press(server.url, 2 * seconds / 3)
    growth = read_memory(server.process.pid) - before
    assert growth < MOST_GROWTH, f"{growth / 2**20:.0f} MB more"


async def read(http: aiohttp.ClientSession, path: str) -> Any:
    async with http.get(path) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json()


async def read_statuses(http: aiohttp.ClientSession) -> dict[str, str]:
    """The status of each task that is kept, by its id."""
    statuses: dict[str, str] = {}
    page = await read(http, "/v1/tasks?limit=1000")
    while True:
        statuses |= {each["id"]: each["status"] for each in page["items"]}
        if page["next"] is None:
            return statuses
        page = await read(http, f"/v1/tasks?limit=1000&cursor={page['next']}")


async def look_at_rest(server: ServerProcess, load: Load) -> None:
    """Nothing runs, waits or holds a slot; no task and no call was lost."""
    async with aiohttp.ClientSession(server.url, headers=HEADERS) as http:
        async with asyncio.timeout(QUIET_LIMIT):
            while (await read(http, "/v1/calls"))["items"]:  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0.05)
        found = await read(http, "/v1/admission")
        assert found["metrics"]["current_concurrent"] == found["metrics"]["queue_length"] == 0
        assert (found["held"], found["waiting"]) == ([], [])
        # A killed server may have left one of which no client heard: it counts as dead once its
        # lease is over.
        async with asyncio.timeout(QUIET_LIMIT):
            for status in ("queued", "running", "input_required"):
                while (await read(http, f"/v1/tasks?status={status}"))["items"]:  # noqa: ASYNC110 - there is no event for it
                    await asyncio.sleep(0.05)
        statuses = await read_statuses(http)
        found_ends = Counter(statuses.get(each, "lost") for each in load.tasks)
        assert set(found_ends) <= {"succeeded", "cancelled"}, found_ends
        for call_id in sorted(load.calls)[-100:]:
            assert (await read(http, f"/v1/calls/{call_id}"))["state"] == "ended"


@pytest.mark.timeout(SECONDS + 300)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc here")
async def test_load(tmp_path: Path) -> None:
    """Servers are killed, ended and pressed: memory stays, and nothing is lost or left."""
    load = Load(seed=1)
    records = f"sqlite:///{tmp_path}/calls.db"
    words = ("--max-tasks", "1000000")
    async with server_process(tmp_path, *words, records=records) as server:
        await press_and_stop(server, load, SECONDS * KILLED, signal.SIGKILL)
    load.calls.clear()  # records are written in batches; tasks are kept before they are accepted
    async with server_process(tmp_path, *words, "--grace", "2", records=records) as server:
        await press_and_stop(server, load, SECONDS * ENDED, signal.SIGTERM)
    async with server_process(tmp_path, *words, records=records) as server:
        await press_steadily(server, load, SECONDS * (1 - KILLED - ENDED))
        await look_at_rest(server, load)
        assert await server.end() == (128 + signal.SIGTERM, "")
    assert len(load.done) == 10, load.done
    assert min(load.done.values()) >= 2, load.done
