"""How is a coroutine awaited whose first step was taken without a task?

Most work is done in one step, and what only work that waits needs is not made for it.
"""

from __future__ import annotations

import types
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

_Result = TypeVar("_Result")


@types.coroutine
def go_on(work: Coroutine[Any, Any, _Result], waited_for: Any) -> Generator[Any, Any, _Result]:
    """Await a coroutine that has taken its first step."""
    while True:
        try:
            yield waited_for
        except BaseException as error:  # noqa: BLE001 - it is the work's own to answer
            try:
                waited_for = work.throw(error)
            except StopIteration as done:
                ended: _Result = done.value
                return ended
        else:
            result: _Result = yield from work
            return result
