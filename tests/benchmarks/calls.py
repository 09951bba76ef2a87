"""What do a call by hand and a call through the engine cost?"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import jsonschema

from tests.benchmarks.rows import Row
from tool_engine import ToolEngine, ToolEngineConfig, ToolEngineEvent

__all__ = ["BY_HAND", "ENGINE", "TIMEOUT", "engine_for", "engine_rows", "hand_rows"]

Tool = Callable[[int, int], Awaitable[int]]

BY_HAND = "Semaphore + timeout, by hand"
ENGINE = "tool_engine"
TIMEOUT = 30.0
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}


def hand_rows(tool: Tool) -> list[Row]:
    """What a careful user writes without a library, and the bare call as the floor."""
    semaphore = asyncio.Semaphore(10)
    validator = jsonschema.Draft202012Validator(SCHEMA)

    async def bare(n: int) -> None:
        for _ in range(n):
            await tool(1, 2)

    async def limited(n: int) -> None:
        for _ in range(n):
            async with semaphore, asyncio.timeout(TIMEOUT):
                await tool(1, 2)

    async def validated(n: int) -> None:
        for _ in range(n):
            params = {"a": 1, "b": 2}
            validator.validate(params)
            async with semaphore, asyncio.timeout(TIMEOUT):
                await tool(params["a"], params["b"])

    return [
        Row("raw await", "nothing: the floor", bare),
        Row(BY_HAND, "limit, deadline", limited),
        Row("the same + jsonschema", "limit, deadline, validation", validated),
    ]


async def engine_rows(stack: AsyncExitStack, tool: Tool, directory: str) -> list[Row]:
    """The whole pipeline, alone and with one subscriber, among the tools of `directory`."""
    everything = "look-up, validation, limit, queue, deadline, record, result"
    quiet = await engine_for(stack, tool, directory)
    heard = await engine_for(stack, tool, directory)
    heard.subscribe(_listen)

    async def alone(n: int) -> None:
        for _ in range(n):
            await quiet.execute("add", {"a": 1, "b": 2})

    async def with_subscriber(n: int) -> None:
        for _ in range(n):
            await heard.execute("add", {"a": 1, "b": 2})

    return [
        Row(ENGINE, everything, alone),
        Row("tool_engine, one subscriber", f"{everything}, events", with_subscriber),
    ]


def _listen(event: ToolEngineEvent) -> None:
    """A subscriber that costs nothing itself."""


async def engine_for(stack: AsyncExitStack, tool: Tool, directory: str) -> ToolEngine:
    """An engine with `tool` as `add`, among the tools of `directory`."""
    config = ToolEngineConfig(tools_directory=directory, auto_reload=False)
    engine = await stack.enter_async_context(ToolEngine(config))
    engine.tool(name="add")(tool)
    result = await engine.execute("add", {"a": 1, "b": 2})
    if result.output != {"result": 3}:
        raise AssertionError(f"the engine is wrong: {result}")
    return engine
