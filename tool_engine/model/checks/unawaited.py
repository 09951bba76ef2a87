"""Must what a function returns be awaited, and did one that must be plain return such a thing?

This file imports nothing of the engine: a worker process loads it by its path.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any


def is_async(function: Any) -> bool:
    """Return True if a call gives a coroutine: of a function, an object, or a `partial` of one."""
    while isinstance(function, functools.partial):
        function = function.func
    call = getattr(type(function), "__call__", None)  # noqa: B004 - an object's async __call__
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def is_unawaited(value: object) -> bool:
    """Return True if the function returned an awaitable, and close it."""
    if inspect.iscoroutine(value):
        value.close()
    return inspect.isawaitable(value)
