"""What runs for a client, and is cancelled once when the client gives it up?

The SDK cancels the task of a request anew at each turn of the loop until that ends. A tool that
tidies up with an `await` could not, and one that goes on would spin until its deadline. So what is
of others runs in a task of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import mcp_types as types
from mcp.shared.exceptions import MCPError

_T = TypeVar("_T")


class OwnTasks:
    """The tasks of one server in which tools, and other functions of a program, run."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_closing = False

    def start(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Start work that the close of the server cancels."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Return what the work does; what cancels this cancels the work, once."""
        task = self.start(work)
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            task.cancel()
            raise
        return self.read_result(task)

    def read_result(self, task: asyncio.Task[_T]) -> _T:
        """Return what some work did.

        Raises:
            MCPError: It was cancelled, as what belongs to a call of a program that has this server
                in memory. To the SDK its cancellation would be the end of the server.
        """
        if task.cancelled() and not self._is_closing:
            raise MCPError(types.INTERNAL_ERROR, "the call was cancelled")
        return task.result()

    async def close(self) -> None:
        """Cancel all that is left, and wait for its end."""
        tasks = list(self._tasks)
        for task in tasks:
            # What its client has given up is tidying up.
            if not task.cancelling():
                task.cancel()
        self._is_closing = True
        try:
            if tasks:
                await asyncio.wait(tasks)
        finally:
            # It may be served once more.
            self._is_closing = False
