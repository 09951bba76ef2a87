"""Must what a handler returns be awaited, and may it?

This file imports nothing of the engine: a worker process loads it by its path.
"""

from __future__ import annotations

import contextvars
import functools
import inspect
from collections.abc import Callable
from typing import Any


def is_async(function: Any) -> bool:
    """Return True if a call gives a coroutine, as `tool_engine.model.checks.unawaited` has it."""
    while isinstance(function, functools.partial):
        function = function.func
    call = getattr(type(function), "__call__", None)  # noqa: B004 - an object's async __call__
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def await_value(
    function: Any, value: Any, open_runner: Callable[[], Any], refuse: type[Exception]
) -> Any:
    """Return what an awaitable gives; raise `refuse` where the function is a plain one.

    So does the engine in its own process: a handler does the same in each place.
    """
    if is_async(function):
        return open_runner().run(_wait_for(value), context=contextvars.copy_context())
    close = getattr(value, "close", None) or getattr(value, "cancel", None)
    if close is not None:
        close()
    raise refuse(
        "the handler is a plain function that returns an awaitable; declare it with 'async def'"
    )


async def _wait_for(value: Any) -> Any:
    return await value
