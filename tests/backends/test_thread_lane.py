"""Does work in threads always end for whoever waits for it?"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tool_engine.backends.threads import ThreadLane

BOUND = 10.0


async def run(lane: ThreadLane, function: Any) -> Any:
    async with asyncio.timeout(BOUND):
        return await lane.run(function)


async def test_values_and_errors() -> None:
    """K27: what the function returns or raises reaches whoever waits."""
    lane = ThreadLane()
    assert await run(lane, lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await run(lane, lambda: 1 / 0)
    lane.close()


async def test_cancellation_is_kept_until_the_end() -> None:
    """C10: whoever is cancelled while the thread works is so once it has ended."""
    lane = ThreadLane()
    started, go = threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        assert go.wait(BOUND)

    task = asyncio.create_task(lane.run(work))
    await asyncio.to_thread(started.wait, BOUND)
    task.cancel()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not task.done()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(BOUND):
            await task
    lane.close()


async def test_closed_lane_lets_go() -> None:
    """C24: once the lane is closed, a cancellation ends the wait though the thread goes on."""
    lane = ThreadLane()
    started, go = threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        assert go.wait(BOUND)

    task = asyncio.create_task(lane.run(work))
    await asyncio.to_thread(started.wait, BOUND)
    lane.close()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(BOUND):
            await task
    go.set()


async def test_work_after_close() -> None:
    """C24: work that comes after the end is done all the same, and its thread ends."""
    lane = ThreadLane()
    assert await run(lane, lambda: 1) == 1
    await asyncio.to_thread(lambda: None)
    lane.close()
    for number in range(3):
        assert await run(lane, lambda number=number: number) == number
