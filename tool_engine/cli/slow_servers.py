"""What does a command say while a server takes long to start?"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Final

from tool_engine.engine import ToolEngine
from tool_engine.visible import escape_hidden

_PATIENCE: Final = 10.0
"""Seconds that a command may take without a word."""
_CONNECTING: Final = "is being connected"
"""The state of a server whose first try goes on, as `Connection.state` words it."""


@contextlib.contextmanager
def warn_of_slow_servers(engine: ToolEngine) -> Iterator[None]:
    """Say on standard error which servers the code inside waits for, if that takes long."""

    async def warn() -> None:
        silent: list[str] = []
        while not silent:
            # Before servers begin to start, definitions are read.
            await asyncio.sleep(_PATIENCE)
            silent = [each.name for each in engine.list_mcp_servers() if each.state == _CONNECTING]
        names = ", ".join(map(repr, silent))
        sys.stderr.write(escape_hidden(f"waiting for {names} to start; Ctrl-C gives up") + "\n")

    warning = asyncio.get_running_loop().create_task(warn())
    try:
        yield
    finally:
        warning.cancel()


@contextlib.asynccontextmanager
async def open_with_servers(engine: ToolEngine) -> AsyncIterator[ToolEngine]:
    """Open an engine, and say on standard error which servers it waits for."""
    async with contextlib.AsyncExitStack() as stack:
        with warn_of_slow_servers(engine):
            await stack.enter_async_context(engine)
        yield engine
