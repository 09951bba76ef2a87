"""How do the calls of an engine end when it closes, and its backend?"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from tool_engine.calls.pipeline import Pipeline
from tool_engine.interfaces import AdmissionController, ExecutionBackend
from tool_engine.logger import get_logger
from tool_engine.model.json.plain import name_of

_log = get_logger(__name__)
LAST_GRACE: Final = 1.0
"""Seconds that cancelled work has to end."""
_HEAD_START: Final = 1.0
"""Seconds more that a backend gets, since it has to keep the time itself."""


async def close_backend(backend: ExecutionBackend) -> None:
    """Close a backend; one that hangs does not keep the engine from closing."""
    clock = asyncio.timeout(LAST_GRACE + _HEAD_START)
    try:
        async with clock:
            await backend.close(LAST_GRACE)
    except TimeoutError:
        if not clock.expired():
            raise
        _log.warning("close_left_backend", backend=name_of(backend))


async def end_calls(
    pipeline: Pipeline,
    controller: AdmissionController,
    timeout: float,  # noqa: ASYNC109 - what happens afterwards is up to this function
) -> None:
    """Refuse new calls, give running ones `timeout` seconds, then abort them.

    An aborted call has its record and its final event when this returns. A cancellation of this
    asks for haste: running calls are aborted without the wait.
    """
    pipeline.close()
    controller.close()
    is_done = False
    async with contextlib.AsyncExitStack() as stack:
        # The last to be entered is the first to be left, and a cancellation stops none of them.
        stack.push_async_callback(controller.drain, LAST_GRACE)
        stack.push_async_callback(pipeline.consents.drain, LAST_GRACE)
        try:
            await pipeline.consents.drain(LAST_GRACE)
            is_done = await controller.drain(timeout)
        finally:
            if not is_done:
                pipeline.abort()
                await controller.drain(LAST_GRACE)
