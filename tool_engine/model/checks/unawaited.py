"""Did a function that must be plain return something to await?"""

from __future__ import annotations

import inspect


def is_unawaited(value: object) -> bool:
    """Return True if the function returned an awaitable, and close it."""
    if inspect.iscoroutine(value):
        value.close()
    return inspect.isawaitable(value)
