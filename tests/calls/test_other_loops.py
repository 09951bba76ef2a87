"""A host may bring another event loop, or one that starts tasks eagerly: calls are the same."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tool_engine import (
    ConcurrencyConfig,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineEvent,
    ToolExecutionContext,
    ToolSession,
)

Factory = Callable[[], asyncio.AbstractEventLoop]


def plain_loop() -> asyncio.AbstractEventLoop:
    return asyncio.SelectorEventLoop()


def eager_loop() -> asyncio.AbstractEventLoop:
    if sys.version_info < (3, 12):
        pytest.skip("tasks begin eagerly from Python 3.12 on")
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


@pytest.mark.parametrize("factory", [plain_loop, eager_loop, uv_loop])
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
