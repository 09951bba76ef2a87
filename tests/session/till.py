"""A tool that pays, which the tests of consent watch: what it was sent is what was allowed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.session.catalogs import definition, engine_over, write
from tool_engine.engine import ToolEngine
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool

BOUND = 20.0


class Till:
    """Runs `pay` when it may, and knows what it was sent."""

    def __init__(self) -> None:
        self.ran: list[tuple[Any, ...]] = []
        """Version and arguments of each call."""
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.fails = 0
        """How often it fails yet."""

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> dict[str, Any]:
        self.ran.append((tool.version, *params.values()))
        await self.may_end.wait()
        if self.fails:
            self.fails -= 1
            raise RuntimeError("out of paper")
        return {"paid": params["to"]}


def payment(parameters: list[dict[str, Any]], **keys: Any) -> dict[str, Any]:
    """The definition of `pay`, which somebody is asked about."""
    entry = {"type": "custom", "handler": "till"}
    return definition("pay", parameters=parameters, entry=entry) | keys


@asynccontextmanager
async def engine_with(
    till: Till, folder: Path, *definitions: dict[str, Any]
) -> AsyncIterator[ToolEngine]:
    """An engine over these definitions, whose payments the till makes."""
    write(folder, *definitions)
    async with asyncio.timeout(BOUND), engine_over(folder) as engine:
        engine.register_executor("till", till)
        yield engine
