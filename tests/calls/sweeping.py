"""Who takes part in the cancellation sweeps of the engine?"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from tests.calls.audit import Audit, check_idle, make_engine
from tests.calls.cancel_driver import Stage
from tests.calls.samples import bare
from tool_engine import ToolEngine, ToolExecutionContext

__all__ = [
    "Call",
    "Flaky",
    "Guest",
    "busy_engine",
    "fail",
    "long",
    "open_on",
    "outer",
    "slow",
    "succeed",
    "tidy",
]

Call = Coroutine[Any, Any, Any]


class Guest:
    """Asserts that nothing is left in an engine, and that a hundred calls pass."""

    def __init__(self, engine: ToolEngine) -> None:
        self.engine = engine
        self.audit = Audit(engine)

    async def check(self, *, was_shut: bool) -> None:
        await self.audit.check()
        self.audit.unsubscribe()
        if was_shut:
            await self.engine.close()
            assert (await self.engine.execute("quick")).error_type == "engine_closed"
            return
        async with asyncio.timeout(100.0), asyncio.TaskGroup() as group:
            for _ in range(90):
                await succeed(self.engine, "quick")
            for _ in range(10):
                group.create_task(succeed(self.engine, "nap"))
        check_idle(self.engine)
        await self.engine.close()


async def quick() -> str:
    return "quick"


async def nap() -> str:
    await asyncio.sleep(0)
    return "nap"


async def slow() -> str:
    await asyncio.sleep(0)
    await asyncio.sleep(1.0)
    return "slow"


async def long() -> str:
    await asyncio.sleep(5.0)
    return "long"


async def tidy() -> str:
    """Takes a moment to end when it is cancelled."""
    try:
        await asyncio.sleep(1.0)
    finally:
        await asyncio.sleep(0.25)
    return "tidy"


async def grouping() -> None:
    """Waits for tasks of its own."""
    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(asyncio.sleep(1.0))


class Flaky:
    """Succeeds the third time."""

    def __init__(self) -> None:
        self.runs = 0

    async def __call__(self) -> str:
        self.runs += 1
        await asyncio.sleep(1.0)
        if self.runs % 3:
            raise ValueError("flaky")
        return "at last"


async def outer(context: ToolExecutionContext) -> bool:
    return (await context.call("middle")).is_success


async def middle(context: ToolExecutionContext) -> bool:
    return (await context.call("slow")).is_success


async def gathering(context: ToolExecutionContext) -> None:
    await asyncio.gather(*(context.call("slow") for _ in range(2)))


async def tasking(context: ToolExecutionContext) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(context.call("slow"))


TOOLS = {
    each.__name__: each
    for each in (quick, nap, slow, long, tidy, grouping, outer, middle, gathering, tasking)
}


def open_on(stage: Stage, max_concurrent: int = 1, **config: Any) -> ToolEngine:
    """An engine whose waiters wait as long as it takes, unless `config` says otherwise."""
    engine = make_engine(max_concurrent, **{"queue_timeout": None, **config})
    for name, tool in TOOLS.items():
        engine.register_tool(bare(name), tool)
    retry = {"attempts": 3, "backoff": 2.0}
    engine.register_tool(bare("flaky", effect="read", retry=retry), Flaky())
    stage.guests.append(Guest(engine))
    return engine


async def succeed(engine: ToolEngine, name: str) -> None:
    result = await engine.execute(name)
    assert result.is_success, result


async def fail(engine: ToolEngine, name: str, error_type: str, **how: Any) -> None:
    result = await engine.execute(name, {}, ToolExecutionContext(**how) if how else None)
    assert result.error_type == error_type, result


def busy_engine(stage: Stage, **config: Any) -> ToolEngine:
    """An engine with one slot, that another call holds for a second, while more want it later."""
    engine = open_on(stage, **config)
    stage.beside(succeed, engine, "slow")
    for _ in range(2):
        stage.beside(succeed, engine, "slow", at=0.5)
    return engine
