"""Does work in threads always end for whoever waits for it?"""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from typing import Any

import pytest

from tool_engine.backends.local import ThreadLane

BOUND = 10.0


async def run(lane: ThreadLane, function: Any) -> Any:
    async with asyncio.timeout(BOUND):
        return await lane.run(function)


async def test_values_and_errors() -> None:
    """K27: what the function returns or raises reaches whoever waits."""
    lane = ThreadLane(4)
    assert await run(lane, lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await run(lane, lambda: 1 / 0)
    lane.close()


async def test_cancellation_is_kept_until_the_end() -> None:
    """C10: whoever is cancelled while the thread works is so once it has ended."""
    lane = ThreadLane(4)
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
    lane = ThreadLane(4)
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
    lane = ThreadLane(4)
    assert await run(lane, lambda: 1) == 1
    await asyncio.to_thread(lambda: None)
    lane.close()
    for number in range(3):
        assert await run(lane, lambda number=number: number) == number


async def test_limit() -> None:
    """R9: work beyond the limit waits for a thread, in the order in which it came."""
    lane = ThreadLane(2)
    go, began = threading.Event(), threading.Semaphore(0)
    order: list[int] = []

    def work(number: int) -> None:
        order.append(number)
        began.release()
        assert go.wait(BOUND)

    tasks = [asyncio.create_task(run(lane, lambda n=n: work(n))) for n in range(6)]
    for _ in range(2):
        await asyncio.to_thread(began.acquire, timeout=BOUND)
    assert sorted(order) == [0, 1]
    assert "threads=2, idle=0, waiting=4" in repr(lane)
    go.set()
    async with asyncio.timeout(BOUND):
        await asyncio.gather(*tasks)
    assert sorted(order[2:]) == [2, 3, 4, 5]
    assert repr(lane).startswith("ThreadLane(limit=2, threads=2")
    lane.close()


async def test_what_has_not_begun_is_given_up_at_once() -> None:
    """C10: a call that is cancelled while it waits for a thread ends, and is never run."""
    lane = ThreadLane(1)
    go, began, ran = threading.Event(), threading.Event(), threading.Event()

    def block() -> None:
        began.set()
        assert go.wait(BOUND)

    first = asyncio.create_task(run(lane, block))
    await asyncio.to_thread(began.wait, BOUND)
    second = asyncio.create_task(run(lane, ran.set))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(BOUND):
            await second
    go.set()
    await first
    assert await run(lane, lambda: 7) == 7
    assert not ran.is_set()
    lane.close()


async def test_what_a_thread_waits_for_does_not_wait() -> None:
    """C9: work that a busy thread may be waiting for goes past the limit, and past the line."""
    lane = ThreadLane(1)
    loop = asyncio.get_running_loop()

    def nest(depth: int) -> int:
        if depth == 0:
            return 0
        inner = lane.run(lambda: nest(depth - 1), may_wait=False)
        return 1 + int(asyncio.run_coroutine_threadsafe(inner, loop).result(BOUND))

    outer = [asyncio.create_task(run(lane, lambda: nest(5))) for _ in range(3)]
    async with asyncio.timeout(BOUND):
        assert await asyncio.gather(*outer) == [5, 5, 5]
    lane.close()


async def test_no_thread_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that cannot be started is not counted as one that runs."""

    def refuse(_thread: object) -> None:
        raise RuntimeError("can't start new thread")

    lane = ThreadLane(1)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        await run(lane, lambda: 1)
    monkeypatch.undo()
    assert await run(lane, lambda: 1) == 1
    lane.close()


class _Caller:
    """Whoever called, such as a conversation with all that it keeps."""

    def told(self) -> int:
        return 1


async def test_an_idle_thread_keeps_nobody_alive() -> None:
    """S35: what a thread did first, and last, is forgotten when it is done."""
    lane = ThreadLane(limit=1)
    callers = [_Caller(), _Caller()]
    gone = [weakref.ref(each) for each in callers]
    while callers:
        assert await run(lane, callers.pop().told) == 1
    # The thread has told the end of its work a moment before it forgets it.
    async with asyncio.timeout(BOUND):
        while any(each() is not None for each in gone):
            gc.collect()
            await asyncio.sleep(0)
    lane.close()
