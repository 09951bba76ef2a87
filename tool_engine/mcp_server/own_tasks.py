"""What runs for a client, and is cancelled once when the client gives it up?

The SDK cancels the task of a request anew at each turn of the loop until that ends. A tool that
tidies up with an `await` could not, and one that goes on would spin until its deadline. So what is
of others runs in a task of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


class OwnTasks:
    """The tasks of one server in which tools, and other functions of a program, run."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

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
        return task.result()

    async def close(self) -> None:
        """Cancel all that is left, and wait for its end."""
        tasks = list(self._tasks)
        for task in tasks:
            # What its client has given up is tidying up.
            if not task.cancelling():
                task.cancel()
        if tasks:
            await asyncio.wait(tasks)
