"""How does an engine that is served end, and how at a second signal?"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tool_engine.cli.settings import hurried_by

if TYPE_CHECKING:
    from tool_engine.engine import ToolEngine


async def serve_while_open(
    made: AbstractAsyncContextManager[ToolEngine],
    serve: Callable[[ToolEngine], Awaitable[object]],
) -> None:
    """Serve an engine while it is open; a second signal leaves its calls no more time."""
    task: Any = asyncio.current_task()
    served: list[ToolEngine] = []

    def hurry() -> None:
        if served:
            # What waits in line would take the places of what ends.
            served[0].controller.pause()
            served[0]._pipeline.abort()  # noqa: SLF001 - as its closing does, when its time is over
            # What takes no cancelling keeps its slot, for which its closing would wait.
            served[0].config = replace(served[0].config, close_timeout=0.1)
        if is_serving:
            task.cancel()

    is_serving = True
    with hurried_by(hurry):
        async with made as engine:
            served.append(engine)
            try:
                await serve(engine)
            finally:
                # From here on it closes, which is not to be cancelled: its tasks are written.
                is_serving = False
