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
        outcome = open_runner().run(_wait_for(value), context=contextvars.copy_context())
        if outcome.error is not None:
            raise outcome.error
        return outcome.value
    close = getattr(value, "close", None) or getattr(value, "cancel", None)
    if close is not None:
        close()
    raise refuse(
        "the handler is a plain function that returns an awaitable; declare it with 'async def'"
    )


class _Outcome:
    """What an awaitable gave, or raised.

    A runner looks at what handles signals, whose `repr` is made of that of the task's result or
    exception: code of the handler, which would be run in each call that comes after it, too.
    """

    def __init__(self, value: Any, error: BaseException | None) -> None:
        self.value = value
        self.error = error


async def _wait_for(value: Any) -> _Outcome:
    try:
        return _Outcome(await value, None)
    except BaseException as error:  # noqa: BLE001 - it is raised where the runner has ended
        return _Outcome(None, error)
