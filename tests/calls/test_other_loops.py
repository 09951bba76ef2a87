"""A host may bring another event loop, or one that starts tasks eagerly: calls are the same."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from tool_engine import (
    ConcurrencyConfig,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineError,
    ToolEngineEvent,
    ToolExecutionContext,
    ToolSession,
)

Factory = Callable[[], asyncio.AbstractEventLoop]


def plain_loop() -> asyncio.AbstractEventLoop:
    return asyncio.SelectorEventLoop()


def secretive_loop() -> asyncio.AbstractEventLoop:
    """A loop that does not say in which thread it runs, as of another framework."""

    class SecretiveLoop(asyncio.SelectorEventLoop):
        _thread_id = property(lambda self: None, lambda self, value: None)

    return SecretiveLoop()


def eager_loop() -> asyncio.AbstractEventLoop:
    if sys.version_info < (3, 12):
        pytest.skip(reason="tasks begin eagerly from Python 3.12 on only")
    loop = asyncio.SelectorEventLoop()
    loop.set_task_factory(asyncio.eager_task_factory)
    return loop


def uv_loop() -> asyncio.AbstractEventLoop:
    uvloop = pytest.importorskip("uvloop", reason="the extra uvloop is not installed")
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


class Turns:
    """An engine with a limit of one call, and tools that wait for a signal."""

    def __init__(self, folder: Any) -> None:
        limits = ConcurrencyConfig(max_concurrent=1)
        config = ToolEngineConfig(
            tools_directory=str(folder), auto_reload=False, concurrency=limits
        )
        self.engine = ToolEngine(config)
        self.go, self.began, self.queued = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.cleaned: list[str] = []
        self.heard: list[str] = []
        self.engine.tool(name="add", description="Add.")(self.add)
        self.engine.tool(name="wait", description="Wait.")(self.wait)
        self.engine.tool(name="nest", description="Nest.")(self.nest)

    def hear(self, event: ToolEngineEvent) -> None:
        self.heard.append(event.event_type.value)
        if self.heard[-1] == "execution_queued":
            self.queued.set()

    async def add(self, a: int, b: int) -> int:
        return a + b

    async def wait(self, name: str) -> str:
        self.began.set()
        try:
            await self.go.wait()
        finally:
            self.cleaned.append(name)
        return name

    async def nest(self, depth: int) -> Any:
        if not depth:
            return asyncio.current_task() is not None
        # In a task of its own, whose first step an eager loop takes at once.
        inner = await asyncio.create_task(self.engine.execute("nest", {"depth": depth - 1}))
        return inner.output["result"]

    async def run(self) -> dict[str, Any]:
        async with self.engine as engine:
            engine.subscribe(self.hear)
            said: dict[str, Any] = {"sum": (await engine.execute("add", {"a": 1, "b": 2})).output}
            said["nested"] = (await engine.execute("nest", {"depth": 3})).output
            first = asyncio.create_task(engine.execute("wait", {"name": "first"}))
            second = asyncio.create_task(engine.execute("add", {"a": 2, "b": 2}))
            await self.began.wait()
            await self.queued.wait()
            said["waits"] = not second.done()
            self.go.set()
            said["both"] = [(await first).output, (await second).output]
            self.go.clear()
            brief = ToolExecutionContext(timeout=0.01)
            said["late"] = (await engine.execute("wait", {"name": "late"}, brief)).error_type
            self.began.clear()
            cancelled = asyncio.create_task(engine.execute("wait", {"name": "cancelled"}))
            await self.began.wait()
            cancelled.cancel()
            said["cancelled"] = (await asyncio.gather(cancelled, return_exceptions=True))[0]
            said["session"] = (
                await ToolSession(engine, "ann").execute("add", {"a": 3, "b": 4})
            ).final_text
            records = await engine.store.query_call_records()
            said["records"] = sorted((each.tool_name, each.outcome.value) for each in records)
            said["held"] = engine.controller.snapshot().metrics.current_concurrent
        return said


@pytest.mark.parametrize("factory", [plain_loop, secretive_loop, eager_loop, uv_loop])
def test_calls(tmp_path: Any, factory: Factory) -> None:
    """Limits, waits, nested calls, deadlines, cancellation, sessions, records and events."""
    loop = factory()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        turns: list[Turns] = []

        async def begin() -> dict[str, Any]:
            turns.append(Turns(tmp_path))
            return await turns[0].run()

        said = runner.run(begin())
    assert isinstance(said.pop("cancelled"), asyncio.CancelledError)
    assert said == {
        "sum": {"result": 3},
        "nested": {"result": True},
        "waits": True,
        "both": [{"result": "first"}, {"result": 4}],
        "late": "timeout",
        "session": "7",
        "records": [
            *[("add", "succeeded")] * 3,
            *[("nest", "succeeded")] * 4,
            ("wait", "cancelled"),
            ("wait", "succeeded"),
            ("wait", "timeout"),
        ],
        "held": 0,
    }
    assert turns[0].cleaned == ["first", "late", "cancelled"]
    assert turns[0].heard.count("execution_completed") == 8


class FirstTurns:
    """Tools with 20 ms that block, wait and ask for turns in every order."""

    def __init__(self, folder: Any) -> None:
        config = ToolEngineConfig(tools_directory=str(folder), auto_reload=False)
        self.engine = ToolEngine(config)
        self.pieces = 0
        self.engine.tool(name="turns", description="Ask for turns.", timeout=0.02)(self.turns)

    async def turns(self, before: int, seconds: float, after: int, nap: float) -> str:
        self.pieces = 0
        for _ in range(before):
            await asyncio.sleep(0)
        time.sleep(seconds)  # noqa: ASYNC251 - it blocks
        for _ in range(after):
            self.pieces += 1
            await asyncio.sleep(0)
        await asyncio.sleep(nap)
        return "ended"

    async def run(self) -> list[str | None]:
        endless, said = 10_000_000, []
        async with self.engine as engine:
            for before, seconds, after, nap in (
                (0, 0, endless, 0),
                (0, 0.05, endless, 0),
                (1, 0.05, endless, 0),
                (3, 0.05, endless, 0),
                (0, 0.05, 0, 60),
                (1, 0.05, 0, 60),
                (2, 0.05, 0, 60),
                (0, 0, 1, 0),
            ):
                sent = {"before": before, "seconds": seconds, "after": after, "nap": nap}
                said.append((await engine.execute("turns", sent)).error_type)
                assert not seconds or self.pieces <= 2
            assert engine.controller.snapshot().metrics.current_concurrent == 0
        return said


@pytest.mark.parametrize("factory", [plain_loop, secretive_loop, eager_loop, uv_loop])
def test_deadlines_of_first_turns(tmp_path: Any, factory: Factory) -> None:
    """A deadline ends a tool that asks for turns, in whatever order a loop takes its timers."""
    with asyncio.Runner(loop_factory=factory) as runner:

        async def begin() -> list[str | None]:
            return await FirstTurns(tmp_path).run()

        assert runner.run(begin()) == ["timeout"] * 7 + [None]


def test_a_call_that_began_before_the_engine_moved(tmp_path: Any) -> None:
    """A call that waited for its slot runs on the loop that it began on."""
    turns = Turns(tmp_path)
    engine = turns.engine
    are_own: list[bool] = []

    async def look() -> None:
        await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None
        are_own.append(task.get_name().startswith("tool:"))

    engine.tool(name="look", description="Look.", concurrency={"bucket": "narrow"})(look)

    async def begin() -> list[asyncio.Task[Any]]:
        await engine.execute("look")
        calls = [asyncio.create_task(engine.execute("wait", {"name": "first"}))]
        calls.append(asyncio.create_task(engine.execute("look")))
        await turns.began.wait()
        await asyncio.sleep(0)
        return calls

    async def finish(calls: list[asyncio.Task[Any]]) -> None:
        turns.go.set()
        results = await asyncio.gather(*calls)
        assert all(each.is_success for each in results)

    async def peek() -> None:
        assert (await engine.execute("gone")).error_type == "tool_not_found"

    with asyncio.Runner() as first, asyncio.Runner() as second:
        calls = first.run(begin())
        second.run(peek())
        first.run(finish(calls))
        assert are_own == [True, True]
        first.run(engine.close())


async def test_a_loop_that_runs_within_the_engines_loop(tmp_path: Any) -> None:
    """A host may let one run there, as notebooks do: no call takes it for the engine's."""
    turns = Turns(tmp_path)
    async with turns.engine as engine:
        assert (await engine.execute("add", {"a": 1, "b": 2})).is_success
        inner = asyncio.new_event_loop()
        outer = asyncio.get_running_loop()
        asyncio._set_running_loop(None)
        try:
            with pytest.raises(ToolEngineError, match="waits for this one"):
                inner.run_until_complete(engine.execute("add", {"a": 1, "b": 2}))
        finally:
            asyncio._set_running_loop(outer)
            inner.close()
        assert (await engine.execute("add", {"a": 1, "b": 2})).is_success
