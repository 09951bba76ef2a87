"""A database with some calls, made by a real engine, for the commands that look at records."""

import asyncio
from pathlib import Path
from typing import Any

from tool_engine.config import ToolEngineConfig
from tool_engine.engine import ToolEngine
from tool_engine.errors import ToolExecutionError
from tool_engine.model.call import ToolExecutionContext

HOSTILE = "\x1b[31mred\x07\u202etxt"


async def _calls(folder: Path, url: str) -> None:
    config = ToolEngineConfig(tools_directory=str(folder), auto_reload=False, records=url)
    async with ToolEngine(config) as engine:

        @engine.tool(name="inner")
        async def inner(number: int, token: str = "") -> int:
            """Returns it."""
            return number

        @engine.tool(name="outer")
        async def outer(numbers: int, context: ToolExecutionContext) -> str:
            """Calls inner several times."""
            for number in range(numbers):
                await context.call("inner", {"number": number, "token": "made-up-secret"})
            return "x" * 3_000

        @engine.tool(name="broken")
        async def broken(text: str) -> None:
            """Fails."""
            raise ToolExecutionError(f"cannot\n{text}")

        one = ToolExecutionContext.for_conversation("agent-1", "chat-1")
        two = ToolExecutionContext.for_conversation("agent-2", "chat-2")
        await engine.execute("outer", {"numbers": 2}, one)
        await engine.execute("broken", {"text": HOSTILE}, two)
        await engine.execute(f"no{HOSTILE}", {}, two)
        await engine.execute("inner", {"number": 7}, one)


def record_calls(folder: Path) -> str:
    """Makes six calls, two of which fail; returns the URL of their records."""
    empty = folder / "empty"
    empty.mkdir(exist_ok=True)
    url = f"sqlite:///{folder / 'calls.db'}"
    asyncio.run(_calls(empty, url))
    return url


def lines_of(text: str) -> list[dict[str, Any]]:
    """The JSON documents of some lines."""
    import json

    return [json.loads(line) for line in text.splitlines()]
