"""What blocks runs in a thread of its own, and a cancellation waits for its end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.commands.own_thread import OwnThread
from tool_engine.executors.commands.supervisor import Bell

BOUND = 10.0


class Work(OwnThread[str]):
    def __init__(self, function: Callable[[Bell], str], timeout: float | None = None) -> None:
        super().__init__(timeout)
        self.function = function
        self.deadline: float | None = 0.0

    def work(self, deadline: float | None, bell: Bell) -> str:
        self.deadline = deadline
        return self.function(bell)


async def test_value_and_error() -> None:
    """What the work returns or raises reaches whoever waits; it knows its deadline."""
    work = Work(lambda _: "done")
    async with asyncio.timeout(BOUND):
        assert await work.run() == "done"
        assert work.deadline is None
        timed = Work(lambda _: str(1 // 0), 5.0)
        with pytest.raises(ZeroDivisionError):
            await timed.run()
        assert timed.deadline is not None


async def test_cancellation_rings_and_waits() -> None:
    """C10: a cancelled run ends when its work has heard the bell; a second one rings again."""
    began, ended, rings = threading.Event(), threading.Event(), []

    def work(bell: Bell) -> str:
        began.set()
        while bell.rings < 2:
            bell.listen()
        rings.append(bell.rings)
        ended.set()
        return "too late"

    task = asyncio.create_task(Work(work).run())
    await asyncio.to_thread(began.wait, BOUND)
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0.01)
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(BOUND):
            await task
    assert ended.is_set()
    assert rings == [2]


async def test_closed_coroutine() -> None:
    """A run whose coroutine is closed rings, and does not wait."""
    heard = threading.Event()

    def work(bell: Bell) -> str:
        while not bell.listen():
            pass
        heard.set()
        return ""

    coroutine = Work(work).run()
    coroutine.send(None)
    coroutine.close()
    assert await asyncio.to_thread(heard.wait, BOUND)


async def test_no_thread_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has used up its threads says so."""

    def refuse(_thread: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(ToolExecutionError, match="run fewer calls at once"):
        await Work(lambda _: "").run()
