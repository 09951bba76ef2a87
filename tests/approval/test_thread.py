"""How is somebody waited for in a thread?"""

from __future__ import annotations

import asyncio
import contextvars
import threading

import pytest

from tool_engine.approval.thread import in_own_thread

BOUND = 10.0


def fail(error: BaseException) -> None:
    raise error


async def test_what_comes_back() -> None:
    """The value, or what was raised; the context of the caller is that of the thread."""
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    variable.set("mine")
    async with asyncio.timeout(BOUND):
        assert await in_own_thread(lambda word: (word, variable.get()), "a") == ("a", "mine")
        with pytest.raises(OSError, match="gone"):
            await in_own_thread(fail, OSError("gone"))
        # A future cannot hold it.
        with pytest.raises(RuntimeError, match="StopIteration"):
            await in_own_thread(fail, StopIteration())


async def test_nobody_listens_any_more() -> None:
    """What a thread says after its caller was cancelled is dropped."""
    said = threading.Event()
    waiting = asyncio.create_task(in_own_thread(said.wait, BOUND))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    said.set()
    assert waiting.cancelled()
    # The loop goes on, also after the thread has spoken.
    async with asyncio.timeout(BOUND):
        assert await in_own_thread(int) == 0


def test_the_loop_is_gone() -> None:
    """A thread that comes back too late harms nobody, and its program need not wait for it."""
    said, over = threading.Event(), threading.Event()

    def speak() -> None:
        said.wait(BOUND)
        over.set()

    async def leave() -> set[threading.Thread]:
        before = set(threading.enumerate())
        waiting = asyncio.create_task(in_own_thread(speak))
        await asyncio.sleep(0)
        waiting.cancel()
        return set(threading.enumerate()) - before

    (thread,) = asyncio.run(leave())
    assert thread.daemon
    said.set()
    thread.join(BOUND)
    assert over.is_set()
    assert not thread.is_alive()
