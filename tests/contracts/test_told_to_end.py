"""What does a tool still do by other tools once it was told to end?

A coroutine may catch its cancellation and go on; its caller waits for it. Its own work is its
author's, but it calls nothing more. Looked at: a caller that is cancelled, a deadline, an engine
that closes, a newer call that takes its place; calls in the tool's own task, in tasks, by the
engine, and by another engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tool_engine import (
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
    ToolSubAgent,
    UnboundContextError,
)

LIMIT = 20.0


class World:
    """A tool that goes on, and the mails that it has sent since it was told to end."""

    def __init__(self) -> None:
        self.engine = ToolEngine(ToolEngineConfig(auto_reload=False, close_timeout=0.05))
        self.other = ToolEngine(ToolEngineConfig(auto_reload=False))
        self.sent = 0
        self.refused = 0
        self.began = asyncio.Event()
        for engine in (self.engine, self.other):
            engine.register_tool({"name": "mail", "description": "M."}, self.mail)

    async def mail(self) -> None:
        self.sent += 1

    def define(self, send: Callable[[World, ToolExecutionContext], Awaitable[Any]]) -> None:
        async def stubborn(context: ToolExecutionContext) -> None:
            self.began.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                for _ in range(5):
                    try:
                        await send(self, context)
                    except (UnboundContextError, asyncio.CancelledError):
                        self.refused += 1

        tool = {"name": "stubborn", "description": "S.", "timeout": 0.2}
        tool["concurrency"] = {"key": "tool", "key_limit": 1, "collision": "cancel_in_progress"}
        self.engine.register_tool(tool, stubborn)


async def by_context(world: World, context: ToolExecutionContext) -> None:
    await context.call("mail")


async def by_engine(world: World, context: ToolExecutionContext) -> None:
    await world.engine.execute("mail")


async def by_context_of_engine(world: World, context: ToolExecutionContext) -> None:
    await world.engine.execute("mail", {}, context)


async def by_task(world: World, context: ToolExecutionContext) -> None:
    await asyncio.create_task(context.call("mail"))


async def by_another_engine(world: World, context: ToolExecutionContext) -> None:
    await world.other.execute("mail")


async def by_agent(world: World, context: ToolExecutionContext) -> None:
    results = await ToolSubAgent("agent", world.engine).execute_batch([("mail", {})])
    if not results[0].is_success:
        raise UnboundContextError(results[0].error or "")


WAYS = (by_context, by_engine, by_context_of_engine, by_task, by_another_engine, by_agent)


async def cancel(world: World, call: asyncio.Task[Any]) -> None:
    call.cancel()


async def wait(world: World, call: asyncio.Task[Any]) -> None:
    """Nothing but the deadline ends it."""


async def replace(world: World, call: asyncio.Task[Any]) -> None:
    world.began.clear()
    newer = asyncio.create_task(world.engine.execute("stubborn"))
    await world.began.wait()
    newer.cancel()
    await asyncio.wait([newer])


async def close(world: World, call: asyncio.Task[Any]) -> None:
    await world.engine.close()


@pytest.mark.parametrize("end", [cancel, wait, replace, close])
@pytest.mark.parametrize("send", WAYS)
async def test_it_calls_nothing_more(
    send: Callable[[World, ToolExecutionContext], Awaitable[Any]],
    end: Callable[[World, asyncio.Task[Any]], Awaitable[None]],
) -> None:
    """No mail goes out after the end was asked for; the tool is told why."""
    world = World()
    world.define(send)
    async with asyncio.timeout(LIMIT):
        call = asyncio.create_task(world.engine.execute("stubborn"))
        await world.began.wait()
        await end(world, call)
        await asyncio.wait([call])
        await world.engine.close()
        await world.other.close()
    assert world.sent == 0
    assert world.refused >= 5


async def test_its_own_cancellation_is_no_end() -> None:
    """A tool that gives up a wait of its own, by a timeout, goes on calling."""
    world = World()

    async def patient(context: ToolExecutionContext) -> None:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        except TimeoutError:
            await context.call("mail")

    world.engine.register_tool({"name": "patient", "description": "P."}, patient)
    assert (await world.engine.execute("patient")).is_success
    assert world.sent == 1
    await world.engine.close()
    await world.other.close()
