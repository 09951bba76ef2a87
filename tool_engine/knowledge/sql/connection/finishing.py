"""How is a change kept from being broken off?

One that was sent may be made all the same, and then after what comes next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

_Result = TypeVar("_Result")


async def finish_work(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Do work to its end; a caller that is cancelled meanwhile waits for that."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            # Read, so that it is not reported as lost.
            task.exception()
        raise
