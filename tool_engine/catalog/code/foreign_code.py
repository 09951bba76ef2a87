"""Where do validators of a tool's author run, which may take long or never end?"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, TypeVar

_T = TypeVar("_T")


async def run_in_thread(function: Callable[[], _T]) -> _T:
    """Run `function` in a thread of its own, and wait until it has ended.

    The event loop goes on meanwhile. A cancellation is kept until the end, because nothing can stop
    a thread: the call has its result by its deadline, and its slot when the thread is through.
    The thread is a daemon, so that one that never ends does not keep the program from ending.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    context = copy_context()

    def work() -> None:
        try:
            outcome: tuple[Any, BaseException | None] = context.run(function), None
        except BaseException as error:  # noqa: BLE001 - it travels to the caller
            outcome = None, error
        try:
            loop.call_soon_threadsafe(_settle_future, future, outcome)
        except RuntimeError:  # the loop is closed: no task is left to hear of it
            return

    threading.Thread(target=work, name="tool-validation", daemon=True).start()
    value, error = await _wait_for(future)
    if error is not None:
        raise error
    result: _T = value
    return result


async def _wait_for(
    future: asyncio.Future[tuple[Any, BaseException | None]],
) -> tuple[Any, BaseException | None]:
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as cancellation:
            cancelled = cancellation
    if cancelled is not None:
        raise cancelled
    return future.result()


def _settle_future(future: asyncio.Future[Any], outcome: Any) -> None:
    if not future.done():
        future.set_result(outcome)
