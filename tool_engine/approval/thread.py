"""How does a thread wait for a person without blocking loop or exit?

Such a thread cannot be ended. It is a daemon, so that the program can end, and its answer is
dropped when no task listens any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, Final, TypeVar

T = TypeVar("T")
_NAME: Final = "tool-engine-approver"


async def in_own_thread(function: Callable[..., T], *args: Any) -> T:
    """Run `function` in a daemon thread; a `StopIteration` becomes a `RuntimeError`."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = copy_context()

    def settle(value: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if isinstance(error, StopIteration):
            error = RuntimeError(f"the function raised {error!r}")
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def work() -> None:
        value, error = None, None
        try:
            value = context.run(function, *args)
        except BaseException as raised:  # noqa: BLE001 - the task that waits gets it
            error = raised
        # A closed loop has no task that waits.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=work, name=_NAME, daemon=True).start()
    return await future
