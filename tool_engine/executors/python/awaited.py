"""What does a handler give that returned an awaitable?

This file imports nothing of the engine: a worker process loads it by its path.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any


def await_value(value: Any, open_runner: Callable[[], Any], refuse: type[Exception] | None) -> Any:
    """Return what an awaitable gives; raise `refuse`, if given: the handler is a plain function.

    So does the engine in its own process: a handler does the same in each place.
    """
    if refuse is None:
        return open_runner().run(_wait_for(value), context=contextvars.copy_context())
    close = getattr(value, "close", None) or getattr(value, "cancel", None)
    if close is not None:
        close()
    raise refuse(
        "the handler is a plain function that returns an awaitable; declare it with 'async def'"
    )


async def _wait_for(value: Any) -> Any:
    return await value
