"""A server of FastMCP, as a program: over standard input and output."""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

fastmcp: Any = import_module("fastmcp")
server: Any = fastmcp.FastMCP("fast", version="1.0")
MARK = Path(sys.argv[1])
"""The file that says how far the slow tool came."""


async def person(name: str) -> dict[str, Any]:
    """Returns data."""
    return {"name": name, "größe": [1, 2.5, None]}


async def picture() -> Any:
    """Returns an image."""
    return import_module("fastmcp.utilities.types").Image(data=b"\x89PNG", format="png")


async def fail() -> str:
    """Fails."""
    raise ValueError("the disk is full")


async def steps(ctx: Any, most: int) -> str:
    """Reports progress, and writes lines."""
    for number in range(1, most + 1):
        await ctx.report_progress(number, most, f"step {number}")
        await ctx.info(f"line {number}")
    return "done"


async def slow() -> str:
    """Takes very long."""
    MARK.write_text("begun")  # noqa: ASYNC240 - it does nothing else
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        MARK.write_text("given up")  # noqa: ASYNC240 - it ends then
        raise
    return "never"


async def ask(ctx: Any) -> str:
    """Asks a person."""
    return str(await ctx.elicit("What is your name?", response_type=str))


async def grow(ctx: Any) -> str:
    """Adds a tool."""
    server.tool(person, name="late")
    await ctx.send_notification(import_module("mcp_types").ToolListChangedNotification())
    return "grown"


if __name__ == "__main__":
    for reporting in (steps, ask, grow):
        reporting.__annotations__["ctx"] = fastmcp.Context
    for function in (person, picture, fail, steps, slow, ask, grow):
        server.tool(function)
    server.run(show_banner=False)
