"""When is what foreign code raises its failure, and when must it go up?

A subscriber, an approver, a hook or a storage may raise a `BaseException` of its own, as
`pytest.fail` does. It is reported like any other failure, as executors' are.
"""

from __future__ import annotations

import asyncio

_ENDS: tuple[type[BaseException], ...] = (
    KeyboardInterrupt,
    GeneratorExit,
    asyncio.CancelledError,
)


def ends_caller(error: BaseException) -> bool:
    """True if an exception ends the caller, not only the foreign code.

    Where a cancellation may be the foreign code's own, look for that first. `SystemExit` is a
    failure: no foreign code ends the process in the middle of a call.
    """
    return isinstance(error, _ENDS)
